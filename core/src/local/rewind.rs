//! A rewind: restores a branch, and optionally its workspace, to an earlier snapshot. It is planned
//! first, and is one operation that can be undone.

use std::fmt;
use std::path::{Path, PathBuf};

use super::system::{git_places, home};
use super::{Repo, Snapshot};
use crate::context::Selection;
use crate::error::{Error, Result};
use crate::object::ObjectId;
use crate::repo::BranchName;
use crate::workspace::{
    CaptureOptions, ChangeKind, FileChange, PreparedRewind, RewindReport, RewindRequest, StatCache,
    expect_narrow, prepare_rewind,
};

/// Digits of an id in a title.
const SHORT: usize = 12;

/// A rewind under construction.
#[derive(Debug)]
#[must_use = "a rewind does nothing before its plan is applied"]
pub struct Rewind<'r> {
    repo: &'r Repo,
    branch: &'r BranchName,
    target: RewindTarget,
    workspace: Option<PathBuf>,
    only: Vec<String>,
    allow_broad: bool,
}

#[derive(Debug)]
enum RewindTarget {
    Unset,
    Turn(u64),
    Snapshot(ObjectId),
}

/// A planned rewind. Displays as a list of files for people. Dropping it changes nothing.
#[derive(Debug)]
pub struct RewindPlan<'r> {
    repo: &'r Repo,
    prepared: PreparedRewind<'r>,
    cache: Option<StatCache>,
}

impl<'r> Rewind<'r> {
    pub(super) fn new(repo: &'r Repo, branch: &'r BranchName) -> Self {
        let (target, workspace, only) = (RewindTarget::Unset, None, Vec::new());
        Self { repo, branch, target, workspace, only, allow_broad: false }
    }

    /// Rewinds to the turn with this number.
    pub fn to_turn(mut self, turn: u64) -> Self {
        self.target = RewindTarget::Turn(turn);
        self
    }

    /// Rewinds to this snapshot.
    pub fn to(mut self, snapshot: &Snapshot) -> Self {
        self.target = RewindTarget::Snapshot(snapshot.id());
        self
    }

    /// Also restores the files of the directory `dir`. Its current state is saved before, including
    /// edits that no snapshot has.
    pub fn workspace(mut self, dir: impl AsRef<Path>) -> Self {
        self.workspace = Some(dir.as_ref().to_owned());
        self
    }

    /// Limits the rewind to a section or path, such as `files` or `scratchpad`; can be called
    /// several times.
    pub fn only(mut self, path: impl Into<String>) -> Self {
        self.only.push(path.into());
        self
    }

    /// Allows `/`, the home directory and its ancestors as the workspace.
    pub fn allow_broad(mut self) -> Self {
        self.allow_broad = true;
        self
    }

    /// Plans the rewind. Reads the target, captures the workspace, and changes nothing.
    ///
    /// # Errors
    /// `InvalidInput` without a target, and for the workspaces `/`, the home directory and its
    /// ancestors unless allowed; `NotFound` if the turn is not on the branch or the workspace is
    /// not a directory, `Expired` if the snapshot was dropped.
    pub fn plan(self) -> Result<RewindPlan<'r>> {
        let repo = &*self.repo.inner;
        let missing = || Error::not_found(format!("branch {} has no snapshot", self.branch));
        let tip = repo.tip(self.branch).ok_or_else(missing)?;
        let from = match self.target {
            RewindTarget::Turn(turn) => repo.find_turn(&tip, turn)?,
            RewindTarget::Snapshot(id) => id,
            RewindTarget::Unset => {
                return Err(Error::invalid("a rewind needs a target: call to_turn or to"));
            }
        };
        let restore = RewindRequest {
            branch: self.branch.clone(),
            from,
            only: Selection::below(&self.only),
            workspace: self.workspace,
            is_rollback: true,
            keep_lessons: false,
            audit: false,
            message: format!("back to {}", from.short(SHORT)),
        };
        let dir = restore.workspace.as_deref();
        if let Some(dir) = dir.filter(|_| !self.allow_broad) {
            expect_narrow(dir, home().as_deref())?;
        }
        let cache = dir.and_then(|dir| StatCache::open(repo, dir).ok());
        let never = self.repo.excluded_folders();
        let git = git_places();
        let options = CaptureOptions {
            never: &never,
            cache: cache.as_ref(),
            git: &git,
            ..CaptureOptions::default()
        };
        let prepared = prepare_rewind(repo, &restore, &options, &self.repo.stamp())?;
        Ok(RewindPlan { repo: self.repo, prepared, cache })
    }
}

impl RewindPlan<'_> {
    /// Returns the files of the workspace that would be written or deleted, ordered by path.
    #[must_use]
    pub fn files(&self) -> &[FileChange] {
        self.prepared.plan().files.as_ref().map_or(&[], |changes| &changes.files)
    }

    /// Returns the names of the sections of the context that would change.
    #[must_use]
    pub fn sections(&self) -> &[String] {
        &self.prepared.plan().sections
    }

    /// Applies the rewind: first the branch, as one operation, then the files. Returns the new
    /// snapshot of the branch.
    ///
    /// # Errors
    /// `Conflict` if another process moved the branch concurrently: then nothing has changed. If a
    /// file could not be written, its error; all other files are done, and an undo reverts
    /// everything.
    pub fn apply(self) -> Result<Snapshot> {
        let reason = self.prepared.plan().message.clone();
        let done = self.prepared.apply(&self.repo.stamp(), &reason)?;
        let before = done.plan.before.as_ref();
        if let Some((cache, before)) = self.cache.as_ref().zip(before) {
            // Without the cache the next capture only takes longer.
            let _ = cache.save(&before.captured, self.repo.inner.store(), &before.tree);
        }
        let commit = done.plan.commit;
        check(done)?;
        Snapshot::read(self.repo, commit)
    }
}

impl fmt::Display for RewindPlan<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "{}", self.prepared.plan().message)?;
        for section in self.sections() {
            writeln!(f, "  change {section}")?;
        }
        for file in self.files() {
            let action = match file.kind {
                ChangeKind::Delete => "delete",
                _ => "write",
            };
            writeln!(f, "  {action} {}", file.path.display())?;
        }
        Ok(())
    }
}

/// Returns the first error of a file.
pub(super) fn check(done: RewindReport) -> Result<()> {
    let failed = done.arranged.into_iter().flat_map(|arranged| arranged.failed).next();
    match failed {
        Some((path, error)) => Err(error.at(path.display())),
        None => Ok(()),
    }
}
