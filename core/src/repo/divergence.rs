//! The divergence of branches: the turns of each since the snapshot at which they parted.

use std::collections::HashSet;
use std::iter::Peekable;

use super::{History, LogEntry, Repository};
use crate::error::Result;
use crate::object::ObjectId;

/// The snapshot at which a branch parted from another one, and its turns since.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Divergence {
    /// The newest snapshot that both have, with its turn; `None` when they have nothing in common.
    pub fork: Option<(ObjectId, u64)>,
    /// Snapshots on the branch's own line since then.
    pub own: u64,
}

/// The line of a branch, read only as far back as it is asked about: many branches are compared
/// with one at the cost of the longest way back and of their own snapshots.
#[derive(Debug)]
pub struct BranchLine<'r> {
    repo: &'r Repository,
    rest: Peekable<History<'r>>,
    seen: HashSet<ObjectId>,
}

impl Repository {
    /// The line of the branch that ends in `tip`, to compare others with.
    ///
    /// # Errors
    /// `NotFound` or `Corrupt` when the tip cannot be read.
    pub fn line(&self, tip: &ObjectId) -> Result<BranchLine<'_>> {
        let rest = self.history(&[*tip], &[])?.first_parent().peekable();
        Ok(BranchLine { repo: self, rest, seen: HashSet::new() })
    }
}

impl BranchLine<'_> {
    /// Returns how far the branch that ends in `tip` diverged from this line.
    ///
    /// # Errors
    /// `NotFound` or `Corrupt`, naming a commit that cannot be read.
    pub fn divergence(&mut self, tip: &ObjectId) -> Result<Divergence> {
        let mut own = 0;
        for entry in self.repo.history(&[*tip], &[])?.first_parent() {
            let LogEntry { id, commit, .. } = entry?;
            self.read_to(commit.turn)?;
            if self.seen.contains(&id) {
                return Ok(Divergence { fork: Some((id, commit.turn)), own });
            }
            own += 1;
        }
        Ok(Divergence { fork: None, own })
    }

    /// Turns fall along the line, so what is below `turn` need not be known yet.
    fn read_to(&mut self, turn: u64) -> Result<()> {
        let reaches = |entry: &Result<LogEntry>| {
            entry.as_ref().map_or(true, |entry| entry.commit.turn >= turn)
        };
        while let Some(entry) = self.rest.next_if(reaches) {
            self.seen.insert(entry?.id);
        }
        Ok(())
    }
}
