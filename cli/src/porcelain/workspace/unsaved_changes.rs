//! Compares the workspace of a branch with its newest snapshot, without writing.

use std::path::PathBuf;
use std::time::Duration;

use turntree::Error;
use turntree::context::{Builder, Context, ContextDiff, diff};
use turntree::object::ObjectId;
use turntree::repo::{Repository, Transaction};
use turntree::workspace::capture;

use super::capture::Limits;
use super::rewind::{capturing, checked};
use crate::program::here::workspace_of;
use crate::view::error::{Failure, Result};

/// The differences between a workspace and the newest snapshot of HEAD.
pub(crate) struct UnsavedChanges<'r> {
    /// The workspace.
    pub(crate) dir: PathBuf,
    /// Holds the content of both sides; dropping it leaves the store unchanged.
    pub(crate) change: Transaction<'r>,
    pub(crate) changed: ContextDiff,
    /// True if the time was too short to read everything.
    pub(crate) unfinished: bool,
}

/// The workspace of the newest snapshot of HEAD, if the directory exists.
pub(crate) fn known_workspace(repo: &Repository) -> Result<Option<(ObjectId, PathBuf)>> {
    let head = repo.head()?;
    let Some(commit) = head.commit else { return Ok(None) };
    let dir = workspace_of(repo, &head.branch, &commit)?.filter(|dir| dir.is_dir());
    let narrow = dir.filter(|dir| Limits::default().check(dir).is_ok());
    Ok(narrow.map(|dir| (commit, dir)))
}

impl<'r> UnsavedChanges<'r> {
    /// Reads the workspace for at most `time`.
    ///
    /// # Errors
    /// `InvalidInput` if no snapshot of the branch records the directory of its files, and
    /// the errors of a capture.
    pub(crate) fn look(repo: &'r Repository, time: Option<Duration>) -> Result<Self> {
        let Some((commit, dir)) = known_workspace(repo)? else {
            let branch = repo.head()?.branch;
            let unknown = format!("no snapshot of {branch} names the directory of its files");
            let hint = "'turntree diff A B' compares snapshots, 'turntree snapshot --workspace .' \
                        remembers the directory";
            return Err(Failure::hinted(Error::invalid(unknown), hint));
        };
        let dir = checked(&dir, false)?;
        let before = repo.context(&commit)?;
        let mut change = repo.begin();
        let mut builder = Builder::from(before.clone());
        let start = std::time::Instant::now();
        let (captured, _) = capturing(repo, Some(&dir), |options| {
            let is_late = || time.is_some_and(|time| start.elapsed() >= time);
            let options = turntree::workspace::CaptureOptions {
                over_budget: &is_late,
                max_file_bytes: options.max_file_bytes,
                progress: options.progress,
                never: options.never,
                cache: options.cache,
                git: options.git,
            };
            capture(&mut change, &before, &mut builder, &dir, &options)
        })?;
        let tree = builder.write(&mut change)?;
        let now = Context::open(&change, &tree)?;
        let changed = diff(&change, &before, &now)?;
        Ok(Self { dir, change, changed, unfinished: captured.unfinished })
    }

    /// Returns the number of files that differ.
    pub(crate) fn files(&self) -> u64 {
        self.changed.values().map(|section| section.changes.len() as u64).sum()
    }
}
