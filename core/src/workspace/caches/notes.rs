//! Notes: small files beside the store, kept from one process to the next.
//!
//! Written whole under a temporary name and then renamed, never synced; they may be deleted at any
//! time. A reader verifies what it finds, and a note is worth nothing without the store.

use std::ffi::OsStr;
use std::fs::TryLockError;

use bytes::Bytes;

use super::folder::{CacheFolder, DIGITS, MODE, NOTES_PREFIX, open_folder};
use crate::error::{Error, ErrorKind, Result};
use crate::object::{ID_BYTES, Kind, ObjectId};
use crate::store::Store;

/// Files of notes that a store keeps; the oldest go.
const MAX_FILES: usize = 64;

/// Returns the note `name` of `store`; `None` when there is none or it is not whole.
#[must_use]
pub fn read_note(store: &Store, name: &str) -> Option<Bytes> {
    let folder = CacheFolder::peek(store).ok()?;
    let bytes = folder.read(&folder.file_name(NOTES_PREFIX, name.as_bytes()))?;
    let (sum, rest) = bytes.split_first_chunk::<ID_BYTES>()?;
    (ObjectId::of(Kind::Blob, rest).as_bytes() == sum).then(|| bytes.slice(ID_BYTES..))
}

/// Keeps `bytes` under `name` in `store`, in place of what was there. Of several processes that do
/// so at once one wins.
///
/// # Errors
/// `Io` when it cannot be written.
pub fn write_note(store: &Store, name: &str, bytes: &[u8]) -> Result<()> {
    let failed = |error| Error::io("write notes", error);
    let folder = CacheFolder::open(store).map_err(failed)?;
    let name = folder.file_name(NOTES_PREFIX, name.as_bytes());
    match folder.write(&name, &[ObjectId::of(Kind::Blob, bytes).as_bytes(), bytes]) {
        // What another process knows is as good.
        Err(error) if matches!(error.kind(), ErrorKind::Locked | ErrorKind::Conflict) => Ok(()),
        Err(error) => Err(error),
        Ok(false) => Ok(()),
        Ok(true) => folder
            .bound(MAX_FILES, &|name| name.starts_with(NOTES_PREFIX.as_bytes()))
            .map_err(failed),
    }
}

/// The right to do something in a store that only one process is to do at a time. It goes with the
/// process.
#[derive(Debug)]
pub struct Claim {
    file: std::fs::File,
}

impl Drop for Claim {
    fn drop(&mut self) {
        // As with a file of the store: a process that was just started may have it still.
        let _ = self.file.unlock();
    }
}

impl Claim {
    /// The right called `name` in the store at `dir`; nothing when another process has it, or the
    /// store cannot be written to.
    #[must_use]
    pub fn take(dir: &std::path::Path, name: &str) -> Option<Self> {
        Self::ask(dir, name).ok().flatten()
    }

    /// The right called `name` in the store at `dir`; nothing when another process or another part of
    /// this one has it. Costs opening a file.
    ///
    /// # Errors
    /// `Io` when the store cannot be written to, or the system has no such locks.
    pub fn ask(dir: &std::path::Path, name: &str) -> Result<Option<Self>> {
        let failed = |error| Error::io("ask for a right beside the store", error);
        let folder = open_folder(dir).map_err(failed)?;
        let digest = ObjectId::of(Kind::Blob, name.as_bytes()).short(DIGITS);
        let name = format!("{NOTES_PREFIX}{digest}");
        let name = OsStr::new(&name);
        // Made by whoever comes first; where two are at once, one opens that of the other.
        let file = folder.create(name, MODE).or_else(|_| folder.read(name)).map_err(failed)?;
        match file.try_lock() {
            Ok(()) => Ok(Some(Self { file })),
            Err(TryLockError::WouldBlock) => Ok(None),
            Err(TryLockError::Error(error)) => Err(failed(error)),
        }
    }
}
