//! Going back by turns: which commit is so many turns before another, and what commits that went
//! back say about themselves.
//!
//! ```text
//! 1 <- 2 <- 3 <- 4 (rollback to 2) <- 5          one turn before 4 is 1, and before 5 is 2
//! ```
//!
//! A rollback is a commit on top of the branch, so nothing is lost and turns rise. It stands for
//! the turn that it went back to, and a walk back goes on there: two rollbacks by one turn are one
//! by two. A rollback of a part of the context (`only` in its metadata) counts for a caller that
//! asks for no more than this part. A caller that asks for nothing of it steps over the rollback.
//!
//! Two kinds of commits are no turns of their own. A commit that changes lessons alone belongs to
//! the turn before it. A snapshot that was taken before a tool ran belongs to the turn that the
//! tool then made; where it is the newest, the first step back leads to it.

use super::{BranchName, Grafts, Repository};
use crate::context::{LESSONS, Selection};
use crate::error::{Error, ErrorKind, Result};
use crate::object::{Commit, ObjectId, Trigger};

/// Metadata of a commit whose files were captured: the directory, by its whole path.
pub const WORKSPACE: &str = "workspace";

/// Metadata of a rollback: the commit that it went back to.
pub const ROLLED_BACK_TO: &str = "rolled-back-to";

/// Metadata of a restore: the commit that it came from.
pub const RESTORED_FROM: &str = "restored-from";

/// Metadata of either: what came back, as [`Selection::to_text`] writes it; missing for everything.
pub const ONLY: &str = "only";

/// Metadata of a commit that changes nothing but lessons: what was done to them.
pub const LESSONS_CHANGED: &str = "lessons-changed";

/// Refs that keep what was in a workspace before a restore, a rollback or an undo wrote to it.
pub(super) const BEFORE: &str = "refs/before/";

/// The ref that keeps what was in the workspace of a branch before the last change that wrote to
/// it.
#[must_use]
pub fn before_ref(branch: &BranchName) -> String {
    format!("{BEFORE}{branch}")
}

/// The commit that a commit went back to, and what of it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RollbackTarget {
    /// The commit.
    pub to: ObjectId,
    /// The part that came back.
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
    /// The commit that is `turns` turns before `from`, for somebody who asks for the part `only` of
    /// its context. Snapshots that were taken before a restore are no turns, nor are changes of
    /// lessons alone; where the newest was taken before a tool ran, it is the first. Reads the
    /// commits between.
    ///
    /// # Errors
    /// `NotFound` when there are not so many turns, and `Expired` when not even the commits are
    /// left; both with [`Availability`](super::Availability) as the source.
    pub fn turns_before(&self, from: &ObjectId, turns: u64, only: &Selection) -> Result<ObjectId> {
        let walk = TurnWalk { repo: self, grafts: &*self.grafts()?, only };
        let is_before_tool = walk.newest(from)?.trigger == Trigger::BeforeTool;
        let (mut at, mut commit) = walk.place(*from)?;
        for done in u64::from(is_before_tool)..turns {
            // A rollback of another part that overlaps with this one lies between two turns.
            while RollbackTarget::of(&commit).is_some() || walk.is_aside(&commit) {
                match walk.parent(&commit)? {
                    Some(parent) => commit = walk.place(parent)?.1,
                    None => break,
                }
            }
            let Some(mut parent) = walk.parent(&commit)? else {
                return Err(self.too_few(&commit, done, turns));
            };
            (at, commit) = walk.place(parent)?;
            while commit.trigger == Trigger::BeforeRestore {
                parent = walk.parent(&commit)?.ok_or_else(|| self.too_few(&commit, done, turns))?;
                (at, commit) = walk.place(parent)?;
            }
        }
        Ok(at)
    }

    /// The directory that the newest snapshot with a workspace came from, on the first-parent line
    /// of `from`. Reads the commits up to it.
    ///
    /// # Errors
    /// Those of reading commits.
    pub fn workspace_of(&self, from: &ObjectId) -> Result<Option<String>> {
        for entry in self.history(&[*from], &[])?.first_parent() {
            if let Some(dir) = entry?.commit.metadata.remove(WORKSPACE) {
                return Ok(Some(dir));
            }
        }
        Ok(None)
    }

    fn too_few(&self, first: &Commit, done: u64, turns: u64) -> Error {
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
pub(super) struct TurnWalk<'a> {
    pub(super) repo: &'a Repository,
    pub(super) grafts: &'a Grafts,
    pub(super) only: &'a Selection,
}

impl TurnWalk<'_> {
    /// The commit `id`, or that before it when all that changed since are lessons.
    fn newest(&self, id: &ObjectId) -> Result<Commit> {
        let mut commit = self.repo.commit(id)?;
        while self.is_aside(&commit)
            && let Some(parent) = self.parent(&commit)?
        {
            commit = self.repo.commit(&parent)?;
        }
        Ok(commit)
    }

    /// Returns whether a commit is no turn: it changes lessons alone, and `only` asks for more.
    fn is_aside(&self, commit: &Commit) -> bool {
        let lessons = Selection::below(&[LESSONS.to_owned()]);
        commit.metadata.contains_key(LESSONS_CHANGED) && !lessons.covers(self.only)
    }

    /// The commit that `id` stands for: itself, unless it went back.
    pub(super) fn place(&self, mut id: ObjectId) -> Result<(ObjectId, Commit)> {
        let mut commit = self.repo.commit(&id)?;
        while let Some(back) = RollbackTarget::of(&commit) {
            let next = if back.only.covers(self.only) {
                let target = self.commit(&back.to, &commit)?;
                // What claims otherwise was made by nobody here.
                (target.turn < commit.turn).then_some((back.to, target))
            } else if back.only.is_apart_from(self.only) {
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

    /// The first parent of a commit.
    pub(super) fn parent(&self, commit: &Commit) -> Result<Option<ObjectId>> {
        let parent = commit.parents.first().copied();
        if parent.is_some_and(|parent| self.grafts.is_forgotten(&parent)) {
            return Err(self.repo.expired(commit.turn.saturating_sub(1), &commit.session));
        }
        Ok(parent)
    }

    /// The commit that `from` went back to.
    fn commit(&self, id: &ObjectId, from: &Commit) -> Result<Commit> {
        self.repo.commit(id).map_err(|error| match error.kind() {
            ErrorKind::NotFound | ErrorKind::Expired => {
                let (session, turn) = (&from.session, from.turn);
                let gone = format!(
                    "the turn that turn {turn} of {session} went back to was dropped by retention"
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

/// The record of a rollback for the conversation, as JSON: who reads on knows what became of the
/// turns that are gone.
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
