//! A bucket in a folder, on a removable or network disk.
//!
//! ```text
//! <folder>/.lock               makes it a remote; orders what is compared and swapped
//! <folder>/.incoming/<salt>-n  files that are being written, locked by their writers
//! <folder>/<key>               the objects
//! ```
//!
//! A file gets its name when it is whole and durable, and is never changed: a reader that has it
//! open reads one state, and a crash leaves the old or the new one. An acknowledged write is
//! durable. A state that was read before its write was acknowledged may be lost in a crash of the
//! machine. Files and folders are readable by their owner only, as in a store.

use std::collections::BTreeSet;
use std::fmt;
use std::io::{self, ErrorKind};
use std::ops::Range;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use bytes::Bytes;

use super::bucket::{Bucket, Got, Key, Listed, Page, Put, Version};
use crate::error::{Error, ErrorKind as Kind, Result};
use crate::object::Checksum;
use crate::platform::is_link_refusal;
use crate::store::{Access, Io, IoFile, ReadAt};

/// Maximum size of an object that changes by compare-and-swap: its version is a hash of all its
/// bytes. For larger, immutable objects only the size and the ends are hashed, because reading a
/// range must not read the whole file.
pub const MAX_CHANGEABLE_BYTES: usize = 1 << 20;

/// Hashed bytes at each end of larger objects.
const END_BYTES: u64 = 64 << 10;

/// Bytes per copy step.
const COPY_BYTES: usize = 1 << 20;

/// Timeout for the lock, which is held for a comparison and a rename.
const LOCK_TIMEOUT: Duration = Duration::from_secs(10);

const LOCK: &str = ".lock";
const INCOMING: &str = ".incoming";

/// A folder whose files are the objects of a remote.
///
/// The version of an object is a hash of its bytes. Equal bytes have equal versions, but a mutable
/// object never has the same bytes twice: it contains a random push id.
#[derive(Debug)]
pub struct FolderBucket {
    io: Arc<dyn Io>,
    root: PathBuf,
    /// Prefix of temporary file names, unique to this handle.
    salt: [u8; 16],
    files: AtomicU64,
    is_swept: AtomicBool,
    /// Folders whose names are durable.
    durable: Mutex<BTreeSet<PathBuf>>,
}

impl FolderBucket {
    /// Opens a folder that is a remote. `salt` is random, and used once.
    ///
    /// # Errors
    /// `NotFound` if the folder is not a remote, such as when its disk is not mounted; `Io` if it
    /// cannot be read.
    pub fn open(io: Arc<dyn Io>, root: impl Into<PathBuf>, salt: [u8; 16]) -> Result<Self> {
        let bucket = Self::new(io, root.into(), salt);
        match bucket.io.identity(&bucket.root.join(LOCK)) {
            Ok(_) => Ok(bucket),
            Err(error) if error.kind() == ErrorKind::NotFound => {
                Err(bucket.missing_error(Kind::NotFound))
            }
            Err(error) => Err(failed("inspect", &bucket.root.join(LOCK))(error)),
        }
    }

    /// Creates a remote in a folder if needed, and opens it; the parent folder must exist.
    ///
    /// # Errors
    /// `Io` if creating it fails.
    pub fn create(io: Arc<dyn Io>, root: impl Into<PathBuf>, salt: [u8; 16]) -> Result<Self> {
        let bucket = Self::new(io, root.into(), salt);
        let Self { io, root, .. } = &bucket;
        let made = none_on(ErrorKind::AlreadyExists, io.create_dir(root));
        if made.map_err(failed("create", root))?.is_some() {
            let above = root.parent().filter(|above| !above.as_os_str().is_empty());
            let above = above.unwrap_or_else(|| Path::new("."));
            io.sync_dir(above).map_err(failed("sync", above))?;
        }
        let lock = root.join(LOCK);
        none_on(ErrorKind::AlreadyExists, io.create(&lock)).map_err(failed("create", &lock))?;
        io.sync_dir(root).map_err(failed("sync", root))?;
        Ok(bucket)
    }

    fn new(io: Arc<dyn Io>, root: PathBuf, salt: [u8; 16]) -> Self {
        let (files, is_swept, durable) =
            (AtomicU64::new(0), AtomicBool::new(false), Mutex::default());
        Self { io, root, salt, files, is_swept, durable }
    }

    fn missing_error(&self, kind: Kind) -> Error {
        let root = self.root.display();
        Error::new(kind, format!("{root} is not the folder of a remote: is its disk mounted?"))
    }

    fn path(&self, key: &Key) -> PathBuf {
        self.root.join(key.as_str())
    }

    /// Returns the folders of a path below the root, topmost first, without the root.
    fn folders<'a>(&self, path: &'a Path) -> Vec<&'a Path> {
        let above = path.ancestors().skip(1);
        let mut folders: Vec<&Path> = above.take_while(|folder| **folder != *self.root).collect();
        folders.reverse();
        folders
    }

    /// Returns true for a folder, and false for a link, which could point outside; `None` if
    /// nothing exists.
    fn is_folder(&self, path: &Path) -> Result<Option<bool>> {
        let looked = none_on(ErrorKind::NotFound, self.io.identity(path));
        let Some(found) = looked.map_err(failed("inspect", path))? else { return Ok(None) };
        // `link/.` is the folder that the link points to, and `file/.` does not exist.
        match self.io.identity(&path.join(".")) {
            Ok(within) => Ok(Some(within == found)),
            Err(error) if error.kind() == ErrorKind::NotADirectory || is_no_file(&error) => {
                Ok(Some(false))
            }
            Err(error) => Err(failed("inspect", path)(error)),
        }
    }

    /// Opens the file of an object, if it exists.
    fn open_object(&self, key: &Key) -> Result<Option<Arc<dyn IoFile>>> {
        let path = self.path(key);
        for folder in self.folders(&path) {
            match self.is_folder(folder)? {
                Some(true) => {}
                Some(false) => return Err(not_a_folder(folder)),
                None => return self.missing(),
            }
        }
        let opened = none_on(ErrorKind::NotFound, self.io.open(&path, Access::Read));
        match opened.map_err(failed("open", &path))? {
            Some(file) => Ok(Some(file)),
            None => self.missing(),
        }
    }

    /// Returns `None` for a missing object, or an error if the whole folder is missing.
    fn missing<T>(&self) -> Result<Option<T>> {
        match self.io.identity(&self.root.join(LOCK)) {
            Ok(_) => Ok(None),
            Err(error) => Err(self.missing_error(Kind::Io).with_source(error)),
        }
    }

    /// Creates the folders of a path, with durable names.
    fn make_folders(&self, path: &Path) -> Result<()> {
        for folder in self.folders(path) {
            let mut durable = self.durable.lock().unwrap_or_else(PoisonError::into_inner);
            if durable.contains(folder) {
                continue;
            }
            let made = none_on(ErrorKind::AlreadyExists, self.io.create_dir(folder));
            made.map_err(failed("create", folder))?;
            if self.is_folder(folder)? != Some(true) {
                return Err(not_a_folder(folder));
            }
            // Needed also if another process created it, perhaps just now.
            self.sync_name(folder)?;
            durable.insert(folder.to_owned());
        }
        Ok(())
    }

    /// Makes the name of a path durable.
    fn sync_name(&self, path: &Path) -> Result<()> {
        let folder = path.parent().unwrap_or(&self.root);
        self.io.sync_dir(folder).map_err(failed("sync", folder))
    }

    /// Writes a temporary file, whole and durable.
    fn write(&self, from: &dyn ReadAt) -> Result<TemporaryFile<'_>> {
        let incoming = self.root.join(INCOMING);
        if self.io.identity(&self.root.join(LOCK)).is_err() {
            return Err(self.missing_error(Kind::Io));
        }
        let made = none_on(ErrorKind::AlreadyExists, self.io.create_dir(&incoming));
        made.map_err(failed("create", &incoming))?;
        if self.is_folder(&incoming)? != Some(true) {
            return Err(not_a_folder(&incoming));
        }
        if !self.is_swept.swap(true, Ordering::Relaxed) {
            self.sweep(&incoming);
        }
        let file = self.create_incoming(&incoming)?;
        copy(from, &*file.file, &file.path)?;
        file.file.sync_data().map_err(failed("sync", &file.path))?;
        Ok(file)
    }

    fn create_incoming(&self, incoming: &Path) -> Result<TemporaryFile<'_>> {
        loop {
            let number = self.files.fetch_add(1, Ordering::Relaxed);
            let path = incoming.join(format!("{:032x}-{number}", u128::from_be_bytes(self.salt)));
            let made = none_on(ErrorKind::AlreadyExists, self.io.create(&path));
            let Some(file) = made.map_err(failed("create", &path))? else { continue };
            let file = TemporaryFile { io: &*self.io, path, file };
            // Another handle may have swept the file away before it was locked.
            if file.lock()? && self.io.identity(&file.path).is_ok() {
                return Ok(file);
            }
        }
    }

    /// Removes files of killed writers, which are not locked. A file that cannot be removed is
    /// harmless.
    fn sweep(&self, incoming: &Path) {
        for name in self.io.list(incoming).unwrap_or_default() {
            let path = incoming.join(name);
            let Ok(file) = self.io.open(&path, Access::Write) else { continue };
            if file.lock(Duration::ZERO).is_ok_and(|is_locked| is_locked) {
                let _ = self.io.remove(&path);
            }
        }
    }

    /// Takes the lock that orders compare-and-swaps; dropping the returned file releases it.
    fn lock(&self) -> Result<Arc<dyn IoFile>> {
        let path = self.root.join(LOCK);
        let file = self.io.open(&path, Access::Write).map_err(failed("open", &path))?;
        let message =
            || format!("{}: another process held the lock for {LOCK_TIMEOUT:?}", path.display());
        if !file.lock(LOCK_TIMEOUT).map_err(failed("lock", &path))? {
            return Err(Error::new(Kind::Locked, message()));
        }
        // Otherwise other processes lock a different file, and this lock excludes none of them.
        let named = self.io.identity(&path).map_err(failed("inspect", &path))?;
        if named != file.identity().map_err(failed("inspect", &path))? {
            let message = format!("{} was replaced after it was opened", path.display());
            return Err(Error::new(Kind::Io, message));
        }
        Ok(file)
    }

    /// Writes an object if its version is the expected one.
    fn put(&self, key: &Key, bytes: &Bytes, seen: Option<&Version>) -> Result<Put> {
        if bytes.len() > MAX_CHANGEABLE_BYTES {
            let limit = MAX_CHANGEABLE_BYTES as u64;
            return Err(Error::limit("bytes of a mutable object", limit, bytes.len() as u64));
        }
        let path = self.path(key);
        let incoming = self.write(&Memory(bytes))?;
        self.make_folders(&path)?;
        let lock = self.lock()?;
        let there = self.open_object(key)?.map(|file| version(&*file, key)).transpose()?;
        if there.as_ref() != seen {
            return Ok(Put::Lost);
        }
        let named = match seen {
            // Linking never overwrites, even if the file system only pretends to lock.
            None => self.io.link(&incoming.path, &path),
            Some(_) => self.io.replace(&incoming.path, &path),
        };
        drop(lock);
        match named {
            Ok(()) => {}
            Err(error) if error.kind() == ErrorKind::AlreadyExists => return Ok(Put::Lost),
            Err(error) if is_refusal(&error) => return Err(failed("name", &path)(error)),
            Err(_) => return Ok(Put::Unknown),
        }
        match self.sync_name(&path) {
            Ok(()) => Ok(Put::Done(version_of(bytes.len() as u64, bytes, &[]))),
            Err(_) => Ok(Put::Unknown),
        }
    }

    /// Collects the keys below a folder that begin with a prefix.
    fn collect_keys(&self, folder: &str, prefix: &str, keys: &mut BTreeSet<Key>) -> Result<()> {
        let path = self.root.join(folder);
        let names =
            none_on(ErrorKind::NotFound, self.io.list(&path)).map_err(failed("list", &path))?;
        for name in names.unwrap_or_default() {
            let inner = if folder.is_empty() { name } else { format!("{folder}/{name}") };
            // Other files in the folder, of users or of the system, are not objects.
            let Ok(key) = Key::new(inner) else { continue };
            let could_hold = prefix.starts_with(&format!("{key}/"));
            let is_asked = key.as_str().starts_with(prefix);
            if !could_hold && !is_asked {
                continue;
            }
            match self.is_folder(&self.path(&key))? {
                Some(true) => self.collect_keys(key.as_str(), prefix, keys)?,
                Some(false) if is_asked => drop(keys.insert(key)),
                _ => {}
            }
        }
        Ok(())
    }

    /// Returns the listing entry of an object; `None` for a deleted object and for a link.
    ///
    /// # Errors
    /// `Corrupt` for a pipe, a socket or a device with the name of an object.
    fn listing_entry(&self, key: Key) -> Result<Option<Listed>> {
        let path = self.path(&key);
        let file = match self.io.open(&path, Access::Read) {
            Ok(file) => file,
            Err(error) if error.kind() == ErrorKind::InvalidInput => {
                return Err(Error::corrupt(
                    path.display(),
                    "a file",
                    "a pipe, a socket or a device",
                ));
            }
            Err(error) if is_no_file(&error) => return Ok(None),
            Err(error) => return Err(failed("open", &path)(error)),
        };
        let size = file.size().map_err(failed("read", &path))?;
        let version = version(&*file, &key)?;
        Ok(Some(Listed { key, size, version }))
    }
}

impl Bucket for FolderBucket {
    fn get(&self, key: &Key, range: Option<Range<u64>>, unless: Option<&Version>) -> Result<Got> {
        let Some(file) = self.open_object(key)? else { return Ok(Got::Missing) };
        let version = version(&*file, key)?;
        if unless == Some(&version) {
            return Ok(Got::Same);
        }
        let size = file.size().map_err(failed_on(key))?;
        let range = range.unwrap_or(0..size);
        let bytes = read(&*file, range.start.min(size)..range.end.min(size), key)?;
        Ok(Got::Bytes { bytes: bytes.into(), version, size })
    }

    fn put_new(&self, key: &Key, bytes: Bytes) -> Result<Put> {
        self.put(key, &bytes, None)
    }

    fn put_over(&self, key: &Key, bytes: Bytes, seen: &Version) -> Result<Put> {
        self.put(key, &bytes, Some(seen))
    }

    fn upload(&self, key: &Key, from: &dyn ReadAt) -> Result<()> {
        let path = self.path(key);
        let incoming = self.write(from)?;
        self.make_folders(&path)?;
        self.io.replace(&incoming.path, &path).map_err(failed("name", &path))?;
        self.sync_name(&path)
    }

    /// Returns everything in one page: a second page would walk the folders again.
    fn list(&self, prefix: &str, after: Option<&Key>) -> Result<Page> {
        self.missing::<()>()?;
        let mut keys = BTreeSet::new();
        self.collect_keys("", prefix, &mut keys)?;
        let asked = keys.into_iter().filter(|key| after.is_none_or(|after| key > after));
        let looked = asked.filter_map(|key| self.listing_entry(key).transpose());
        Ok(Page { objects: looked.collect::<Result<_>>()?, has_more: false })
    }

    fn delete(&self, keys: &[Key]) -> Result<()> {
        // Under the lock: otherwise a compared object could be deleted before it is replaced, and
        // reappear.
        let lock = self.lock()?;
        let mut folders = BTreeSet::new();
        for key in keys {
            let path = self.path(key);
            let way = self.folders(&path);
            let is_there = |folder: &&Path| self.is_folder(folder).map(|is| is == Some(true));
            if !way.iter().map(is_there).collect::<Result<Vec<_>>>()?.contains(&false) {
                let removed = none_on(ErrorKind::NotFound, self.io.remove(&path));
                removed.map_err(failed("remove", &path))?;
                folders.extend(path.parent().map(Path::to_owned));
            }
        }
        drop(lock);
        folders.iter().try_for_each(|dir| self.io.sync_dir(dir).map_err(failed("sync", dir)))
    }
}

/// A temporary file, until it is renamed or dropped.
struct TemporaryFile<'a> {
    io: &'a dyn Io,
    path: PathBuf,
    file: Arc<dyn IoFile>,
}

impl TemporaryFile<'_> {
    fn lock(&self) -> Result<bool> {
        self.file.lock(Duration::ZERO).map_err(failed("lock", &self.path))
    }
}

impl Drop for TemporaryFile<'_> {
    fn drop(&mut self) {
        // A sweep by another handle removes the file if this fails.
        let _ = self.io.remove(&self.path);
    }
}

/// Bytes to write.
#[derive(Debug)]
struct Memory<'a>(&'a [u8]);

impl ReadAt for Memory<'_> {
    fn read_at(&self, buffer: &mut [u8], offset: u64) -> io::Result<usize> {
        let start = usize::try_from(offset).unwrap_or(usize::MAX).min(self.0.len());
        let mut rest = self.0.get(start..).unwrap_or_default();
        io::Read::read(&mut rest, buffer)
    }

    fn size(&self) -> io::Result<u64> {
        Ok(self.0.len() as u64)
    }
}

fn copy(from: &dyn ReadAt, to: &dyn IoFile, path: &Path) -> Result<()> {
    let source = |error| Error::io("read the upload", error);
    let size = from.size().map_err(source)?;
    let most = usize::try_from(size).unwrap_or(COPY_BYTES).min(COPY_BYTES);
    let (mut buffer, mut at) = (vec![0; most], 0);
    while at < size {
        let read = from.read_at(&mut buffer, at).map_err(source)?;
        let bytes = buffer.get(..read).filter(|bytes| !bytes.is_empty());
        let bytes = bytes.ok_or_else(|| source(ErrorKind::UnexpectedEof.into()))?;
        to.write_at(bytes, at).map_err(failed("write", path))?;
        at += read as u64;
    }
    Ok(())
}

/// Reads a range of an immutable file.
fn read(file: &dyn IoFile, range: Range<u64>, key: &Key) -> Result<Vec<u8>> {
    let bytes = usize::try_from(range.end.saturating_sub(range.start));
    let mut bytes =
        vec![0; bytes.map_err(|_| Error::invalid(format!("{key}: the range is too long")))?];
    if file.read_at(&mut bytes, range.start).map_err(failed_on(key))? < bytes.len() {
        return Err(failed_on(key)(ErrorKind::UnexpectedEof.into()));
    }
    Ok(bytes)
}

fn version(file: &dyn IoFile, key: &Key) -> Result<Version> {
    let size = file.size().map_err(failed_on(key))?;
    if size <= MAX_CHANGEABLE_BYTES as u64 {
        return Ok(version_of(size, &read(file, 0..size, key)?, &[]));
    }
    let (head, tail) = (read(file, 0..END_BYTES, key)?, read(file, size - END_BYTES..size, key)?);
    Ok(version_of(size, &head, &tail))
}

fn version_of(size: u64, head: &[u8], tail: &[u8]) -> Version {
    let mut checksum = Checksum::new("turntree v1 version of an object in a folder");
    let hash = checksum.update(&size.to_le_bytes()).update(head).update(tail).finish();
    Version(hash.iter().take(16).map(|byte| format!("{byte:02x}")).collect())
}

/// Converts one kind of error to `None`.
fn none_on<T>(absent: ErrorKind, answer: io::Result<T>) -> io::Result<Option<T>> {
    match answer {
        Err(source) if source.kind() == absent => Ok(None),
        answer => answer.map(Some),
    }
}

/// Returns true if the error means that nothing was changed.
fn is_refusal(error: &io::Error) -> bool {
    let refusals = [
        ErrorKind::PermissionDenied,
        ErrorKind::NotFound,
        ErrorKind::NotADirectory,
        ErrorKind::IsADirectory,
        ErrorKind::ReadOnlyFilesystem,
        ErrorKind::StorageFull,
        ErrorKind::QuotaExceeded,
        ErrorKind::Unsupported,
        ErrorKind::TooManyLinks,
    ];
    refusals.contains(&error.kind())
}

/// Returns true for a link, a pipe or a missing file, and false for an unreadable file.
fn is_no_file(error: &io::Error) -> bool {
    matches!(error.kind(), ErrorKind::NotFound | ErrorKind::InvalidInput) || is_link_refusal(error)
}

fn not_a_folder(path: &Path) -> Error {
    Error::new(Kind::Io, format!("{} is not a folder", path.display()))
}

fn failed(action: &str, path: &Path) -> impl Fn(io::Error) -> Error {
    move |source| Error::io(format!("{action} {}", path.display()), source)
}

fn failed_on(key: &Key) -> impl Fn(io::Error) -> Error + use<'_> {
    move |source| Error::io(format!("read {key}"), source)
}

impl fmt::Debug for TemporaryFile<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.path.fmt(f)
    }
}
