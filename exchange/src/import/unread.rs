//! Records of kinds that are not read: counted by kind, and said once for an import.

use std::collections::BTreeMap;

use crate::model::report::ImportNote;
use crate::text::piece::Piece;

/// Most kinds that are named.
const MAX_KINDS: usize = 20;

/// The number of unread records of each kind.
#[derive(Debug, Default)]
pub(crate) struct Unread {
    kinds: BTreeMap<String, u64>,
    /// Line and offset of the first one.
    first: Option<(u64, u64)>,
    others: u64,
}

impl Unread {
    /// Counts a record of `kind`.
    pub(crate) fn add(&mut self, piece: &Piece, kind: &str) {
        self.first.get_or_insert((piece.line, piece.offset));
        if self.kinds.len() < MAX_KINDS || self.kinds.contains_key(kind) {
            *self.kinds.entry(kind.to_owned()).or_default() += 1;
        } else {
            self.others += 1;
        }
    }

    /// Returns the note about them, at the place of the first one.
    pub(crate) fn note(self) -> Option<ImportNote> {
        let (line, offset) = self.first?;
        let all = self.kinds.values().sum::<u64>() + self.others;
        let named = self.kinds.iter().map(|(kind, count)| format!("{kind} ({count})"));
        let more = (self.others > 0).then(|| format!("others ({})", self.others));
        let kinds: Vec<String> = named.chain(more).collect();
        let what = match (all, kinds.len()) {
            (1, _) => {
                format!("a record of kind {} is not read", self.kinds.keys().next()?)
            }
            _ => format!("{all} records of kind {} are not read", kinds.join(", ")),
        };
        Some(ImportNote { line, offset, what })
    }
}
