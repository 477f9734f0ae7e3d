//! The bound of a store: what all of its files may take, where budgets say so of everything in it.

use std::collections::BTreeSet;

use super::budget_setting::store_budget;
use super::policy::Policies;
use crate::error::Result;
use crate::object::ObjectSource;
use crate::repo::{BranchName, Repository};
use crate::store::{RefTable, StoreSummary};

/// The bytes that the files of a store with these refs may take: its budget, or the sum of those of its
/// sessions when each has one. Nothing while a session may grow for ever.
///
/// # Errors
/// Those of reading the budget and the policies.
pub(super) fn bound_of(source: &dyn ObjectSource, refs: &RefTable) -> Result<Option<u64>> {
    let whole = store_budget(source, refs)?;
    let policies = Policies::load(source, refs)?;
    if !policies.has_budget() {
        return Ok(whole);
    }
    let branches = refs.values.keys().filter_map(|name| BranchName::from_full(name));
    let sessions: BTreeSet<String> = branches.map(|it| it.session().to_owned()).collect();
    let budget = |session: &String| policies.of(session).and_then(|policy| policy.budget_bytes);
    let sum =
        sessions.iter().map(budget).try_fold(0_u64, |sum, own| Some(sum.saturating_add(own?)));
    let sum = sum.filter(|_| !sessions.is_empty());
    Ok(whole.into_iter().chain(sum).min())
}

/// How full a store is, in percent of its bound, when writers begin to be held back.
pub const CROWDED_PERCENT: u64 = 125;

/// How full a store is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub struct Fullness {
    /// Bytes of its files.
    pub file_bytes: u64,
    /// What they may take by the budgets; nothing while these are not about all of the store.
    pub bound_bytes: Option<u64>,
    pub(super) journal_bytes: u64,
    pub(super) journal_objects: usize,
}

impl Fullness {
    /// Looks at the sizes of files and at the budgets of a store.
    ///
    /// # Errors
    /// `Io` when a file cannot be looked at, and those of reading the budgets.
    pub fn of(repo: &Repository) -> Result<Self> {
        let StoreSummary { file_bytes, journal_bytes, journal_objects, .. } =
            repo.store().summary()?;
        let bound_bytes = bound_of(repo.store(), &repo.refs())?;
        let file_bytes = file_bytes + repo.store().reserve_bytes();
        Ok(Self { file_bytes, bound_bytes, journal_bytes, journal_objects })
    }

    /// Returns true if the files take more than they may.
    #[must_use]
    pub fn is_over(&self) -> bool {
        self.bound_bytes.is_some_and(|bound| self.file_bytes > bound)
    }

    /// Returns true if the files take so much more that writers are to be held back.
    #[must_use]
    pub fn is_crowded(&self) -> bool {
        self.percent().is_some_and(|percent| percent > CROWDED_PERCENT)
    }

    /// Returns how much they take, in percent of what they may; nothing without a bound.
    #[must_use]
    pub fn percent(&self) -> Option<u64> {
        self.file_bytes.saturating_mul(100).checked_div(self.bound_bytes?)
    }
}
