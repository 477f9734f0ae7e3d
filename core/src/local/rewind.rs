//! A rewind: a branch, and its workspace if wanted, back at an earlier snapshot. Planned first, one
//! operation, and undoable.

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

/// A rewind that is being described.
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

/// A rewind that is planned. Displays as a list of files for people. Dropping it changes nothing.
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

    /// Goes back to the turn with this number.
    pub fn to_turn(mut self, turn: u64) -> Self {
        self.target = RewindTarget::Turn(turn);
        self
    }

    /// Goes back to this snapshot.
    pub fn to(mut self, snapshot: &Snapshot) -> Self {
        self.target = RewindTarget::Snapshot(snapshot.id());
        self
    }

    /// Brings the files of the directory `dir` back as well. What is there now is saved before, edits
    /// that no snapshot has included.
    pub fn workspace(mut self, dir: impl AsRef<Path>) -> Self {
        self.workspace = Some(dir.as_ref().to_owned());
        self
    }

    /// Limits it to a section or path, such as `files` or `scratchpad`; may be called several times.
    pub fn only(mut self, path: impl Into<String>) -> Self {
        self.only.push(path.into());
        self
    }

    /// Allows `/`, the home directory and those above it as the workspace.
    pub fn allow_broad(mut self) -> Self {
        self.allow_broad = true;
        self
    }

    /// Plans it. Reads what comes back, captures the workspace, and changes nothing.
    ///
    /// # Errors
    /// `InvalidInput` without a target, and for the workspaces `/`, the home directory and those above
    /// it unless they are allowed; `NotFound` when the turn is not on the branch or the workspace
    /// is no directory, `Expired` when the snapshot was dropped.
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
        let cache = dir.and_then(|dir| StatCache::open(repo.store(), dir).ok());
        let never = self.repo.never();
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
    /// Returns the files of the workspace that would be written or deleted, in order of paths.
    #[must_use]
    pub fn files(&self) -> &[FileChange] {
        self.prepared.plan().files.as_ref().map_or(&[], |changes| &changes.files)
    }

    /// Returns the names of the sections of the context that would change.
    #[must_use]
    pub fn sections(&self) -> &[String] {
        &self.prepared.plan().sections
    }

    /// Does it: the branch first, as one operation, then the files. Returns the new snapshot of the
    /// branch.
    ///
    /// # Errors
    /// `Conflict` when another process moved the branch meanwhile: nothing has changed then. When a
    /// file could not be written, its error; all others are done, and an undo takes everything back.
    pub fn apply(self) -> Result<Snapshot> {
        let reason = self.prepared.plan().message.clone();
        let done = self.prepared.apply(&self.repo.stamp(), &reason)?;
        let before = done.plan.before.as_ref();
        if let Some((cache, before)) = self.cache.as_ref().zip(before) {
            // Without it the next capture takes longer, and no more.
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

/// The first thing that went wrong with a file.
pub(super) fn check(done: RewindReport) -> Result<()> {
    let failed = done.arranged.into_iter().flat_map(|arranged| arranged.failed).next();
    match failed {
        Some((path, error)) => Err(error.at(path.display())),
        None => Ok(()),
    }
}
