//! Lists the entries that each turn of a history added, for callers that maintain a table of them.
//!
//! The turns are listed first, and the added entries are read only for requested turns. So updating
//! a table costs only the new turns.

use super::changes::TextKind;
use super::occurrences::{ChangedEntry, OccurrenceCollector, ScopeTurn, SearchFilter, SearchScope};
use crate::context::Role;
use crate::error::Result;
use crate::object::{ObjectId, Time};
use crate::repo::Repository;

/// The turns of a scope whose contexts exist.
#[expect(
    missing_debug_implementations,
    reason = "it holds what a search remembers of a whole history"
)]
pub struct Arrivals<'r> {
    collector: OccurrenceCollector<'r>,
    turns: Vec<ScopeTurn>,
}

/// A turn that added entries.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct ArrivedAt {
    /// The commit of the turn.
    pub commit: ObjectId,
    /// The session of the turn.
    pub session: String,
    /// The number of the turn.
    pub turn: u64,
    /// The time of the turn.
    pub time: Time,
    /// The turns it is compared with: its parents, or the nearest existing ancestors if the parents
    /// expired.
    pub before: Vec<ObjectId>,
}

/// An entry that a turn has and none of its parents has; in a list, a further occurrence of an
/// entry.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct Arrival {
    /// The section of the entry.
    pub section: String,
    /// The key, or the index in the turn; empty for a section that is one blob.
    pub key: String,
    /// The role and the format of a message.
    pub message: Option<(Role, String)>,
    /// The blob.
    pub blob: ObjectId,
}

impl Repository {
    /// Lists the turns of a scope, oldest first. Reads each commit. The added entries are read from
    /// the trees, not from a history index: a table would preserve the errors of a wrong index.
    ///
    /// # Errors
    /// `NotFound` when a start is missing, `Corrupt` when it or the grafts are damaged, `Io`.
    pub fn arrivals(&self, scope: &SearchScope) -> Result<Arrivals<'_>> {
        let mut collector = OccurrenceCollector::for_trees(self, SearchFilter::default());
        let turns = collector.turns(scope)?;
        Ok(Arrivals { collector, turns })
    }
}

impl Arrivals<'_> {
    /// Returns the turns, oldest first.
    pub fn turns(&self) -> impl Iterator<Item = ArrivedAt> + '_ {
        self.turns.iter().map(|turn| ArrivedAt {
            commit: turn.id,
            session: self.collector.names.name(turn.session).to_owned(),
            turn: turn.turn,
            time: turn.time,
            before: turn.before.iter().map(|before| before.id).collect(),
        })
    }

    /// Drops the turns that `wanted` rejects; calls it in the order of [`Self::turns`].
    pub fn retain(&mut self, mut wanted: impl FnMut(&ObjectId) -> bool) {
        self.turns.retain(|turn| wanted(&turn.id));
    }

    /// Returns the entries that the turns `from..to` added, in the order of sections and keys, and
    /// error messages for unreadable parts. Omits the pieces of transcripts, which the messages are
    /// made of. Costs the changes of the turns, on all processors.
    #[must_use]
    pub fn between(&self, from: usize, to: usize) -> Vec<(Vec<Arrival>, Vec<String>)> {
        let turns = self.turns.get(from..to.min(self.turns.len())).unwrap_or_default();
        let compared = self.collector.compare(turns, None).into_iter();
        compared.map(|(changes, damage)| (arrivals_in(changes), damage)).collect()
    }

    /// Returns error messages for unreadable parts of history.
    pub fn damage(&self) -> impl Iterator<Item = &str> {
        self.collector.damage.iter().map(String::as_str)
    }
}

fn arrivals_in(changes: Vec<ChangedEntry>) -> Vec<Arrival> {
    let came = changes.into_iter().filter(|change| change.gone_behind.is_none());
    came.map(|change| Arrival {
        message: match TextKind::of(&change.section, &change.item) {
            TextKind::Message(role, format) => Some((role, format)),
            TextKind::Plain => None,
        },
        blob: change.item.link.id,
        section: change.section,
        key: change.key,
    })
    .collect()
}
