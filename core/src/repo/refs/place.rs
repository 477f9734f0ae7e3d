//! Places: the caller's location, which determines the branch that commands act on.
//!
//! The engine knows no directories: a place is a key that the caller chooses, and a function of the
//! caller chooses the branch. The branch that was switched to at a place is a symbolic ref like
//! HEAD, `refs/places/<key>`, written in the same operation as HEAD. It keeps nothing alive,
//! follows its branch through a rename, and is deleted with it. A place that was created for a
//! branch, as an additional workspace, has a second ref, `refs/places/<key>.worktree`.

use std::fmt;
use std::sync::{Mutex, PoisonError};

use crate::error::{ErrorKind, Result};
use crate::object::{ObjectId, RefValue};
use crate::repo::{BranchName, HEAD, Head, Repository, Transaction, check_full_name};
use crate::store::Expected;

/// The prefix of refs to the branches that were switched to at places.
const PLACES: &str = "refs/places/";

/// The suffix of a ref that marks a place as a worktree.
const WORKTREE: &str = ".worktree";

/// Chooses the branch that a handle acts on. The second argument is false to ignore switches at the
/// handle's own place.
pub type ChooseBranch = dyn Fn(&Repository, bool) -> Result<BranchName> + Send + Sync;

/// Returns true if the ref `name` belongs to a place.
#[must_use]
pub fn is_place(name: &str) -> bool {
    name.starts_with(PLACES)
}

/// Returns true if the ref `name` marks a place as a worktree.
#[must_use]
pub fn is_worktree(name: &str) -> bool {
    is_place(name) && name.ends_with(WORKTREE)
}

/// The place of a handle.
pub(in crate::repo) struct Place {
    /// The full name of the ref.
    name: String,
    choose: Box<ChooseBranch>,
    /// The branch that was chosen last, and the newest operation at that time.
    chosen: Mutex<Option<(Option<ObjectId>, BranchName)>>,
}

impl fmt::Debug for Place {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Place").field("name", &self.name).finish_non_exhaustive()
    }
}

impl Place {
    /// Returns the branch to act on, as of the newest operation.
    pub(in crate::repo) fn branch(&self, repo: &Repository) -> Result<BranchName> {
        let operation = repo.refs().operation;
        let known = self.chosen.lock().unwrap_or_else(PoisonError::into_inner).clone();
        if let Some((_, branch)) = known.filter(|(at, _)| *at == operation) {
            return Ok(branch);
        }
        let branch = (self.choose)(repo, true)?;
        let mut chosen = self.chosen.lock().unwrap_or_else(PoisonError::into_inner);
        *chosen = Some((operation, branch.clone()));
        Ok(branch)
    }
}

impl Repository {
    /// Sets the place `key`: `choose` determines [`Repository::head`], unless
    /// [`Repository::acting_on`] names a branch, and a switch is recorded for this place too.
    /// `choose` is called when the branch is needed, and again after each operation.
    ///
    /// # Errors
    /// `InvalidInput` for a key that is not allowed in the name of a ref.
    pub fn at_place(mut self, key: &str, choose: Box<ChooseBranch>) -> Result<Self> {
        let name = format!("{PLACES}{key}");
        check_full_name(&name)?;
        self.place = Some(Place { name, choose, chosen: Mutex::default() });
        Ok(self)
    }

    /// Returns the branch that was switched to at the place `key`, if there is one.
    #[must_use]
    pub fn switched_at(&self, key: &str) -> Option<BranchName> {
        match self.refs().value(&format!("{PLACES}{key}")) {
            Some(RefValue::Symbolic(full)) => BranchName::from_full(full),
            _ => None,
        }
    }

    /// Returns the branch of the worktree at the place `key`: the branch that was last switched to
    /// there, or the one it was created for. `None` if the place is not a worktree.
    #[must_use]
    pub fn worktree_at(&self, key: &str) -> Option<BranchName> {
        let made = self.switched_at(&format!("{key}{WORKTREE}"))?;
        Some(self.switched_at(key).unwrap_or(made))
    }

    /// Returns true if a branch was switched to at any place.
    #[must_use]
    pub fn has_places(&self) -> bool {
        self.refs().values.starting_with(PLACES).next().is_some()
    }

    /// Returns [`Repository::head`], or `None` if no branch can be chosen, for commands that work
    /// without one.
    ///
    /// # Errors
    /// `Corrupt` when HEAD is not a symbolic ref to a branch.
    pub fn head_if_any(&self) -> Result<Option<Head>> {
        match self.head() {
            Ok(head) => Ok(Some(head)),
            Err(error) if error.kind() == ErrorKind::NotFound => Ok(None),
            Err(error) => Err(error),
        }
    }

    /// Returns the full name of the branch that HEAD was at `n` switches ago, at the place of this
    /// handle if it has one. Before the first switch there, it is the branch chosen without a
    /// switch.
    ///
    /// # Errors
    /// Errors of reading operations.
    pub fn head_before(&self, n: usize) -> Result<Option<String>> {
        let name = self.place.as_ref().map_or(HEAD, |place| place.name.as_str());
        match (self.ref_before(name, n)?, &self.place) {
            (Some(RefValue::Symbolic(full)), _) => Ok(Some(full)),
            (None, Some(place)) if n > 0 && self.ref_before(name, n - 1)?.is_some() => {
                Ok((place.choose)(self, false).ok().map(|branch| branch.full()))
            }
            _ => Ok(None),
        }
    }
}

impl Transaction<'_> {
    /// Points HEAD, and the place of the handle if it has one, at a branch, which need not exist
    /// yet.
    pub fn switch(&mut self, branch: &BranchName) {
        self.set_head(branch);
        if let Some(place) = &self.repo().place {
            let new = Some(RefValue::Symbolic(branch.full()));
            self.set_ref(&place.name, Expected::Any, new);
        }
    }

    /// Makes the place `key` a worktree of a branch, and points the place at it.
    ///
    /// # Errors
    /// `InvalidInput` for a key that is not allowed in the name of a ref.
    pub fn make_worktree(&mut self, key: &str, branch: &BranchName) -> Result<()> {
        for name in [format!("{PLACES}{key}"), format!("{PLACES}{key}{WORKTREE}")] {
            check_full_name(&name)?;
            self.set_ref(&name, Expected::Any, Some(RefValue::Symbolic(branch.full())));
        }
        Ok(())
    }

    /// Points the place of the handle, if it has one, at a branch, unless a branch was switched to
    /// there.
    pub fn settle(&mut self, branch: &BranchName) {
        let Some(place) = &self.repo().place else { return };
        if self.initial_value(&place.name).is_none() {
            self.set_ref(&place.name, Expected::Any, Some(RefValue::Symbolic(branch.full())));
        }
    }

    /// Points only HEAD at a branch, which need not exist yet: libraries and handles without a
    /// place act on it.
    pub fn set_head(&mut self, branch: &BranchName) {
        self.set_ref(HEAD, Expected::Any, Some(RefValue::Symbolic(branch.full())));
    }

    /// Points every place at `from` to another branch, or deletes its ref.
    pub(in crate::repo) fn move_places(&mut self, from: &BranchName, to: Option<&BranchName>) {
        let full = from.full();
        let is_there = |value: &RefValue| matches!(value, RefValue::Symbolic(at) if *at == full);
        let there = self.initial_refs(PLACES).filter(|(_, value)| is_there(value));
        let there: Vec<(String, RefValue)> =
            there.map(|(name, value)| (name.to_owned(), value.clone())).collect();
        for (name, value) in there {
            let new = to.map(|to| RefValue::Symbolic(to.full()));
            self.set_ref(&name, Expected::Value(value), new);
        }
    }
}
