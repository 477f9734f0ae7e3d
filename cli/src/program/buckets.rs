//! Opens the bucket of a remote by its URL, and gives a store access to remote-only objects.

use std::path::PathBuf;
use std::sync::Arc;

use turntree::local::random_bytes;
use turntree::platform::canonical;
use turntree::repo::Repository;
use turntree::store::RealIo;
use turntree::transfer::remote::{Bucket, FolderBucket, Hex, KeysDocument, RemoteRanges};
use turntree::{Error, ErrorKind, Result};

#[cfg(feature = "postgres")]
use super::database;
use super::ssh::Host;
#[cfg(feature = "storage")]
use super::storage;
use super::{remote_keys, trust};
use crate::platform::path_of_address;
use crate::view::advice::Advice;

/// The target of a URL.
enum Place {
    Folder(PathBuf),
    Host(Host),
    #[cfg(feature = "storage")]
    Storage,
    #[cfg(feature = "postgres")]
    Database,
}

/// Returns the URL to record: the absolute path for an existing folder.
pub(crate) fn absolute_url(url: &str) -> Result<String> {
    match place(url)? {
        Place::Folder(path) if scheme(url).is_none() => {
            let path = canonical(&path)
                .map_err(|_| Error::not_found(format!("there is no folder {url}")))?;
            let text = path.to_str().map(str::to_owned);
            text.ok_or_else(|| Error::invalid("the path of a remote is not UTF-8"))
        }
        _ => Ok(url.to_owned()),
    }
}

/// Opens the bucket of a URL. A folder of this machine must exist; other buckets are contacted on
/// first use.
pub(crate) fn open_bucket(url: &str) -> Result<Box<dyn Bucket>> {
    match place(url)? {
        Place::Folder(path) => {
            Ok(Box::new(FolderBucket::open(Arc::new(RealIo), path, random_bytes())?))
        }
        Place::Host(host) => Ok(Box::new(host.bucket(false))),
        #[cfg(feature = "storage")]
        Place::Storage => Ok(Box::new(storage::open(url)?)),
        #[cfg(feature = "postgres")]
        Place::Database => database::open(url),
    }
}

/// Opens the bucket of a URL for a new remote: creates a folder or the tables of a database,
/// or tries object storage.
pub(crate) fn make_bucket(url: &str) -> Result<Box<dyn Bucket>> {
    match place(url)? {
        Place::Folder(path) => {
            Ok(Box::new(FolderBucket::create(Arc::new(RealIo), path, random_bytes())?))
        }
        Place::Host(host) => Ok(Box::new(host.bucket(true))),
        #[cfg(feature = "storage")]
        Place::Storage => storage::open_tried(url),
        #[cfg(feature = "postgres")]
        Place::Database => database::open_made(url),
    }
}

/// Lets a store read its remote-only objects. No bucket is opened before it is needed.
pub(super) fn attach(repo: &Repository) {
    if !repo.store().has_distant() {
        return;
    }
    // A store that came with its folder chooses the host, the path and the account, so it is not
    // contacted without consent.
    if !trust::may_reach_remotes(repo) {
        let dir = repo.dir().display().to_string();
        let refused = move |name: &str| -> Result<Arc<dyn Bucket>> {
            let message = format!(
                "the store {dir} is not trusted, so nothing is read from its remote {name}"
            );
            let advice = Advice::from("run 'turntree trust' if you know who created the store");
            Err(Error::invalid(message).with_source(advice))
        };
        repo.store().set_range_source(Arc::new(RemoteRanges::new(refused)));
        return;
    }
    // Commands that use remotes report an unreadable list; here its objects are just missing.
    let remotes = repo.remotes().unwrap_or_default();
    let open = move |name: &str| -> Result<Arc<dyn Bucket>> {
        let missing = || Error::not_found(format!("there is no remote '{name}'"));
        let entry = remotes.get(name).ok_or_else(missing)?;
        let bucket: Arc<dyn Bucket> = Arc::from(open_bucket(&entry.url)?);
        let Some(known) = &entry.keys else { return Ok(bucket) };
        let id = Hex::parse(&entry.id).ok_or_else(missing)?;
        let document = KeysDocument::decode(known.as_bytes(), &id)?;
        let keys = remote_keys::unwrap(&document, name)
            .map_err(|failure| Error::new(ErrorKind::Encrypted, failure.message()))?;
        Ok(Arc::new(remote_keys::sealed(bucket, &document, keys)))
    };
    repo.store().set_range_source(Arc::new(RemoteRanges::new(open)));
}

fn scheme(url: &str) -> Option<&str> {
    url.split_once("://").map(|(scheme, _)| scheme)
}

fn place(url: &str) -> Result<Place> {
    if let Some(path) = url.strip_prefix("file://").filter(|path| path.starts_with('/')) {
        return Ok(Place::Folder(path_of_address(path)));
    }
    match scheme(url) {
        None | Some("ssh") => {
            Ok(Host::parse(url)?.map_or_else(|| Place::Folder(url.into()), Place::Host))
        }
        #[cfg(feature = "storage")]
        Some(scheme) if storage::is_storage(scheme) => Ok(Place::Storage),
        #[cfg(feature = "postgres")]
        Some(scheme) if database::is_database(scheme) => Ok(Place::Database),
        Some(scheme) => {
            let storage = if cfg!(feature = "storage") { ", s3://, gs://, az://" } else { "" };
            let database = if cfg!(feature = "postgres") { ", postgres://" } else { "" };
            let message = format!(
                "a remote of the kind {scheme}://: expected a folder, file:///path, \
                 ssh://{storage}{database}"
            );
            Err(Error::new(ErrorKind::Unsupported, message))
        }
    }
}
