//! Finds what arguments name: the handle of this process, branches and snapshots.

use pyo3::prelude::*;
use turntree::Error;
use turntree::local::{self, Host, Repo};
use turntree::repo::BranchName;

use crate::error::{of_kind, raised};

/// Returns the handle of a host in this process.
pub(crate) fn repo_of(host: &Host) -> PyResult<Repo> {
    host.repo().map_err(|error| raised(&error))
}

/// Returns the snapshot at a revision.
pub(crate) fn snapshot_at(repo: &Repo, revision: &str) -> turntree::Result<local::Snapshot> {
    let id = repo.resolve(revision)?;
    repo.snapshot(&id.to_string())
}

/// Parses the name of a branch. Names of users and of files are often none.
pub(crate) fn branch_name(name: &str) -> PyResult<BranchName> {
    name.parse().map_err(|error: Error| {
        let text = format!(
            "{}; turntree.session_name makes the name of a session of any text",
            error.with_causes()
        );
        of_kind(error.kind(), text)
    })
}
