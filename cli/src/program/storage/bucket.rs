//! The operations of a remote on object storage.
//!
//! A conditional write that was repeated on its way fails against its own first copy, and a timeout
//! does not say whether it was done. In both cases the caller must read the object again and look
//! for its own content.

use std::fmt;
use std::ops::Range;
use std::sync::OnceLock;

use bytes::Bytes;
use futures_util::{StreamExt as _, TryStreamExt as _, stream};
use object_store::path::Path;
use object_store::{
    GetOptions, GetRange, GetResult, ObjectMeta, ObjectStore, ObjectStoreExt as _, PutMode,
    PutOptions, PutPayload, PutResult, UpdateVersion,
};
use tokio::runtime::{Builder, Runtime};
use turntree::store::ReadAt;
use turntree::transfer::remote::{Bucket, Got, Key, Listed, Page, Put, Version};
use turntree::{Error, ErrorKind, Result};

use super::failure::{Outcome, failure, is_beyond_the_end, is_bucket_missing, outcome};
use super::place::{Place, Service};
use super::services;

/// Larger objects are uploaded in parts of so many bytes.
const PART_BYTES: usize = 16 << 20;

/// Objects of one page of a listing: about a hundred requests.
const MAX_LISTED: usize = 100_000;

/// A bucket of object storage, below a prefix.
pub(crate) struct StorageBucket {
    store: Box<dyn ObjectStore>,
    service: Service,
    prefix: Option<String>,
    shown: String,
}

impl fmt::Debug for StorageBucket {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("StorageBucket").field(&self.shown).finish()
    }
}

impl StorageBucket {
    /// Opens a bucket.
    pub(super) fn open(place: &Place) -> Result<Self> {
        let store = services::connect(place)?;
        let (prefix, shown) = (place.prefix.clone(), place.shown());
        Ok(Self { store, service: place.service, prefix, shown })
    }

    fn path(&self, key: &str) -> Result<Path> {
        let path = match &self.prefix {
            Some(prefix) => format!("{prefix}/{key}"),
            None => key.to_owned(),
        };
        Path::parse(path).map_err(|error| Error::invalid(format!("{key} is not a key: {error}")))
    }

    /// The key of a listed object; `None` if it does not belong to a remote.
    fn key(&self, path: &Path) -> Option<Key> {
        let path = path.as_ref();
        let inner = match &self.prefix {
            Some(prefix) => path.strip_prefix(prefix.as_str())?.strip_prefix('/')?,
            None => path,
        };
        Key::new(inner).ok()
    }

    fn failed(&self, action: &str, key: &str, error: &object_store::Error) -> Error {
        failure(&format!("{action} {key} in {}", self.shown), error)
    }

    fn missing_bucket(&self) -> Error {
        Error::not_found(format!("the storage has no bucket {}", self.shown))
    }

    /// The version of an object: its ETag, and on GCS also the generation, which conditional writes
    /// compare.
    fn version(&self, e_tag: Option<&str>, generation: Option<&str>) -> Result<Version> {
        let unknown = || {
            let message = format!("{} answers without an ETag: is it object storage?", self.shown);
            Error::new(ErrorKind::Io, message)
        };
        let e_tag = e_tag.filter(|tag| !tag.is_empty()).ok_or_else(unknown)?;
        Ok(Version(match (self.service, generation) {
            (Service::Gcs, Some(generation)) => format!("{e_tag} {generation}"),
            // Listings of Azure omit the quotes.
            (Service::Azure, _) if !e_tag.starts_with('"') => format!("\"{e_tag}\""),
            _ => e_tag.to_owned(),
        }))
    }

    fn put(&self, key: &Key, bytes: Bytes, mode: PutMode) -> Result<Put> {
        let (path, is_new) = (self.path(key.as_str())?, matches!(mode, PutMode::Create));
        let options = PutOptions { mode, ..PutOptions::default() };
        let put = self.store.put_opts(&path, PutPayload::from_bytes(bytes), options);
        match wait(put)? {
            Ok(PutResult { e_tag, version, .. }) => {
                // The write is done. Without a version, the caller reads the object again.
                let version = self.version(e_tag.as_deref(), version.as_deref());
                Ok(version.map_or(Put::Unknown, Put::Done))
            }
            Err(error) if is_bucket_missing(&error) => Err(self.missing_bucket()),
            Err(error) => match outcome(&error, self.service, is_new) {
                Outcome::Lost => Ok(Put::Lost),
                Outcome::Unknown => Ok(Put::Unknown),
                Outcome::Refused => Err(self.failed("write", key.as_str(), &error)),
            },
        }
    }

    /// Reads the size and the version of an object, without its bytes.
    fn look(&self, key: &Key, path: &Path) -> Result<Got> {
        match wait(self.store.head(path))? {
            Ok(ObjectMeta { size, e_tag, version, .. }) => {
                let version = self.version(e_tag.as_deref(), version.as_deref())?;
                Ok(Got::Bytes { bytes: Bytes::new(), version, size })
            }
            Err(object_store::Error::NotFound { .. }) => Ok(Got::Missing),
            Err(error) => Err(self.failed("inspect", key.as_str(), &error)),
        }
    }

    /// Uploads a large object in parts.
    async fn upload_parts(&self, path: &Path, from: &dyn ReadAt, size: u64) -> Result<(), Trouble> {
        let mut upload = self.store.put_multipart(path).await.map_err(Trouble::Storage)?;
        let mut sent = Ok(());
        let mut at = 0;
        while sent.is_ok() && at < size {
            sent = match read_part(from, at, size) {
                Ok(part) => {
                    at += part.len() as u64;
                    upload.put_part(part.into()).await.map_err(Trouble::Storage)
                }
                Err(error) => Err(Trouble::Source(error)),
            };
        }
        if let Err(trouble) = sent {
            // Parts that remain are not an object, and lifecycle rules of the bucket delete them.
            let _ = upload.abort().await;
            return Err(trouble);
        }
        upload.complete().await.map(drop).map_err(Trouble::Storage)
    }
}

/// Why an upload failed.
enum Trouble {
    Source(Error),
    Storage(object_store::Error),
}

impl Bucket for StorageBucket {
    fn get(&self, key: &Key, range: Option<Range<u64>>, unless: Option<&Version>) -> Result<Got> {
        let path = self.path(key.as_str())?;
        let is_nothing = range.as_ref().is_some_and(|range| range.start >= range.end);
        if is_nothing && unless.is_none() {
            return self.look(key, &path);
        }
        let tag = unless.map(|Version(token)| e_tag_of(token).to_owned());
        let options = GetOptions {
            if_none_match: tag,
            range: range.filter(|_| !is_nothing).map(GetRange::Bounded),
            ..GetOptions::default()
        };
        let got = async {
            let result: GetResult = self.store.get_opts(&path, options).await?;
            let (meta, asked) = (result.meta.clone(), result.range.clone());
            Ok((meta, asked, result.bytes().await?))
        };
        let (meta, asked, bytes) = match wait(got)? {
            Ok(got) => got,
            Err(object_store::Error::NotModified { .. }) => return Ok(Got::Same),
            Err(error) if is_bucket_missing(&error) => return Err(self.missing_bucket()),
            Err(object_store::Error::NotFound { .. }) => return Ok(Got::Missing),
            Err(error) if is_beyond_the_end(&error) => return self.look(key, &path),
            Err(error) => return Err(self.failed("read", key.as_str(), &error)),
        };
        if asked.end.saturating_sub(asked.start) != bytes.len() as u64 {
            let error = std::io::Error::from(std::io::ErrorKind::UnexpectedEof);
            return Err(Error::io(format!("read {key} in {}", self.shown), error));
        }
        let version = self.version(meta.e_tag.as_deref(), meta.version.as_deref())?;
        let bytes = if is_nothing { Bytes::new() } else { bytes };
        Ok(Got::Bytes { bytes, version, size: meta.size })
    }

    fn put_new(&self, key: &Key, bytes: Bytes) -> Result<Put> {
        self.put(key, bytes, PutMode::Create)
    }

    fn put_over(&self, key: &Key, bytes: Bytes, seen: &Version) -> Result<Put> {
        let Version(token) = seen;
        let generation = token.split_once(' ').map(|(_, generation)| generation.to_owned());
        let e_tag = Some(e_tag_of(token).to_owned());
        self.put(key, bytes, PutMode::Update(UpdateVersion { e_tag, version: generation }))
    }

    fn upload(&self, key: &Key, from: &dyn ReadAt) -> Result<()> {
        let path = self.path(key.as_str())?;
        let size = from.size().map_err(|error| Error::io("read the upload", error))?;
        let sent = async {
            if size > PART_BYTES as u64 {
                return self.upload_parts(&path, from, size).await;
            }
            let bytes = read_part(from, 0, size).map_err(Trouble::Source)?;
            self.store.put(&path, bytes.into()).await.map(drop).map_err(Trouble::Storage)
        };
        wait(sent)?.map_err(|trouble| match trouble {
            Trouble::Source(error) => error,
            Trouble::Storage(error) if is_bucket_missing(&error) => self.missing_bucket(),
            Trouble::Storage(error) => self.failed("upload", key.as_str(), &error),
        })
    }

    fn list(&self, prefix: &str, after: Option<&Key>) -> Result<Page> {
        // The storage lists whole folders; the prefix within the folder is compared here.
        let folder = prefix.rsplit_once('/').map(|(folder, _)| folder);
        let folder = match (folder, &self.prefix) {
            (None, None) => None,
            (None, Some(prefix)) => Some(Path::parse(prefix)),
            (Some(folder), _) => Some(Ok(self.path(folder)?)),
        };
        let folder = folder.transpose().map_err(|error| Error::invalid(error.to_string()))?;
        let offset = after.map(|key| self.path(key.as_str())).transpose()?;
        let objects = match &offset {
            Some(offset) => self.store.list_with_offset(folder.as_ref(), offset),
            None => self.store.list(folder.as_ref()),
        };
        let objects: std::result::Result<Vec<ObjectMeta>, _> =
            wait(objects.take(MAX_LISTED).try_collect())?;
        let objects = match objects {
            Ok(objects) => objects,
            Err(error) if is_bucket_missing(&error) => return Err(self.missing_bucket()),
            Err(error) => return Err(self.failed("list", prefix, &error)),
        };
        let has_more = objects.len() == MAX_LISTED;
        let listed = objects.into_iter().filter_map(|object| {
            let key = self.key(&object.location)?;
            let is_asked =
                key.as_str().starts_with(prefix) && after.is_none_or(|after| key > *after);
            let version = || self.version(object.e_tag.as_deref(), object.version.as_deref());
            is_asked.then(|| Ok(Listed { size: object.size, version: version()?, key }))
        });
        Ok(Page { objects: listed.collect::<Result<_>>()?, has_more })
    }

    fn delete(&self, keys: &[Key]) -> Result<()> {
        let paths: Vec<Path> =
            keys.iter().map(|key| self.path(key.as_str())).collect::<Result<_>>()?;
        let delete = async {
            // Only S3 deletes several objects in one request.
            if paths.len() == 1 || self.service != Service::S3 {
                let mut deleted = Vec::new();
                for path in &paths {
                    deleted.push(self.store.delete(path).await);
                }
                return deleted;
            }
            let paths = stream::iter(paths.into_iter().map(Ok)).boxed();
            self.store.delete_stream(paths).map_ok(drop).collect().await
        };
        for deleted in wait(delete)? {
            match deleted {
                Ok(()) | Err(object_store::Error::NotFound { .. }) => {}
                Err(error) => return Err(self.failed("delete objects", "of a remote", &error)),
            }
        }
        Ok(())
    }
}

/// The part of a version that the storage compares on reads.
fn e_tag_of(token: &str) -> &str {
    token.split_once(' ').map_or(token, |(e_tag, _)| e_tag)
}

/// Reads the part of a source that begins at `at`.
fn read_part(from: &dyn ReadAt, at: u64, size: u64) -> Result<Vec<u8>> {
    let length = usize::try_from(size.saturating_sub(at)).unwrap_or(usize::MAX).min(PART_BYTES);
    from.read_part(at, length).map_err(|error| Error::io("read the upload", error))
}

/// Runs a future of `object_store` on this thread. The runtime only needs a clock, because requests
/// block.
fn wait<T>(work: impl Future<Output = T>) -> Result<T> {
    static RUNTIME: OnceLock<std::io::Result<Runtime>> = OnceLock::new();
    match RUNTIME.get_or_init(|| Builder::new_current_thread().enable_time().build()) {
        Ok(runtime) => Ok(runtime.block_on(work)),
        Err(error) => Err(Error::io("start to send requests", error.kind().into())),
    }
}
