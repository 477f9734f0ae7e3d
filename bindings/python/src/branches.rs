//! Forks and merges branches.

use pyo3::prelude::*;
use turntree::ErrorKind;
use turntree::local::{Repo, Snapshot};

use crate::error::already_exists;
use crate::lookup::{branch_name, snapshot_at};
use crate::process::{detached, patiently};

/// Creates a branch at a snapshot, which it returns.
pub(crate) fn fork(py: Python<'_>, repo: &Repo, branch: &str, at: &str) -> PyResult<Snapshot> {
    let name = branch_name(branch)?;
    let at = detached(py, || snapshot_at(repo, at))?;
    let mut change = repo.change();
    change.on(&name).expect(None).go_on_from(at.id());
    let is_forked = patiently(py, || match change.commit(&format!("fork {name}")) {
        Err(error) if error.kind() == ErrorKind::Conflict => Ok(false),
        outcome => outcome.map(|_| true),
    })?;
    match is_forked {
        true => Ok(at),
        false => Err(already_exists(format!("branch {name} exists already: choose another name"))),
    }
}

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
