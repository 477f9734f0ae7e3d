//! Notes of the engine, in the cache folder of a store.

use bytes::Bytes;

use crate::error::Result;
use crate::repo::NoteKeeper;
use crate::store::Store;
use crate::workspace::{read_note, write_note};

/// Stores notes in the folder that captures use.
#[derive(Debug, Clone, Copy)]
pub(super) struct StoreNotes;

impl NoteKeeper for StoreNotes {
    fn read(&self, store: &Store, name: &str) -> Option<Bytes> {
        read_note(store, name)
    }

    fn write(&self, store: &Store, name: &str, bytes: &[u8]) -> Result<()> {
        write_note(store, name, bytes)
    }
}
