//! The divergence of branches: the turns of each since their fork point.

use std::collections::HashSet;
use std::iter::Peekable;

use crate::error::Result;
use crate::object::ObjectId;
use crate::repo::{History, LogEntry, Repository};

/// The fork point of two branches, and the turns of one of them since.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Divergence {
    /// The newest common snapshot, with its turn; `None` without one.
    pub fork: Option<(ObjectId, u64)>,
    /// Snapshots on the branch's own line since the fork point.
    pub own: u64,
}

/// The line of a branch, read lazily: comparing many branches with it costs the longest way back
/// plus the snapshots of each branch itself.
#[derive(Debug)]
pub struct BranchLine<'r> {
    repo: &'r Repository,
    rest: Peekable<History<'r>>,
    seen: HashSet<ObjectId>,
}

impl Repository {
    /// Returns the line of the branch with the tip `tip`, to compare others with.
    ///
    /// # Errors
    /// `NotFound` or `Corrupt` when the tip cannot be read.
    pub fn line(&self, tip: &ObjectId) -> Result<BranchLine<'_>> {
        let rest = self.history(&[*tip], &[])?.first_parent().peekable();
        Ok(BranchLine { repo: self, rest, seen: HashSet::new() })
    }
}

impl BranchLine<'_> {
    /// Returns the divergence of the branch with the tip `tip` from this line.
    ///
    /// # Errors
    /// `NotFound` or `Corrupt`, naming an unreadable commit.
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

    /// Reads the line down to `turn`. Turns fall along the line, so the rest is not needed yet.
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
