//! The cache folder of a store. Its files may be deleted at any time, the oldest first. In an
//! encrypted store both contents and names are encrypted.

use std::ffi::{CString, OsStr};
use std::fs::{File, TryLockError};
use std::io::{self, Read, Write};
use std::path::Path;

use bytes::Bytes;

use crate::error::{Error, Result};
use crate::object::{Kind, ObjectId};
use crate::platform::{name_of_bytes, stat_of};
use crate::store::{Store, StoreKeys, WORKSPACES_DIR, decipher, encipher};
use crate::workspace::disk::folder::{EntryKind, Folder};
use crate::workspace::disk::stat::{FileTime, Stat};
use crate::workspace::disk::temp_file::TempFile;

/// The prefix of names of notes.
pub(in crate::workspace) const NOTES_PREFIX: &str = "notes-";

/// Maximum bytes of a cache file: about ten million files.
const MAX_BYTES: u64 = 1 << 30;

/// The error of a store without caches.
pub(super) const NO_CACHES: &str = "this store has no caches next to it";

/// Hex digits of a name.
pub(super) const DIGITS: usize = 32;

/// Only the owner of a store can read its caches.
pub(in crate::workspace) const MODE: u32 = 0o600;

/// Opens the cache folder of a store, and creates it if needed.
pub(in crate::workspace) fn open_folder(store: &Path) -> io::Result<Folder> {
    let store = Folder::open(store)?;
    let name = OsStr::new(WORKSPACES_DIR);
    match store.enter(name) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => {}
        opened => return opened,
    }
    match store.make_private(name) {
        Err(error) if error.kind() != io::ErrorKind::AlreadyExists => Err(error),
        _ => store.enter(name),
    }
}

/// The caches of one store.
#[derive(Debug)]
pub(in crate::workspace) struct CacheFolder {
    folder: Folder,
    keys: Option<StoreKeys>,
}

impl CacheFolder {
    /// Opens the caches of `store` for writing, and creates the folder if needed.
    pub(in crate::workspace) fn open(store: &Store) -> io::Result<Self> {
        if store.keeps_no_caches() {
            return Err(io::Error::new(io::ErrorKind::PermissionDenied, NO_CACHES));
        }
        Ok(Self { folder: open_folder(store.dir())?, keys: store.keys().copied() })
    }

    /// Opens the caches of `store` for reading; does not create the folder.
    pub(in crate::workspace) fn peek(store: &Store) -> io::Result<Self> {
        let folder = Folder::open(&store.dir().join(WORKSPACES_DIR))?;
        Ok(Self { folder, keys: store.keys().copied() })
    }

    /// Returns the file name for `name`, after `prefix`.
    pub(in crate::workspace) fn file_name(&self, prefix: &str, name: &[u8]) -> String {
        let digest = ObjectId::of(Kind::Blob, name);
        let digest = match &self.keys {
            Some(keys) => keys.keyed(digest.as_bytes()),
            None => digest,
        };
        format!("{prefix}{}", digest.short(DIGITS))
    }

    /// Returns the current time of the file system.
    pub(in crate::workspace) fn file_system_time(&self) -> io::Result<FileTime> {
        Ok(FileTime::change_time(&Stat::from(&self.folder.touch()?)))
    }

    /// Returns the bytes of a file; `None` if it is missing or not a valid cache.
    pub(in crate::workspace) fn read(&self, name: &str) -> Option<Bytes> {
        let mut file = self.folder.read(OsStr::new(name)).ok()?;
        let stat = Stat::from(&stat_of(&file).ok()?);
        if stat.kind() != EntryKind::File || stat.size > MAX_BYTES {
            return None;
        }
        let mut bytes = Vec::with_capacity(usize::try_from(stat.size).ok()?);
        file.read_to_end(&mut bytes).ok()?;
        match &self.keys {
            Some(keys) => decipher(keys, &bytes).map(Bytes::from),
            None => Some(bytes.into()),
        }
    }

    /// Replaces the file `name` with this content; returns whether there was none before. Of
    /// several concurrent writers one wins.
    ///
    /// # Errors
    /// `Io` if writing fails, `Locked` or `Conflict` if another process wrote first.
    pub(in crate::workspace) fn write(&self, name: &str, parts: &[&[u8]]) -> Result<bool> {
        let failed = |error| Error::io("write a cache", error);
        let name = OsStr::new(name);
        let before = self.folder.find(name).map_err(failed)?;
        let (part, mut file) = TempFile::file(&self.folder, name, MODE)?;
        match &self.keys {
            Some(keys) => {
                let bytes = encipher(keys, &parts.concat()).map_err(failed)?;
                file.write_all(&bytes).map_err(failed)?;
            }
            None => parts.iter().try_for_each(|part| file.write_all(part)).map_err(failed)?,
        }
        part.name(name, before.as_ref())?;
        Ok(before.is_none())
    }

    /// Removes the oldest files accepted by `is_one` until at most `most` are left. Locked files
    /// stay.
    pub(in crate::workspace) fn remove_oldest(
        &self,
        most: usize,
        is_one: &dyn Fn(&[u8]) -> bool,
    ) -> io::Result<()> {
        remove_oldest(&self.folder, most, is_one)
    }
}

/// Removes the oldest files accepted by `is_one` until at most `most` are left. Locked files stay.
fn remove_oldest(folder: &Folder, most: usize, is_one: &dyn Fn(&[u8]) -> bool) -> io::Result<()> {
    let mut files = Vec::new();
    for (name, _) in folder.names()?.into_iter().filter(|(name, _)| is_one(name.as_bytes())) {
        // A file deleted concurrently needs no removal.
        let Ok(stat) = folder.stat(&name) else { continue };
        files.push((Stat::from(&stat).changed(), name));
    }
    files.sort_unstable();
    let spare = files.len().saturating_sub(most);
    for (_, name) in files.iter().take(spare) {
        // The lock is held until the name is gone, so that no other process takes it in between.
        let file = folder.read(&name_of_bytes(name.as_bytes()));
        if let Ok(Err(TryLockError::WouldBlock)) = file.as_ref().map(File::try_lock) {
            continue;
        }
        remove(folder, name)?;
    }
    Ok(())
}

fn remove(folder: &Folder, name: &CString) -> io::Result<()> {
    match folder.remove(&name_of_bytes(name.as_bytes())) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(()),
        removed => removed,
    }
}
