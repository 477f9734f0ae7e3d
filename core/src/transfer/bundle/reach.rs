//! Whether a commit lies behind others, found out no further back than it takes.

use std::cell::RefCell;
use std::collections::HashSet;

use crate::error::Result;
use crate::object::ObjectId;
use crate::repo::{History, LogEntry, Repository};

/// The commits behind some that are known, with these. An increment asks about few, most of them new.
pub(super) struct Reach<'a> {
    repo: &'a Repository,
    walk: RefCell<Walk<'a>>,
}

/// A walk in falling order of turns, as far as it has come.
struct Walk<'a> {
    history: History<'a>,
    met: HashSet<ObjectId>,
    /// The turn that was met last; all turns from here on are no newer.
    turn: u64,
}

impl<'a> Reach<'a> {
    /// What lies behind `starts`. Reads these alone.
    ///
    /// # Errors
    /// `NotFound` or `Corrupt`, naming a start that cannot be read.
    pub(super) fn new(repo: &'a Repository, starts: &[ObjectId]) -> Result<Self> {
        let history = repo.history(starts, &[])?;
        let walk = Walk { history, met: HashSet::new(), turn: u64::MAX };
        Ok(Self { repo, walk: RefCell::new(walk) })
    }

    /// Returns true for a commit that is there. Reads history back to its turn, once.
    ///
    /// # Errors
    /// `NotFound` or `Corrupt`, naming a commit on the way.
    pub(super) fn contains(&self, id: &ObjectId) -> Result<bool> {
        let mut walk = self.walk.borrow_mut();
        if walk.met.contains(id) {
            return Ok(true);
        }
        // What is no commit, or was forgotten, lies behind none.
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
