//! Notes: small files next to the store that persist between processes.
//!
//! They are written under a temporary name and then renamed, never synced, and may be deleted at
//! any time. A reader verifies them, and a note is useless without the store.

use std::ffi::OsStr;
use std::fs::TryLockError;

use bytes::Bytes;

use super::folder::{CacheFolder, DIGITS, MODE, NOTES_PREFIX, open_folder};
use crate::error::{Error, ErrorKind, Result};
use crate::object::{ID_BYTES, Kind, ObjectId};
use crate::repo::Repository;

/// Maximum number of notes of a store; the oldest are deleted.
const MAX_FILES: usize = 64;

/// Returns the note `name` of `store`; `None` if it is missing or damaged.
#[must_use]
pub fn read_note(repo: &Repository, name: &str) -> Option<Bytes> {
    let store = repo.store();
    let folder = CacheFolder::peek(store).ok()?;
    let bytes = folder.read(&folder.file_name(NOTES_PREFIX, name.as_bytes()))?;
    let (sum, rest) = bytes.split_first_chunk::<ID_BYTES>()?;
    (ObjectId::of(Kind::Blob, rest).as_bytes() == sum).then(|| bytes.slice(ID_BYTES..))
}

/// Writes `bytes` as the note `name` of `store`, replacing an older one. Of several concurrent
/// writers one wins.
///
/// # Errors
/// `Io` if writing fails.
pub fn write_note(repo: &Repository, name: &str, bytes: &[u8]) -> Result<()> {
    let store = repo.store();
    let failed = |error| Error::io("write notes", error);
    let folder = CacheFolder::open(store).map_err(failed)?;
    let name = folder.file_name(NOTES_PREFIX, name.as_bytes());
    match folder.write(&name, &[ObjectId::of(Kind::Blob, bytes).as_bytes(), bytes]) {
        // The note of another process is as good.
        Err(error) if matches!(error.kind(), ErrorKind::Locked | ErrorKind::Conflict) => Ok(()),
        Err(error) => Err(error),
        Ok(false) => Ok(()),
        Ok(true) => folder
            .remove_oldest(MAX_FILES, &|name| name.starts_with(NOTES_PREFIX.as_bytes()))
            .map_err(failed),
    }
}

/// A lock for work in a store that only one process may do at a time. The process releases it on
/// exit.
#[derive(Debug)]
pub struct Claim {
    file: std::fs::File,
}

impl Drop for Claim {
    fn drop(&mut self) {
        // Unlock explicitly: a child process that was just started may still hold the file.
        let _ = self.file.unlock();
    }
}

impl Claim {
    /// Returns the locked file for another process. If this process is killed, the lock lasts until
    /// the last process that has the file has ended.
    ///
    /// # Errors
    /// `Io` if the system has no more handles.
    pub fn shared(&self) -> Result<std::fs::File> {
        self.file.try_clone().map_err(|error| Error::io("share a lock", error))
    }

    /// Takes the lock `name` in the store at `dir`; `None` if another process has it, or the store
    /// is read-only.
    #[must_use]
    pub fn take(dir: &std::path::Path, name: &str) -> Option<Self> {
        Self::ask(dir, name).ok().flatten()
    }

    /// Takes the lock `name` in the store at `dir`; `None` if another process, or this one, has it.
    /// Costs opening a file.
    ///
    /// # Errors
    /// `Io` if the store is read-only, or the system has no such locks.
    pub fn ask(dir: &std::path::Path, name: &str) -> Result<Option<Self>> {
        let failed = |error| Error::io("lock a file next to the store", error);
        let folder = open_folder(dir).map_err(failed)?;
        let digest = ObjectId::of(Kind::Blob, name.as_bytes()).short(DIGITS);
        let name = format!("{NOTES_PREFIX}{digest}");
        let name = OsStr::new(&name);
        // The first process creates the file; of two concurrent ones, one opens the other's file.
        let file = folder.create(name, MODE).or_else(|_| folder.read(name)).map_err(failed)?;
        match file.try_lock() {
            Ok(()) => Ok(Some(Self { file })),
            Err(TryLockError::WouldBlock) => Ok(None),
            Err(TryLockError::Error(error)) => Err(failed(error)),
        }
    }
}
