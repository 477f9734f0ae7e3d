//! A session at one of its branches: turns, forks, merges and history.

use super::{Repo, Rewind, Snapshot, Turn};
use crate::context::{MessagePolicy, Selection, open_conflicts};
use crate::error::{Error, Result};
use crate::object::ObjectId;
use crate::repo::{BranchName, MergeKind, MergeRequest};

/// A branch of a session. It need not have a snapshot yet.
#[derive(Debug, Clone)]
pub struct Session {
    repo: Repo,
    branch: BranchName,
}

/// The result of a merge.
#[derive(Debug, Clone)]
#[non_exhaustive]
pub struct MergeOutcome {
    /// The newest snapshot of the branch now.
    pub snapshot: Snapshot,
    /// The kind of the merge.
    pub kind: MergeKind,
    /// Conflicting paths; all versions are in the section `conflicts`.
    pub conflicts: Vec<String>,
}

impl Session {
    pub(super) fn new(repo: &Repo, branch: BranchName) -> Self {
        Self { repo: repo.clone(), branch }
    }

    /// Returns the name of the session.
    #[must_use]
    pub fn name(&self) -> &str {
        self.branch.session()
    }

    /// Returns the branch, with its session.
    #[must_use]
    pub fn branch(&self) -> &BranchName {
        &self.branch
    }

    /// Returns all branches of the session that have a snapshot, ordered by name.
    #[must_use]
    pub fn branches(&self) -> Vec<Self> {
        let own = self.repo.inner.branches_of(self.name()).into_iter();
        own.map(|(branch, _)| Self::new(&self.repo, branch)).collect()
    }

    /// Begins a turn on top of the newest snapshot, or an empty first one.
    ///
    /// # Errors
    /// `Expired` if the newest snapshot was dropped, `Corrupt` if it cannot be read.
    pub fn turn(&self) -> Result<Turn<'_>> {
        Turn::begin(&self.repo, &self.branch)
    }

    /// Returns the newest snapshot; `None` if there is none yet.
    ///
    /// # Errors
    /// `Expired` if it was dropped, `Corrupt` if it cannot be read.
    pub fn newest(&self) -> Result<Option<Snapshot>> {
        self.tip().map(|id| Snapshot::read(&self.repo, id)).transpose()
    }

    /// Returns the snapshots of the branch, newest first. Reads one commit and one node per
    /// requested snapshot. A snapshot that retention dropped is an `Expired` error, and iteration
    /// continues after it.
    ///
    /// # Errors
    /// `NotFound` or `Corrupt` if the newest one cannot be read.
    pub fn history(&self) -> Result<impl Iterator<Item = Result<Snapshot>> + '_> {
        let starts: Vec<ObjectId> = self.tip().into_iter().collect();
        let entries = self.repo.inner.history(&starts, &[])?.first_parent();
        Ok(entries.map(|entry| Snapshot::read(&self.repo, entry?.id)))
    }

    /// Creates the branch `name` of this session at a snapshot of this or another session, without
    /// a copy.
    ///
    /// # Errors
    /// `InvalidInput` if the branch exists, the name is invalid, or it names a branch of another
    /// session; and errors of writing.
    pub fn fork(&self, name: &str, from: &Snapshot) -> Result<Self> {
        let branch = self.repo.inner.new_branch(self.name(), name)?;
        if self.repo.inner.tip(&branch).is_some() {
            return Err(Error::invalid(format!(
                "branch {branch} exists already: choose another name"
            )));
        }
        let mut change = self.repo.inner.begin();
        change.move_branch(&branch, Some(from.id()));
        change.commit(&self.repo.stamp(), &format!("fork {branch}"))?;
        Ok(Self::new(&self.repo, branch))
    }

    /// Merges the newest snapshot of `other` into this branch. Maps are merged by key, JSON by
    /// field, text by line; messages of both sides stay, ordered by time. Costs in proportion to
    /// the changes of both sides since their newest common snapshot.
    ///
    /// # Errors
    /// `NotFound` if one of them has no snapshot, `Expired` if a needed snapshot was dropped,
    /// `Conflict` if another process moved the branch concurrently: then nothing has changed.
    pub fn merge(&self, other: &Self) -> Result<MergeOutcome> {
        let missing = || Error::not_found(format!("branch {} has no snapshot", other.branch));
        let formats = self.repo.formats;
        let request = MergeRequest {
            into: self.branch.clone(),
            theirs: other.tip().ok_or_else(missing)?,
            label: other.branch.to_string(),
            messages: MessagePolicy::default(),
            only: Selection::default(),
            tools: &formats.tool_use,
            message: None,
        };
        let stamp = self.repo.stamp();
        let mut change = self.repo.inner.begin();
        let merge = change.merge(&request, &stamp)?;
        if merge.kind != MergeKind::UpToDate {
            change.commit(&stamp, &format!("merge {} into {}", other.branch, self.branch))?;
        }
        let snapshot = Snapshot::read(&self.repo, merge.commit)?;
        let conflicts = match merge.report {
            Some(_) => open_conflicts(self.repo.inner.store(), snapshot.context())?,
            None => Vec::new(),
        };
        let conflicts = conflicts.into_iter().map(|conflict| conflict.path).collect();
        Ok(MergeOutcome { snapshot, kind: merge.kind, conflicts })
    }

    /// Deletes the session with all of its branches, in one operation. Returns true if it existed.
    /// A collection deletes content that only this session references, once no undo can restore it.
    ///
    /// # Errors
    /// Errors of writing.
    pub fn delete(&self) -> Result<bool> {
        let branches = self.branches();
        let mut change = self.repo.change();
        for branch in &branches {
            change.on(&branch.branch).delete();
        }
        change.commit(&format!("delete {}", self.name()))?;
        Ok(!branches.is_empty())
    }

    /// Begins to plan a rewind of this branch. One undo reverts it.
    pub fn rewind(&self) -> Rewind<'_> {
        Rewind::new(&self.repo, &self.branch)
    }

    pub(super) fn repo(&self) -> &Repo {
        &self.repo
    }

    fn tip(&self) -> Option<ObjectId> {
        self.repo.inner.tip(&self.branch)
    }
}
