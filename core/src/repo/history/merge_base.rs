//! Finds the newest snapshot that two histories share: the base of a merge.

use std::cmp::Ordering;
use std::collections::{BinaryHeap, HashMap};

use crate::error::Result;
use crate::object::{Commit, ObjectId, Time};
use crate::repo::{Grafts, Repository};

/// Reachable from the first start.
const FIRST: u8 = 1;
/// Reachable from the second start.
const SECOND: u8 = 2;
const BOTH: u8 = FIRST | SECOND;
/// An ancestor of a common ancestor.
const OLD: u8 = 4;

impl Repository {
    /// Returns the best common ancestor of two commits: the newest one that is not an ancestor of
    /// another common ancestor. A commit is an ancestor of itself. `None` when the histories share
    /// nothing.
    ///
    /// Walks in falling order of turns, so that a commit comes after all its descendants, and stops
    /// at the first common ancestor: reads the commits since then.
    ///
    /// # Errors
    /// `NotFound` or `Corrupt`, naming a commit that cannot be read.
    pub fn merge_base(&self, first: &ObjectId, second: &ObjectId) -> Result<Option<ObjectId>> {
        Ok(self.common_ancestors(first, second, 1)?.pop())
    }

    /// Returns all best common ancestors of two commits, the newest first: several where histories
    /// cross, as after merges in both directions.
    ///
    /// Reads the commits since the merge bases, and the commits of older lines down to their shared
    /// ancestors.
    ///
    /// # Errors
    /// Errors of [`Repository::merge_base`].
    pub fn merge_bases(&self, first: &ObjectId, second: &ObjectId) -> Result<Vec<ObjectId>> {
        self.common_ancestors(first, second, usize::MAX)
    }

    fn common_ancestors(
        &self,
        first: &ObjectId,
        second: &ObjectId,
        most: usize,
    ) -> Result<Vec<ObjectId>> {
        let grafts = self.grafts()?;
        let (reached, next) = (HashMap::new(), BinaryHeap::new());
        let mut walk = AncestorWalk { repo: self, grafts: &grafts, reached, next, open: 0 };
        walk.visit(first, FIRST)?;
        walk.visit(second, SECOND)?;
        let mut found = Vec::new();
        while walk.open > 0
            && let Some(PendingCommit { id, parents, .. }) = walk.next.pop()
        {
            let mut flags = walk.reached.get(&id).copied().unwrap_or_default();
            if flags & OLD == 0 {
                walk.open = walk.open.saturating_sub(1);
                if flags == BOTH {
                    found.push(id);
                    flags |= OLD;
                }
            }
            if found.len() == most {
                break;
            }
            for parent in parents {
                walk.visit(&parent, flags)?;
            }
        }
        Ok(found)
    }
}

struct AncestorWalk<'r> {
    repo: &'r Repository,
    grafts: &'r Grafts,
    reached: HashMap<ObjectId, u8>,
    next: BinaryHeap<PendingCommit>,
    /// The number of commits in `next` that are not ancestors of a common ancestor.
    open: usize,
}

impl AncestorWalk<'_> {
    fn visit(&mut self, id: &ObjectId, flags: u8) -> Result<()> {
        if let Some(known) = self.reached.get_mut(id) {
            // A commit is visited after all its descendants, so it is still in the queue.
            let aged = flags & OLD != 0 && *known & OLD == 0;
            self.open = self.open.saturating_sub(usize::from(aged));
            *known |= flags;
            return Ok(());
        }
        let commit: Commit = self.repo.commit(id)?;
        let parents = self.grafts.parents(&commit);
        self.reached.insert(*id, flags);
        self.open += usize::from(flags & OLD == 0);
        self.next.push(PendingCommit { turn: commit.turn, time: commit.time, id: *id, parents });
        Ok(())
    }
}

/// A commit to visit, ordered by the highest turn.
struct PendingCommit {
    turn: u64,
    time: Time,
    id: ObjectId,
    parents: Vec<ObjectId>,
}

impl Ord for PendingCommit {
    fn cmp(&self, other: &Self) -> Ordering {
        let key = |it: &Self| (it.turn, it.time, it.id);
        key(self).cmp(&key(other))
    }
}

impl PartialOrd for PendingCommit {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl PartialEq for PendingCommit {
    fn eq(&self, other: &Self) -> bool {
        self.cmp(other) == Ordering::Equal
    }
}

impl Eq for PendingCommit {}
