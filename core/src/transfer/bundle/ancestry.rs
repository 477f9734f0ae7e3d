//! Tests whether a commit is an ancestor of some commits, with the shortest walk.

use std::cell::RefCell;
use std::collections::HashSet;

use crate::error::Result;
use crate::object::ObjectId;
use crate::repo::{History, LogEntry, Repository};

/// Some commits and their ancestors. An increment tests few commits, most of them new.
pub(super) struct Ancestry<'a> {
    repo: &'a Repository,
    walk: RefCell<Walk<'a>>,
}

/// A walk in falling order of turns, and its progress.
struct Walk<'a> {
    history: History<'a>,
    met: HashSet<ObjectId>,
    /// The turn visited last; all later visits have the same or an older turn.
    turn: u64,
}

impl<'a> Ancestry<'a> {
    /// Starts a walk from `starts`. Reads only these commits.
    ///
    /// # Errors
    /// `NotFound` or `Corrupt`, naming a start that cannot be read.
    pub(super) fn new(repo: &'a Repository, starts: &[ObjectId]) -> Result<Self> {
        let history = repo.history(starts, &[])?;
        let walk = Walk { history, met: HashSet::new(), turn: u64::MAX };
        Ok(Self { repo, walk: RefCell::new(walk) })
    }

    /// Returns true if the commit is a start or an ancestor. Walks history back to its turn, once.
    ///
    /// # Errors
    /// `NotFound` or `Corrupt`, naming an unreadable commit on the way.
    pub(super) fn contains(&self, id: &ObjectId) -> Result<bool> {
        let mut walk = self.walk.borrow_mut();
        if walk.met.contains(id) {
            return Ok(true);
        }
        // An object that is not a commit, or was forgotten, is not an ancestor.
        let Ok(commit) = self.repo.commit(id) else { return Ok(false) };
        while walk.turn >= commit.turn
            && let Some(entry) = walk.history.next()
        {
            let LogEntry { id: met, commit, .. } = entry?;
            walk.turn = commit.turn;
            walk.met.insert(met);
            if met == *id {
                return Ok(true);
            }
        }
        Ok(false)
    }
}
