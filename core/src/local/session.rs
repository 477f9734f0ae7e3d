//! A session at one of its branches: take a turn, fork, merge, walk back.

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

/// The outcome of a merge.
#[derive(Debug, Clone)]
#[non_exhaustive]
pub struct MergeOutcome {
    /// The newest snapshot of the branch now.
    pub snapshot: Snapshot,
    /// The kind of the result.
    pub kind: MergeKind,
    /// Paths that both sides changed to something else; all versions lie in the section `conflicts`.
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

    /// Returns all branches of the session that have a snapshot, in order of names.
    #[must_use]
    pub fn branches(&self) -> Vec<Self> {
        let all = self.repo.inner.branches().into_iter();
        let own = all.filter(|(branch, _)| branch.session() == self.name());
        own.map(|(branch, _)| Self::new(&self.repo, branch)).collect()
    }

    /// Begins a turn on top of the newest snapshot, or an empty first one.
    ///
    /// # Errors
    /// `Expired` when the newest snapshot was dropped, `Corrupt` when it cannot be read.
    pub fn turn(&self) -> Result<Turn<'_>> {
        Turn::begin(&self.repo, &self.branch)
    }

    /// Returns the newest snapshot; `None` while there is none.
    ///
    /// # Errors
    /// `Expired` when it was dropped, `Corrupt` when it cannot be read.
    pub fn newest(&self) -> Result<Option<Snapshot>> {
        self.tip().map(|id| Snapshot::read(&self.repo, id)).transpose()
    }

    /// Returns the snapshots of the branch, newest first. Reads one commit and one node for each that
    /// is asked for; one that retention has dropped is an `Expired` error, and the next one follows.
    ///
    /// # Errors
    /// `NotFound` or `Corrupt` when the newest one cannot be read.
    pub fn history(&self) -> Result<impl Iterator<Item = Result<Snapshot>> + '_> {
        let starts: Vec<ObjectId> = self.tip().into_iter().collect();
        let entries = self.repo.inner.history(&starts, &[])?.first_parent();
        Ok(entries.map(|entry| Snapshot::read(&self.repo, entry?.id)))
    }

    /// Begins the branch `name` of this session at a snapshot, of this session or another one. Nothing
    /// is copied.
    ///
    /// # Errors
    /// `InvalidInput` when the branch exists, no branch can have the name, or it names a branch of
    /// another session, and those of writing.
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

    /// Merges the newest snapshot of `other` into this branch. Maps are merged key by key, JSON by
    /// fields, text by lines; messages of both stay, in the order of time. Costs what changed on both
    /// sides since their newest common snapshot.
    ///
    /// # Errors
    /// `NotFound` when one of them has no snapshot, `Expired` when one that is needed was dropped,
    /// `Conflict` when another process moved the branch meanwhile: nothing has changed then.
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

    /// Deletes the session with all of its branches, as one operation. Returns whether it was there. What
    /// only it led to goes with a collection, once no undo can want it.
    ///
    /// # Errors
    /// Those of writing.
    pub fn delete(&self) -> Result<bool> {
        let branches = self.branches();
        let mut change = self.repo.change();
        for branch in &branches {
            change.on(&branch.branch).delete();
        }
        change.commit(&format!("delete {}", self.name()))?;
        Ok(!branches.is_empty())
    }

    /// Begins to plan a way back on this branch, which one undo takes back.
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
