//! The bound of a store: the maximum size of all files, if budgets cover the whole store.

use std::collections::BTreeSet;

use super::budget_setting::store_budget;
use super::policy::Policies;
use crate::error::Result;
use crate::object::ObjectSource;
use crate::repo::{BranchName, Repository};
use crate::store::{RefTable, StoreSummary};

/// Returns the maximum size of the files of a store with these refs, in bytes: its budget, or the
/// sum of the budgets of its sessions if each session has one. `None` while a session may grow
/// without limit.
///
/// # Errors
/// Errors of reading the budget and the policies.
pub(in crate::maintenance) fn size_bound(
    source: &dyn ObjectSource,
    refs: &RefTable,
) -> Result<Option<u64>> {
    let whole = store_budget(source, refs)?;
    let policies = Policies::load(source, refs)?;
    if !policies.has_budget() {
        return Ok(whole);
    }
    let branches = refs.values.keys().filter_map(BranchName::from_full);
    let sessions: BTreeSet<String> = branches.map(|it| it.session().to_owned()).collect();
    let budget = |session: &String| policies.of(session).and_then(|policy| policy.budget_bytes);
    let sum =
        sessions.iter().map(budget).try_fold(0_u64, |sum, own| Some(sum.saturating_add(own?)));
    let sum = sum.filter(|_| !sessions.is_empty());
    Ok(whole.into_iter().chain(sum).min())
}

/// The fullness of a store, in percent of its bound, above which writers are slowed down.
pub const CROWDED_PERCENT: u64 = 125;

/// The fullness of a store.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub struct Fullness {
    /// The bytes of all files.
    pub file_bytes: u64,
    /// The bound by the budgets; `None` while these do not cover the whole store.
    pub bound_bytes: Option<u64>,
    pub(in crate::maintenance) journal_bytes: u64,
    pub(in crate::maintenance) journal_objects: usize,
}

impl Fullness {
    /// Measures the files and reads the budgets of a store.
    ///
    /// # Errors
    /// `Io` when the size of a file cannot be read, and errors of reading the budgets.
    pub fn of(repo: &Repository) -> Result<Self> {
        let StoreSummary { file_bytes, journal_bytes, journal_objects, .. } =
            repo.store().summary()?;
        let bound_bytes = size_bound(repo.store(), &repo.refs())?;
        let file_bytes = file_bytes + repo.store().reserve_bytes();
        Ok(Self { file_bytes, bound_bytes, journal_bytes, journal_objects })
    }

    /// Returns true if the files exceed the bound.
    #[must_use]
    pub fn is_over(&self) -> bool {
        self.bound_bytes.is_some_and(|bound| self.file_bytes > bound)
    }

    /// Returns true if the files exceed the bound so far that writers should be slowed down.
    #[must_use]
    pub fn is_crowded(&self) -> bool {
        self.percent().is_some_and(|percent| percent > CROWDED_PERCENT)
    }

    /// Returns the bytes of the files in percent of the bound; `None` without a bound.
    #[must_use]
    pub fn percent(&self) -> Option<u64> {
        self.file_bytes.saturating_mul(100).checked_div(self.bound_bytes?)
    }
}
