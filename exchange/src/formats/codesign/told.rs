//! How much of a design's chat was said, and how much comes before a snapshot.

use std::collections::HashMap;

use super::archive::{Design, Version};
use super::known::Known;

/// How far the chat of a design was said.
pub(super) struct Told {
    /// Rows that were said.
    pub(super) taken: usize,
    /// What was filled in while there was no chat makes room for it.
    pub(super) replaces_seeds: bool,
    /// Behind which row a snapshot was delivered.
    delivered: HashMap<String, usize>,
    /// The moment of each row, as far as it says one.
    times: Vec<Option<i64>>,
}

impl Told {
    pub(super) fn new(design: &Design, known: &Known) -> Self {
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

    /// How many rows come before a snapshot: up to that which delivered it, else those that are not
    /// younger.
    pub(super) fn cut(&self, version: &Version) -> usize {
        if let Some(at) = self.delivered.get(&version.key) {
            return (*at).max(self.taken);
        }
        let Some(created) = version.created else { return self.taken };
        let rest = self.times.get(self.taken..).unwrap_or_default();
        let older = rest.iter().take_while(|time| time.is_none_or(|time| time <= created.micros));
        self.taken + older.count()
    }
}
