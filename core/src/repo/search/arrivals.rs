//! Arrivals: what each turn of a history brought, for whoever keeps a table of it.
//!
//! The turns are listed first and what they brought is read for those that are asked for, so a table
//! that is kept up costs the turns that it does not have.

use super::changes::TextKind;
use super::occurrences::{Collector, MovedEntry, ScopeTurn, SearchFilter, SearchScope};
use crate::context::Role;
use crate::error::Result;
use crate::object::{ObjectId, Time};
use crate::repo::Repository;

/// The turns of a scope whose contexts are there.
#[expect(
    missing_debug_implementations,
    reason = "it holds what a search remembers of a whole history"
)]
pub struct Arrivals<'r> {
    collector: Collector<'r>,
    turns: Vec<ScopeTurn>,
}

/// A turn to which something came.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ArrivedAt {
    /// Its commit.
    pub commit: ObjectId,
    /// Its session.
    pub session: String,
    /// Its number.
    pub turn: u64,
    /// Its time.
    pub time: Time,
    /// The turns that it is compared with: its parents, or what is there behind those that are gone.
    pub before: Vec<ObjectId>,
}

/// An entry that a turn has, or has more often in a list, and none of the turns that it continues.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Arrival {
    /// The section.
    pub section: String,
    /// Its key, or its index in the turn; empty for a section that is one blob.
    pub key: String,
    /// The role and the format of a message.
    pub message: Option<(Role, String)>,
    /// The blob.
    pub blob: ObjectId,
}

impl Repository {
    /// Lists the turns of a scope, oldest first. Costs a read of each commit. What they brought is read
    /// from the trees, not from a history index: who keeps it would keep what a wrong one tells.
    ///
    /// # Errors
    /// `NotFound` when a start is not there, `Corrupt` when it or the grafts are damaged, `Io`.
    pub fn arrivals(&self, scope: &SearchScope) -> Result<Arrivals<'_>> {
        let mut collector = Collector::by_walking(self, SearchFilter::default());
        let turns = collector.turns(scope)?;
        Ok(Arrivals { collector, turns })
    }
}

impl Arrivals<'_> {
    /// The turns, oldest first.
    pub fn turns(&self) -> impl Iterator<Item = ArrivedAt> + '_ {
        self.turns.iter().map(|turn| ArrivedAt {
            commit: turn.id,
            session: self.collector.names.name(turn.session).to_owned(),
            turn: turn.turn,
            time: turn.time,
            before: turn.before.iter().map(|before| before.id).collect(),
        })
    }

    /// Leaves out the turns that `wanted` says no to, in the order of [`Self::turns`].
    pub fn retain(&mut self, mut wanted: impl FnMut(&ObjectId) -> bool) {
        self.turns.retain(|turn| wanted(&turn.id));
    }

    /// What the turns `from..to` brought, each in the order of sections and keys, and what of it could
    /// not be read, in words. The pieces of transcripts, of which messages are made, are left out.
    /// Costs what the turns changed, on all processors.
    #[must_use]
    pub fn between(&self, from: usize, to: usize) -> Vec<(Vec<Arrival>, Vec<String>)> {
        let turns = self.turns.get(from..to.min(self.turns.len())).unwrap_or_default();
        let compared = self.collector.compare(turns, None).into_iter();
        compared.map(|(changes, damage)| (arrivals_in(changes), damage)).collect()
    }

    /// What of history could not be read, in words.
    pub fn damage(&self) -> impl Iterator<Item = &str> {
        self.collector.damage.iter().map(String::as_str)
    }
}

fn arrivals_in(changes: Vec<MovedEntry>) -> Vec<Arrival> {
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
