//! Notes of the engine, in the cache folder of a store.

use bytes::Bytes;

use crate::error::Result;
use crate::repo::{NoteKeeper, Repository};
use crate::workspace::{read_note, write_note};

/// Stores notes in the folder that captures use.
#[derive(Debug, Clone, Copy)]
pub(super) struct StoreNotes;

impl NoteKeeper for StoreNotes {
    fn read(&self, repo: &Repository, name: &str) -> Option<Bytes> {
        read_note(repo, name)
    }

    fn write(&self, repo: &Repository, name: &str, bytes: &[u8]) -> Result<()> {
        write_note(repo, name, bytes)
    }
}
