//! Indexes the other branches of a session by their tips.
//!
//! A file may rewind thousands of times, each time with a new branch, so the branches are listed
//! only once.

use std::collections::{BTreeSet, HashMap};

use turntree::error::Result;
use turntree::object::ObjectId;
use turntree::repo::{BranchName, Transaction};

use crate::import::rewind::free_name_from;

/// The branches of a session, except for one.
pub(super) struct SideBranches {
    by_tip: HashMap<ObjectId, BTreeSet<BranchName>>,
    /// The first number to try for a free name.
    next: u64,
}

impl SideBranches {
    /// Lists the branches of the session except for `branch`, including the changes of `change`.
    pub(super) fn of(change: &Transaction<'_>, branch: &BranchName) -> Self {
        let mut by_tip: HashMap<ObjectId, BTreeSet<BranchName>> = HashMap::new();
        for (name, tip) in change.branches_of(branch.session()) {
            if name != *branch {
                by_tip.entry(tip).or_default().insert(name);
            }
        }
        Self { by_tip, next: 2 }
    }

    /// Returns true if one of the branches has the tip `tip`.
    pub(super) fn has_tip(&self, tip: &ObjectId) -> bool {
        self.by_tip.contains_key(tip)
    }

    /// Removes and returns the first branch, by name, with the tip `tip`.
    pub(super) fn take_by_tip(&mut self, tip: &ObjectId) -> Option<BranchName> {
        let names = self.by_tip.get_mut(tip)?;
        let first = names.pop_first();
        if names.is_empty() {
            self.by_tip.remove(tip);
        }
        first
    }

    /// Adds a branch with the tip `tip`.
    pub(super) fn add(&mut self, name: BranchName, tip: ObjectId) {
        self.by_tip.entry(tip).or_default().insert(name);
    }

    /// Returns a free name for a branch, derived from `branch`.
    ///
    /// # Errors
    /// `InvalidInput` for a name that no branch can have.
    pub(super) fn free_name(
        &mut self,
        change: &Transaction<'_>,
        branch: &BranchName,
    ) -> Result<BranchName> {
        free_name_from(&mut self.next, branch, |name| change.tip(name).is_none())
    }
}
