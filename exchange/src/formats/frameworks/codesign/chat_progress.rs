//! Counts the rows of a design's chat that are in the store, and those that come before a
//! snapshot.

use std::collections::HashMap;

use super::archive::{Design, DesignSnapshot};
use super::known_session::KnownSession;

/// The progress in the chat of a design.
pub(super) struct ChatProgress {
    /// Number of rows that were written to the history.
    pub(super) taken: usize,
    /// Rows that were filled in while there was no chat make room for it.
    pub(super) replaces_seeds: bool,
    /// Behind which row a snapshot was delivered.
    delivered: HashMap<String, usize>,
    /// The time of each row, if recorded.
    times: Vec<Option<i64>>,
}

impl ChatProgress {
    pub(super) fn new(design: &Design, known: &KnownSession) -> Self {
        let chat = &design.chat;
        let is_same = known.chat.0 == chat.origin;
        let rows = chat.rows.iter().enumerate();
        let delivered =
            rows.filter_map(|(at, row)| Some((row.snapshot.clone()?, at + 1))).collect();
        Self {
            taken: if is_same { known.chat.1.min(chat.rows.len()) } else { 0 },
            replaces_seeds: known.chat.0.is_empty() && !known.commits.is_empty(),
            delivered,
            times: chat.rows.iter().map(|row| Some(row.time?.micros)).collect(),
        }
    }

    /// Returns the number of rows before a snapshot: up to the row that delivered it, otherwise the
    /// rows that are not younger.
    pub(super) fn cut(&self, version: &DesignSnapshot) -> usize {
        if let Some(at) = self.delivered.get(&version.key) {
            return (*at).max(self.taken);
        }
        let Some(created) = version.created else { return self.taken };
        let rest = self.times.get(self.taken..).unwrap_or_default();
        let older = rest.iter().take_while(|time| time.is_none_or(|time| time <= created.micros));
        self.taken + older.count()
    }
}
