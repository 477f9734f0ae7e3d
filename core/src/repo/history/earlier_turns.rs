//! Finds earlier turns: the commit a number of turns before another, and the metadata of commits
//! that roll back.
//!
//! ```text
//! 1 <- 2 <- 3 <- 4 (rollback to 2) <- 5          one turn before 4 is 1, and before 5 is 2
//! ```
//!
//! A rollback is a commit on top of the branch, so nothing is lost and turn numbers rise. It
//! represents the turn that it restored, and a walk back continues from that turn: two rollbacks by
//! one turn are equal to one by two. A rollback of a part of the context (`only` in its metadata)
//! counts for a caller that asks for no more than this part. A caller that asks for a disjoint part
//! skips the rollback.
//!
//! Two kinds of commits are not turns of their own. A commit that changes only lessons belongs to
//! the turn before it. A snapshot taken before a tool ran belongs to the turn that follows; if it
//! is the newest commit, the first step back ends at it.

use crate::context::Selection;
use crate::context::sections::LESSONS;
use crate::error::{Error, ErrorKind, Result};
use crate::object::{Commit, ObjectId, Trigger};
use crate::repo::{BranchName, Grafts, Repository};

/// The metadata key of a commit with captured files: the absolute path of the directory.
pub const WORKSPACE: &str = "workspace";

/// The metadata key of a rollback: the restored commit.
pub const ROLLED_BACK_TO: &str = "rolled-back-to";

/// The metadata key of a restore: the restored commit.
pub const RESTORED_FROM: &str = "restored-from";

/// The metadata key of both: the restored part as written by [`Selection::to_text`]; missing for
/// everything.
pub const ONLY: &str = "only";

/// The metadata key of a commit that changes only lessons: a description of the change.
pub const LESSONS_CHANGED: &str = "lessons-changed";

/// The prefix of refs that keep the state of a workspace before a restore, a rollback or an undo
/// wrote to it.
pub(in crate::repo) const BEFORE: &str = "refs/before/";

/// Returns the ref that keeps the state of a branch's workspace before the last change that wrote
/// to it.
#[must_use]
pub fn before_ref(branch: &BranchName) -> String {
    format!("{BEFORE}{branch}")
}

/// The commit that a rollback restored, and the restored part.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RollbackTarget {
    /// The commit.
    pub to: ObjectId,
    /// The restored part.
    pub only: Selection,
}

impl RollbackTarget {
    /// Reads the metadata of a rollback; `None` for other commits.
    #[must_use]
    pub fn of(commit: &Commit) -> Option<Self> {
        if commit.trigger != Trigger::Rollback {
            return None;
        }
        let to = commit.metadata.get(ROLLED_BACK_TO)?.parse().ok()?;
        let only = commit.metadata.get(ONLY).map(|text| Selection::from_text(text));
        Some(Self { to, only: only.unwrap_or_default() })
    }
}

impl Repository {
    /// Returns the commit that is `turns` turns before `from`, for a caller that restores the part
    /// `only` of its context. Snapshots before a restore and changes of only lessons are not turns.
    /// A newest snapshot before a tool counts as the first. Reads the commits in between.
    ///
    /// # Errors
    /// `NotFound` when there are fewer turns, and `Expired` when even the commits were forgotten.
    /// Both have [`Availability`](crate::repo::Availability) as the source.
    pub fn turns_before(&self, from: &ObjectId, turns: u64, only: &Selection) -> Result<ObjectId> {
        let walk = TurnWalk { repo: self, grafts: &*self.grafts()?, only };
        let is_before_tool = walk.newest(from)?.trigger == Trigger::BeforeTool;
        let (mut at, mut commit) = walk.place(*from)?;
        for done in u64::from(is_before_tool)..turns {
            // A rollback of an overlapping part is between two turns.
            while RollbackTarget::of(&commit).is_some() || walk.is_lessons_only(&commit) {
                match walk.parent(&commit)? {
                    Some(parent) => commit = walk.place(parent)?.1,
                    None => break,
                }
            }
            let Some(mut parent) = walk.parent(&commit)? else {
                return Err(self.too_few_error(&commit, done, turns));
            };
            (at, commit) = walk.place(parent)?;
            while commit.trigger == Trigger::BeforeRestore {
                parent = walk
                    .parent(&commit)?
                    .ok_or_else(|| self.too_few_error(&commit, done, turns))?;
                (at, commit) = walk.place(parent)?;
            }
        }
        Ok(at)
    }

    /// Returns the directory of the newest snapshot with a workspace, on the first-parent line of
    /// `from`. Reads the commits up to it.
    ///
    /// # Errors
    /// Errors of reading commits.
    pub fn workspace_of(&self, from: &ObjectId) -> Result<Option<String>> {
        for entry in self.history(&[*from], &[])?.first_parent() {
            if let Some(dir) = entry?.commit.metadata.remove(WORKSPACE) {
                return Ok(Some(dir));
            }
        }
        Ok(None)
    }

    fn too_few_error(&self, first: &Commit, done: u64, turns: u64) -> Error {
        let (session, plural) = (&first.session, if turns == 1 { "" } else { "s" });
        let message =
            format!("cannot go back {turns} turn{plural}: {session} has {done} before this one");
        let error = Error::not_found(message);
        match self.oldest_available(&first.session) {
            Ok(available) => error.with_source(available),
            Err(_) => error,
        }
    }
}

/// A walk back from turn to turn.
pub(in crate::repo) struct TurnWalk<'a> {
    pub(in crate::repo) repo: &'a Repository,
    pub(in crate::repo) grafts: &'a Grafts,
    pub(in crate::repo) only: &'a Selection,
}

impl TurnWalk<'_> {
    /// Returns the commit `id`, or its first ancestor that changes more than lessons.
    fn newest(&self, id: &ObjectId) -> Result<Commit> {
        let mut commit = self.repo.commit(id)?;
        while self.is_lessons_only(&commit)
            && let Some(parent) = self.parent(&commit)?
        {
            commit = self.repo.commit(&parent)?;
        }
        Ok(commit)
    }

    /// Returns true if a commit is not a turn: it changes only lessons, and `only` includes more.
    fn is_lessons_only(&self, commit: &Commit) -> bool {
        let lessons = Selection::below(&[LESSONS.to_owned()]);
        commit.metadata.contains_key(LESSONS_CHANGED) && !lessons.covers(self.only)
    }

    /// Returns the commit that `id` represents: the restored commit for a rollback, itself
    /// otherwise.
    pub(in crate::repo) fn place(&self, mut id: ObjectId) -> Result<(ObjectId, Commit)> {
        let mut commit = self.repo.commit(&id)?;
        while let Some(back) = RollbackTarget::of(&commit) {
            let next = if back.only.covers(self.only) {
                let target = self.commit(&back.to, &commit)?;
                // Commits of this program always restore an earlier turn; the check prevents an
                // endless walk.
                (target.turn < commit.turn).then_some((back.to, target))
            } else if back.only.is_disjoint(self.only) {
                match self.parent(&commit)? {
                    Some(parent) => Some((parent, self.repo.commit(&parent)?)),
                    None => None,
                }
            } else {
                None
            };
            let Some(next) = next else { break };
            (id, commit) = next;
        }
        Ok((id, commit))
    }

    /// Returns the first parent of a commit.
    pub(in crate::repo) fn parent(&self, commit: &Commit) -> Result<Option<ObjectId>> {
        let parent = commit.parents.first().copied();
        if parent.is_some_and(|parent| self.grafts.is_forgotten(&parent)) {
            return Err(self.repo.expired(commit.turn.saturating_sub(1), &commit.session));
        }
        Ok(parent)
    }

    /// Returns the commit that `from` restored.
    fn commit(&self, id: &ObjectId, from: &Commit) -> Result<Commit> {
        self.repo.commit(id).map_err(|error| match error.kind() {
            ErrorKind::NotFound | ErrorKind::Expired => {
                let (session, turn) = (&from.session, from.turn);
                let gone = format!(
                    "turn {turn} of {session} is a rollback, and its target was dropped by retention"
                );
                let expired = Error::new(ErrorKind::Expired, gone);
                match self.repo.oldest_available(session) {
                    Ok(available) => expired.with_source(available),
                    Err(_) => expired,
                }
            }
            _ => error,
        })
    }
}

/// Returns the record of a rollback for the conversation, as JSON: a later reader learns that turns
/// were rolled back.
#[must_use]
pub(crate) fn audit_record(from_turn: u64, restored_turn: u64, message: &str) -> String {
    serde_json::json!({
        "role": "system",
        "type": "rollback",
        "content": message,
        "fromTurn": from_turn,
        "restoredTurn": restored_turn,
    })
    .to_string()
}
