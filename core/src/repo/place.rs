//! Places: where the caller of a handle stands, and which branch commands act on there.
//!
//! The engine knows no directories: a place is a key of the caller's choice, and a function of the
//! caller chooses the branch. What was switched to at a place is a symbolic ref like HEAD,
//! `refs/places/<key>`, written in the same operation as HEAD. It keeps nothing by itself, follows
//! its branch to a new name, and goes with it. A place that was made for a branch, as a workspace
//! beside others, is marked with a second ref, `refs/places/<key>.worktree`.

use std::fmt;
use std::sync::{Mutex, PoisonError};

use super::{BranchName, HEAD, Head, Repository, Transaction, check_full_name};
use crate::error::{ErrorKind, Result};
use crate::object::{ObjectId, RefValue};
use crate::store::Expected;

/// The prefix of refs that say what was switched to at a place.
const PLACES: &str = "refs/places/";

/// The end of the name of a ref that marks a place as a worktree.
const WORKTREE: &str = ".worktree";

/// Chooses the branch that a handle acts on. The second argument is false to leave out what was
/// switched to at the handle's own place.
pub type ChooseBranch = dyn Fn(&Repository, bool) -> Result<BranchName> + Send + Sync;

/// Returns whether the ref `name` says what was switched to at a place.
#[must_use]
pub fn is_place(name: &str) -> bool {
    name.starts_with(PLACES)
}

/// Returns whether the ref `name` marks a place as a worktree.
#[must_use]
pub fn is_worktree(name: &str) -> bool {
    is_place(name) && name.ends_with(WORKTREE)
}

/// Where the caller of a handle stands.
pub(super) struct Place {
    /// The full name of its ref.
    name: String,
    choose: Box<ChooseBranch>,
    /// The branch that was chosen last, and the newest operation then.
    chosen: Mutex<Option<(Option<ObjectId>, BranchName)>>,
}

impl fmt::Debug for Place {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Place").field("name", &self.name).finish_non_exhaustive()
    }
}

impl Place {
    /// Returns the branch to act on, as of the newest operation.
    pub(super) fn branch(&self, repo: &Repository) -> Result<BranchName> {
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
    /// Stands at the place `key`: [`Repository::head`] is what `choose` says, unless
    /// [`Repository::acting_on`] names a branch, and a switch is written for this place too.
    /// `choose` is asked when the branch is, and again after each operation.
    ///
    /// # Errors
    /// `InvalidInput` for a key that cannot be part of the name of a ref.
    pub fn at_place(mut self, key: &str, choose: Box<ChooseBranch>) -> Result<Self> {
        let name = format!("{PLACES}{key}");
        check_full_name(&name)?;
        self.place = Some(Place { name, choose, chosen: Mutex::default() });
        Ok(self)
    }

    /// Returns the branch that was switched to at the place `key`, if one was.
    #[must_use]
    pub fn switched_at(&self, key: &str) -> Option<BranchName> {
        match self.refs().value(&format!("{PLACES}{key}")) {
            Some(RefValue::Symbolic(full)) => BranchName::from_full(full),
            _ => None,
        }
    }

    /// Returns the branch of the worktree at the place `key`, if it is one: that which it was made for,
    /// or what was switched to there since.
    #[must_use]
    pub fn worktree_at(&self, key: &str) -> Option<BranchName> {
        let made = self.switched_at(&format!("{key}{WORKTREE}"))?;
        Some(self.switched_at(key).unwrap_or(made))
    }

    /// Returns whether something was switched to at any place.
    #[must_use]
    pub fn has_places(&self) -> bool {
        self.refs().values.range(PLACES.to_owned()..).next().is_some_and(|(name, _)| is_place(name))
    }

    /// [`Repository::head`], and nothing where no branch can be chosen: for what works without one.
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

    /// The branch HEAD was at `n` switches ago, by its full name: at the place of this handle, if it
    /// has one. Before the first switch there it is what is chosen without it.
    ///
    /// # Errors
    /// Those of reading operations.
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
    /// Points HEAD at a branch, which need not exist yet, and so the place of the handle, if it has
    /// one.
    pub fn switch(&mut self, branch: &BranchName) {
        self.set_head(branch);
        if let Some(place) = &self.repo().place {
            let new = Some(RefValue::Symbolic(branch.full()));
            self.set_ref(&place.name, Expected::Any, new);
        }
    }

    /// Makes the place `key` a worktree of a branch, which HEAD is at there.
    ///
    /// # Errors
    /// `InvalidInput` for a key that cannot be part of the name of a ref.
    pub fn make_worktree(&mut self, key: &str, branch: &BranchName) -> Result<()> {
        for name in [format!("{PLACES}{key}"), format!("{PLACES}{key}{WORKTREE}")] {
            check_full_name(&name)?;
            self.set_ref(&name, Expected::Any, Some(RefValue::Symbolic(branch.full())));
        }
        Ok(())
    }

    /// Points the place of the handle, if it has one, at a branch, unless something was switched to
    /// there.
    pub fn settle(&mut self, branch: &BranchName) {
        let Some(place) = &self.repo().place else { return };
        if self.begun_with(&place.name).is_none() {
            self.set_ref(&place.name, Expected::Any, Some(RefValue::Symbolic(branch.full())));
        }
    }

    /// Points HEAD alone at a branch, which need not exist yet: what libraries and handles without a
    /// place act on.
    pub fn set_head(&mut self, branch: &BranchName) {
        self.set_ref(HEAD, Expected::Any, Some(RefValue::Symbolic(branch.full())));
    }

    /// Points every place that is at `from` to another branch, or nowhere.
    pub(super) fn move_places(&mut self, from: &BranchName, to: Option<&BranchName>) {
        let full = from.full();
        let is_there = |value: &RefValue| matches!(value, RefValue::Symbolic(at) if *at == full);
        let there = self.begun_with_prefix(PLACES).filter(|(_, value)| is_there(value));
        let there: Vec<(String, RefValue)> =
            there.map(|(name, value)| (name.to_owned(), value.clone())).collect();
        for (name, value) in there {
            let new = to.map(|to| RefValue::Symbolic(to.full()));
            self.set_ref(&name, Expected::Value(value), new);
        }
    }
}
