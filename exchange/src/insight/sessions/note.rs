//! The note of sessions next to a store: the rows of its list, so that the next process reads only
//! the sessions that changed.
//!
//! ```text
//! version, epoch of the store, the rows in order of names
//! ```
//!
//! A row counts only while the session has the branches, tips and labels that the row names. After
//! a collection, which starts a new epoch, it counts only if what it was read from still exists. A
//! redaction, and a collection that may free a session, delete the note with the other notes. So
//! the note may disappear at any time.

use bytes::Bytes;
use turntree::error::Result;
use turntree::object::{Reader, Writer};
use turntree::repo::Repository;
use turntree::workspace::{read_note, write_note};

use super::row::is_founded;

/// The name of the note.
const NOTE: &str = "sessions";

/// The version of the note. A change of what rows show within one package version must raise it.
const VERSION: &str = concat!("4 ", env!("CARGO_PKG_VERSION"));

/// The largest number of sessions of a note, and the bytes of a row and of the note. A larger row is
/// read from the store each time.
const MAX_SESSIONS: usize = 1 << 20;
const MAX_ROW_BYTES: usize = 1 << 20;
const MAX_BYTES: usize = 256 << 20;

/// The rows of a note, in order of names.
#[derive(Debug, Default)]
pub(super) struct NotedRows {
    pub(super) rows: Vec<Bytes>,
    /// True if another process need not check the rows again.
    pub(super) is_current: bool,
}

impl NotedRows {
    /// Reads the note of a store. Drops rows whose contexts no longer exist.
    pub(super) fn read(repo: &Repository) -> Self {
        let Some(bytes) = read_note(repo, NOTE) else { return Self::default() };
        let Ok((epoch, mut rows)) = decode(&bytes) else { return Self::default() };
        let is_current = epoch == repo.epoch();
        if !is_current {
            rows.retain(|row| is_founded(repo, row).unwrap_or(false));
        }
        Self { rows, is_current }
    }
}

/// Writes the note. If the write fails, the next process reads the sessions again.
pub(super) fn write(repo: &Repository, rows: &[Bytes]) {
    let rows: Vec<&Bytes> = rows.iter().filter(|row| row.len() <= MAX_ROW_BYTES).collect();
    if rows.len() > MAX_SESSIONS || rows.iter().map(|row| row.len()).sum::<usize>() > MAX_BYTES {
        return;
    }
    let mut writer = Writer::new();
    writer.text(VERSION).uint(repo.epoch()).array(rows.len());
    for row in rows {
        writer.bytes(row);
    }
    let _ = write_note(repo, NOTE, &writer.finish());
}

fn decode(note: &Bytes) -> Result<(u64, Vec<Bytes>)> {
    let mut reader = Reader::new("the note of sessions", note);
    if reader.text()? != VERSION {
        return Ok((0, Vec::new()));
    }
    let epoch = reader.uint()?;
    let mut rows = Vec::new();
    for _ in 0..reader.array_up_to(MAX_SESSIONS as u64)? {
        rows.push(note.slice_ref(reader.bytes()?));
    }
    reader.finish()?;
    Ok((epoch, rows))
}
