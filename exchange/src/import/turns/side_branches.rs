//! The branches of a session beside the one that a file is on, by their newest turns.
//!
//! A file may go back thousands of times, each time with a new branch, so they are listed once.

use std::collections::{BTreeSet, HashMap};

use turntree::error::Result;
use turntree::object::ObjectId;
use turntree::repo::{BranchName, Transaction};

use crate::import::rewind::free_name_from;

/// Other branches of the session of one branch.
pub(super) struct SideBranches {
    by_tip: HashMap<ObjectId, BTreeSet<BranchName>>,
    /// The number to look from for a free name.
    next: u64,
}

impl SideBranches {
    /// Lists the branches beside `branch`, as `change` would leave them.
    pub(super) fn of(change: &Transaction<'_>, branch: &BranchName) -> Self {
        let mut by_tip: HashMap<ObjectId, BTreeSet<BranchName>> = HashMap::new();
        for (name, tip) in change.branches_of(branch.session()) {
            if name != *branch {
                by_tip.entry(tip).or_default().insert(name);
            }
        }
        Self { by_tip, next: 2 }
    }

    /// Returns whether one of them ends with the turn `tip`.
    pub(super) fn is_one_at(&self, tip: &ObjectId) -> bool {
        self.by_tip.contains_key(tip)
    }

    /// Takes out the first of them, by name, that ends with the turn `tip`.
    pub(super) fn take_at(&mut self, tip: &ObjectId) -> Option<BranchName> {
        let names = self.by_tip.get_mut(tip)?;
        let first = names.pop_first();
        if names.is_empty() {
            self.by_tip.remove(tip);
        }
        first
    }

    /// Adds one that ends with the turn `tip`.
    pub(super) fn add(&mut self, name: BranchName, tip: ObjectId) {
        self.by_tip.entry(tip).or_default().insert(name);
    }

    /// Returns a name beside `branch` that no branch has.
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
