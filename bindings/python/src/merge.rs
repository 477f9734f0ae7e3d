//! Merges branches.

use pyo3::prelude::*;
use turntree::local::Repo;

use crate::process::patiently;

/// The result of a merge.
#[pyclass(frozen, module = "turntree", get_all)]
pub(crate) struct MergeOutcome {
    /// The newest snapshot of the branch now.
    id: String,
    /// ``up-to-date``, ``fast-forward`` or ``merged``.
    kind: &'static str,
    /// Conflicting paths; all versions are in the section ``conflicts``.
    conflicts: Vec<String>,
}

/// Merges the newest snapshot of `theirs` into the branch `into`. With the program, tool calls stay
/// with their results.
pub(crate) fn merge(
    py: Python<'_>,
    repo: &Repo,
    into: &str,
    theirs: &str,
) -> PyResult<MergeOutcome> {
    let repo = repo.clone().reading(crate::formats());
    let outcome = patiently(py, || {
        repo.refresh()?;
        repo.session(into)?.merge(&repo.session(theirs)?)
    })?;
    let (id, kind) = (outcome.snapshot.id().to_string(), outcome.kind.name());
    Ok(MergeOutcome { id, kind, conflicts: outcome.conflicts })
}
