//! Notes: small files beside the store, kept from one process to the next.
//!
//! Written whole under a temporary name and then renamed, never synced; they may be deleted at any
//! time. A reader verifies what it finds, and a note is worth nothing without the store.

use std::ffi::OsStr;
use std::io::Write;

use bytes::Bytes;

use super::folder::{MODE, NOTES_PREFIX, bound, open_folder, read};
use crate::error::{Error, ErrorKind, Result};
use crate::object::{ID_BYTES, Kind, ObjectId};
use crate::store::Store;
use crate::workspace::disk::temp_file::TempFile;

/// Files of notes that a store keeps; the oldest go.
const MAX_FILES: usize = 64;

/// Hex digits of a name.
const DIGITS: usize = 32;

/// Returns the note `name` of `store`; `None` when there is none or it is not whole.
#[must_use]
pub fn read_note(store: &Store, name: &str) -> Option<Bytes> {
    let folder = open_folder(store.dir()).ok()?;
    let bytes = read(&folder, &file_name(name))?;
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
    let folder = open_folder(store.dir()).map_err(failed)?;
    let name = file_name(name);
    let name = OsStr::new(&name);
    let before = folder.find(name).map_err(failed)?;
    let written = TempFile::file(&folder, name, MODE).and_then(|(part, mut file)| {
        let sum = ObjectId::of(Kind::Blob, bytes);
        for part in [sum.as_bytes(), bytes] {
            file.write_all(part).map_err(failed)?;
        }
        part.name(name, before.as_ref())
    });
    match written {
        // What another process knows is as good.
        Err(error) if matches!(error.kind(), ErrorKind::Locked | ErrorKind::Conflict) => Ok(()),
        Err(error) => Err(error),
        Ok(()) if before.is_some() => Ok(()),
        Ok(()) => bound(&folder, MAX_FILES, &|name| name.starts_with(NOTES_PREFIX.as_bytes()))
            .map_err(failed),
    }
}

fn file_name(name: &str) -> String {
    format!("{NOTES_PREFIX}{}", ObjectId::of(Kind::Blob, name.as_bytes()).short(DIGITS))
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
        let folder = open_folder(dir).ok()?;
        let name = file_name(name);
        let name = OsStr::new(&name);
        // Made by whoever comes first; where two are at once, one opens that of the other.
        let file = folder.create(name, MODE).or_else(|_| folder.read(name)).ok()?;
        file.try_lock().ok()?;
        Some(Self { file })
    }
}
