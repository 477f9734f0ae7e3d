//! Notes: small files next to the store that persist between processes.
//!
//! They are written under a temporary name and then renamed, never synced, and may be deleted at
//! any time. A reader verifies them, and a note is useless without the store.

use std::ffi::OsStr;
use std::fs::{File, TryLockError};

use bytes::Bytes;

use super::folder::{CacheFolder, DIGITS, MODE, NOTES_PREFIX, open_folder};
use crate::error::{Error, ErrorKind, Result};
use crate::object::{ID_BYTES, Kind, ObjectId};
use crate::platform::stat_of;
use crate::repo::Repository;
use crate::workspace::disk::folder::Folder;
use crate::workspace::disk::stat::Stat;

/// Maximum number of notes of a store; the oldest are deleted.
const MAX_FILES: usize = 64;

/// The maximum number of attempts to lock a file that is removed before it is locked.
const MAX_ATTEMPTS: usize = 8;

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
    /// `None` once it was handed over.
    file: Option<File>,
}

impl Drop for Claim {
    fn drop(&mut self) {
        // Unlock explicitly: a child process that was just started may still hold the file.
        if let Some(file) = &self.file {
            let _ = file.unlock();
        }
    }
}

impl Claim {
    /// Returns the locked file for another process. If this process is killed, the lock lasts until
    /// the last process that has the file has ended.
    ///
    /// # Errors
    /// `Io` if the system has no more handles.
    pub fn shared(&self) -> Result<File> {
        let gone = || Error::invalid("this lock was handed over");
        let file = self.file.as_ref().ok_or_else(gone)?;
        file.try_clone().map_err(|error| Error::io("share a lock", error))
    }

    /// Returns the locked file, and keeps the lock until every process that has the file has closed
    /// it.
    #[must_use]
    pub fn handed_over(mut self) -> Option<File> {
        // Dropping a claim with its file would unlock the file for all of them.
        self.file.take()
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
        for _ in 0..MAX_ATTEMPTS {
            // The first process creates the file; of two concurrent ones, one opens the other's file.
            let file = folder.create(name, MODE).or_else(|_| folder.read(name)).map_err(failed)?;
            match file.try_lock() {
                Ok(()) if is_named(&folder, name, &file) => {
                    return Ok(Some(Self { file: Some(file) }));
                }
                // Removed as an old note before it was locked.
                Ok(()) => {}
                Err(TryLockError::WouldBlock) => return Ok(None),
                Err(TryLockError::Error(error)) => return Err(failed(error)),
            }
        }
        Ok(None)
    }
}

/// Returns true if the name still leads to the file.
fn is_named(folder: &Folder, name: &OsStr, file: &File) -> bool {
    let identity = |file: &File| Some(Stat::from(&stat_of(file).ok()?).identity());
    folder.read(name).is_ok_and(|found| identity(&found) == identity(file))
}
