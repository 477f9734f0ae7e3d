//! The list of all sessions of a store at one moment, newest first.

use std::cmp::Reverse;

use super::row::{SessionRow, StoredRow};

/// All sessions of a store at one moment.
#[derive(Debug, Default)]
pub struct SessionTable {
    /// Newest first.
    rows: Vec<StoredRow>,
}

impl SessionTable {
    /// Builds the list from rows.
    pub(super) fn new(mut rows: Vec<StoredRow>) -> Self {
        rows.sort_by_key(|row| Reverse(row.time.micros));
        Self { rows }
    }

    /// Returns the stored rows, newest first.
    pub(super) fn rows(&self) -> std::slice::Iter<'_, StoredRow> {
        self.rows.iter()
    }

    /// Returns the sessions, newest first.
    pub fn all(&self) -> impl ExactSizeIterator<Item = SessionRow<'_>> {
        self.rows.iter().map(StoredRow::view)
    }

    /// Returns the sessions with content, newest first: without those that are [only
    /// begun](super::SessionSummary::is_only_begun).
    pub fn listed(&self) -> impl Iterator<Item = SessionRow<'_>> {
        self.all().filter(|row| !row.is_only_begun())
    }
}
