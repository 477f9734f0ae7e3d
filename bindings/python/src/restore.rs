//! Restores snapshots: into a directory, and as the newest one of a branch.

use std::path::{Path, PathBuf};

use pyo3::prelude::*;
use turntree::local::{Repo, Snapshot};
use turntree::workspace::{ChangeKind, FileAction};
use turntree::{Error, Result};

use crate::values::{Answer, named};

/// The options of a restore.
#[derive(Clone)]
pub(crate) struct Restore {
    pub(crate) only: Vec<String>,
    pub(crate) overwrite: bool,
    pub(crate) allow_broad: bool,
    pub(crate) dry_run: bool,
}

/// A file, and what happens to it.
pub(crate) struct File {
    path: PathBuf,
    action: &'static str,
}

/// Writes a snapshot as files into a directory. Returns the files.
pub(crate) fn restore(
    repo: &Repo,
    revision: &str,
    dir: &Path,
    options: &Restore,
) -> Result<Vec<File>> {
    let id = repo.resolve(revision)?;
    let snapshot = repo.snapshot(&id.to_string())?;
    let mut checkout = snapshot.checkout(dir);
    for path in &options.only {
        checkout = checkout.only(path);
    }
    if options.overwrite {
        checkout = checkout.overwrite();
    }
    if options.allow_broad {
        checkout = checkout.allow_broad();
    }
    let plan = checkout.plan()?;
    if !options.dry_run {
        plan.apply()?;
    }
    let file = |file: &turntree::workspace::PlannedFile| {
        let action = match file.action {
            FileAction::Create => "create",
            FileAction::Overwrite => "overwrite",
            FileAction::Keep => "keep",
        };
        File { path: file.path.clone(), action }
    };
    Ok(plan.files().iter().map(file).collect())
}

/// The target of a rollback.
#[derive(Clone)]
pub(crate) enum Target {
    Turn(u64),
    Revision(String),
}

/// The changes of a rollback, and the new snapshot unless it was only planned.
pub(crate) struct RolledBack {
    pub(crate) snapshot: Option<Snapshot>,
    sections: Vec<String>,
    files: Vec<File>,
}

/// Restores a branch to an earlier snapshot, as a new snapshot.
pub(crate) fn roll_back(
    repo: &Repo,
    branch: &str,
    target: &Target,
    workspace: Option<&Path>,
    options: &Restore,
) -> Result<RolledBack> {
    repo.refresh()?;
    let session = repo.session(branch)?;
    let mut rewind = session.rewind();
    rewind = match target {
        Target::Turn(turn) => rewind.to_turn(*turn),
        Target::Revision(revision) => {
            let id = repo.resolve(revision)?;
            rewind.to(&repo.snapshot(&id.to_string())?)
        }
    };
    if let Some(dir) = workspace {
        rewind = rewind.workspace(dir);
    }
    for path in &options.only {
        rewind = rewind.only(path);
    }
    if options.allow_broad {
        rewind = rewind.allow_broad();
    }
    let plan = rewind.plan()?;
    let sections = plan.sections().to_vec();
    let file = |file: &turntree::workspace::FileChange| {
        let action = match file.kind {
            ChangeKind::Create => "create",
            ChangeKind::Overwrite => "overwrite",
            ChangeKind::Delete => "delete",
        };
        File { path: file.path.clone(), action }
    };
    let files = plan.files().iter().map(file).collect();
    let snapshot = if options.dry_run { None } else { Some(plan.apply()?) };
    Ok(RolledBack { snapshot, sections, files })
}

impl Answer for File {
    fn into_python(self, py: Python<'_>) -> PyResult<Bound<'_, PyAny>> {
        named(py, "FileAction", (self.path, self.action))
    }
}

impl Answer for RolledBack {
    fn into_python(self, py: Python<'_>) -> PyResult<Bound<'_, PyAny>> {
        let snapshot = self.snapshot.map(|inner| crate::snapshot::Snapshot { inner });
        let files = self.files.into_python(py)?;
        named(py, "RolledBack", (snapshot, self.sections, files))
    }
}

/// Returns the target that a caller names by a revision or a turn.
pub(crate) fn target(to: Option<String>, turn: Option<u64>) -> Result<Target> {
    match (to, turn) {
        (Some(revision), None) => Ok(Target::Revision(revision)),
        (None, Some(turn)) => Ok(Target::Turn(turn)),
        _ => Err(Error::invalid("a rollback has one target: name it by to= or by turn=")),
    }
}
