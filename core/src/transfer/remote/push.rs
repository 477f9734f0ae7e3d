//! Pushes branches of a session to a remote: one bundle, and one compare-and-swap of the head.
//!
//! ```text
//! what the head that is known lacks -> a bundle, uploaded under an unused name
//!                                   -> the head, written over the one that is known
//!            lost, or no answer?    -> read the head: is it this push, or has it gone on?
//! ```
//!
//! Readers use only objects listed by a current head. So an interrupted push leaves a bundle that
//! no head ever lists.

use std::collections::HashSet;
use std::sync::Arc;

use bytes::Bytes;

use super::bucket::{Key, Put, Version};
use super::head::{MAX_HEAD_BYTES, PushedBundle, SessionHead};
use super::hex::Hex;
use super::known::KnownHead;
use super::line::Line;
use super::names::checksum;
use super::{Remote, lost_session_error};
use crate::error::{Error, ErrorKind, Result};
use crate::object::{Kind, ObjectId, ObjectSource};
use crate::repo::{BranchName, remote_branch_ref};
use crate::store::{IoFile, ReadAt, Tier};
use crate::transfer::bundle::{
    BundlePlan, BundleRequest, BundledRef, SentOperations, TextId, plan_increment, utc,
};

/// Maximum number of restarts of a push after concurrent pushes to the session.
const MAX_RACES: u32 = 16;

/// Maximum number of writes of the same head without an answer.
const MAX_WRITES: u32 = 4;

/// A bundle with at least this many turns is compressed like an archive, unless the next push folds
/// it.
const LARGE_TURNS: usize = 64;

/// Bytes per hashing step.
const PIECE_BYTES: usize = 1 << 20;

/// Options of a push.
#[derive(Clone, Copy)]
pub struct PushOptions<'a> {
    /// The branches to push; `None` pushes all of the session.
    pub branches: Option<&'a [BranchName]>,
    /// Recreates a session that was deleted on the remote, after that deletion was reported.
    pub is_revived: bool,
    /// Inspects the branches and the bundle before the upload, and may refuse them.
    pub check: &'a dyn Fn(&[PushedBranch], &BundlePlan) -> Result<()>,
}

impl std::fmt::Debug for PushOptions<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("PushOptions")
            .field("branches", &self.branches)
            .field("is_revived", &self.is_revived)
            .finish_non_exhaustive()
    }
}

/// The result of a push.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Pushed {
    /// Every requested branch.
    pub branches: Vec<PushedBranch>,
    /// Bytes of the bundle; zero if the remote had every turn.
    pub bytes: u64,
    /// The new generation of the head.
    pub generation: u64,
}

/// A session that was deleted on a remote. The local session is unchanged.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct DeletedSession {
    /// The branches on the remote, with their last commits.
    pub branches: Vec<(BranchName, ObjectId)>,
    /// The new generation of the head.
    pub generation: u64,
}

/// A branch, local and on the remote.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct PushedBranch {
    /// The branch.
    pub branch: BranchName,
    /// The local commit.
    pub id: ObjectId,
    /// The commit on the remote before the push.
    pub before: Option<ObjectId>,
    /// The relation of both before the push.
    pub line: Line,
}

impl Remote<'_> {
    /// Pushes branches of a session. After a success they are on the remote, and other stores can
    /// fetch them. Costs two requests and a bundle of the new turns if there is no concurrent push.
    ///
    /// # Errors
    /// `NotFound` for a missing local branch; `Conflict` if a branch has diverged from the remote,
    /// or the session was deleted there; `Corrupt` if the remote was rolled back or is damaged;
    /// `Io` if it does not answer. After `Io` the push may or may not have happened; the next push
    /// finds out.
    pub fn push(&self, session: &str, options: PushOptions<'_>) -> Result<Pushed> {
        let mut looked = false;
        for _ in 0..MAX_RACES {
            let mut known = KnownHead::load(self.repo, self.name, session)?;
            if known.is_none() {
                self.check_id()?;
                if let Some(found) = self.read_changed_head(session, None)? {
                    self.catch_up(session, &found)?;
                    known = Some(found);
                }
                looked = true;
            } else if let Some(known) = &known
                && known.head.is_closed()
                && !options.is_revived
            {
                return Err(deleted_error(self.name, &known.head));
            }
            let base = match &known {
                Some(known) => known.head.clone().with_session(session),
                None => SessionHead::first(self.id, session.to_owned()),
            };
            let branches = self.compare_branches(&base, session, options.branches)?;
            check_not_apart(self.name, &branches)?;
            if !branches.iter().any(|branch| branch.line.is_pushed()) {
                let news =
                    if looked { None } else { self.read_changed_head(session, known.as_ref())? };
                let Some(found) = news else {
                    return Ok(Pushed { branches, bytes: 0, generation: base.generation });
                };
                self.catch_up(session, &found)?;
                looked = true;
                continue;
            }
            let draft = self.plan_draft(&base, &branches)?;
            if let Some(PushDraft { plan, .. }) = &draft {
                (options.check)(&branches, plan)?;
            }
            let (next, bytes) = self.upload(&base, known.as_ref(), draft, &branches)?;
            match self.swap(
                &SessionHead::key(self.bucket.names(), session)?,
                known.as_ref(),
                &next,
            )? {
                SwapOutcome::Done(version) => {
                    let (generation, head) = (next.generation, next);
                    self.record_head(
                        &KnownHead { head, version },
                        &format!("push to {}", self.name),
                    )?;
                    return Ok(Pushed { branches, bytes, generation });
                }
                SwapOutcome::Moved(found) => {
                    self.delete_lost_bundle(&next, &found)?;
                    self.catch_up(session, &found)?;
                    looked = true;
                }
            }
        }
        let message = format!("other clients keep pushing to {session}: push again later");
        Err(Error::new(ErrorKind::Conflict, message))
    }

    /// Imports the current state of a session. Reports a deletion if the session was known here;
    /// otherwise nothing was lost.
    fn catch_up(&self, session: &str, found: &KnownHead) -> Result<()> {
        let known = KnownHead::load(self.repo, self.name, session)?;
        if found.head.is_closed() && known.is_none() {
            return Ok(());
        }
        self.import(found)?;
        let was_there = known.is_some_and(|known| !known.head.is_closed());
        if was_there && found.head.is_closed() {
            return Err(deleted_error(self.name, &found.head));
        }
        Ok(())
    }

    /// Deletes a session on the remote, if its head is the last known one. Other stores learn of it
    /// with their next fetch or push. The next collection deletes the bundles.
    ///
    /// # Errors
    /// `NotFound` if the remote has no such session; `Conflict` if it has unfetched changes; errors
    /// of [`Remote::push`].
    pub fn delete_session(&self, session: &str) -> Result<DeletedSession> {
        let known = KnownHead::load(self.repo, self.name, session)?;
        let Some(known) = known.filter(|known| !known.head.is_closed()) else {
            return Err(Error::not_found(format!(
                "no session '{session}' was fetched from {}",
                self.name
            )));
        };
        let mut next = known.head.clone();
        next.refs.clear();
        next.bundles.clear();
        self.set_successor(&mut next, Some(&known))?;
        next.by.clone_from(&self.stamp.actor);
        next.at = utc(self.stamp.time.micros);
        match self.swap(&SessionHead::key(self.bucket.names(), session)?, Some(&known), &next)? {
            SwapOutcome::Done(version) => {
                let (branches, generation) = (known.head.branches().collect(), next.generation);
                let closed = KnownHead { head: next, version };
                self.record_head(&closed, &format!("delete on {}", self.name))?;
                Ok(DeletedSession { branches, generation })
            }
            SwapOutcome::Moved(_) => {
                let message =
                    format!("{session} has new turns on the remote: fetch and review them first");
                Err(Error::new(ErrorKind::Conflict, message))
            }
        }
    }

    /// Compares the requested branches with a head.
    fn compare_branches(
        &self,
        base: &SessionHead,
        session: &str,
        wanted: Option<&[BranchName]>,
    ) -> Result<Vec<PushedBranch>> {
        let own = match wanted {
            Some(wanted) => wanted.to_vec(),
            None => {
                let all = self.repo.branches_of(session).into_iter();
                all.map(|(branch, _)| branch).collect()
            }
        };
        if own.is_empty() {
            return Err(Error::not_found(format!("there is no session '{session}'")));
        }
        let line = |branch: BranchName| {
            let id = self.repo.tip(&branch);
            let id = id.ok_or_else(|| Error::not_found(format!("there is no branch {branch}")))?;
            let before = base.refs.get(&branch.full()).map(|value| value.id.0);
            let line = match before {
                None => Line::New,
                Some(there) => self.line(&id, &there)?,
            };
            Ok(PushedBranch { branch, id, before, line })
        };
        own.into_iter().map(line).collect()
    }

    /// Plans the bundle of a push: new turns, and the bundles folded with them. `None` if the
    /// remote has every turn, e.g. for a new branch at a commit of the remote.
    fn plan_draft(
        &self,
        base: &SessionHead,
        branches: &[PushedBranch],
    ) -> Result<Option<PushDraft>> {
        let moved = || branches.iter().filter(|branch| branch.line.is_pushed());
        let wanted: Vec<_> =
            moved().map(|moved| BundleRequest::Branch(moved.branch.clone())).collect();
        let mut without: Vec<ObjectId> = moved().filter_map(|moved| moved.before).collect();
        if moved().any(|moved| moved.line == Line::New) {
            without.extend(base.branches().map(|(_, id)| id));
        }
        without.sort_unstable();
        without.dedup();
        let is_here = |id: &ObjectId| self.repo.store().contains(id).unwrap_or(false);
        without.retain(is_here);
        let starts: Vec<ObjectId> = moved().map(|moved| moved.id).collect();
        let new = self.repo.history(&starts, &without)?.take(LARGE_TURNS).count();
        if let Some(draft) = self.plan_push_fold(base, branches, new >= LARGE_TURNS) {
            return Ok(Some(draft));
        }
        if new == 0 {
            return Ok(None);
        }
        let known: HashSet<ObjectId> = moved().filter_map(|moved| moved.before).collect();
        let told = self.sent_operations(moved().map(|moved| moved.branch.clone()), known)?;
        let plan = plan_increment(self.repo, &wanted, &without, Some(&told))?;
        Ok(Some(PushDraft::standalone(plan, base.bundles.len())))
    }

    /// Describes the operations on branches that were sent up to some tips of this remote.
    pub(super) fn sent_operations(
        &self,
        branches: impl Iterator<Item = BranchName>,
        tips: HashSet<ObjectId>,
    ) -> Result<SentOperations> {
        let on_remote = |branch: BranchName| {
            let there = remote_branch_ref(self.name, &branch)?;
            Ok((branch, there))
        };
        Ok(SentOperations { branches: branches.map(on_remote).collect::<Result<_>>()?, tips })
    }

    /// Writes and uploads the bundle of a draft, if there is one. Returns the head that lists it,
    /// which is not written yet.
    pub(super) fn upload(
        &self,
        base: &SessionHead,
        known: Option<&KnownHead>,
        draft: Option<PushDraft>,
        branches: &[PushedBranch],
    ) -> Result<(SessionHead, u64)> {
        let mut next = base.clone();
        self.set_successor(&mut next, known)?;
        next.by.clone_from(&self.stamp.actor);
        next.at = utc(self.stamp.time.micros);
        let pushed = branches.iter().filter(|own| own.line.is_pushed());
        for PushedBranch { branch, id, .. } in pushed.clone() {
            let (kind, turn) = (Kind::Commit.name().to_owned(), self.repo.commit(id)?.turn);
            next.refs.insert(branch.full(), BundledRef { kind, id: TextId(*id), turn });
        }
        let mut written = None;
        if let Some(draft) = draft {
            let kept = draft.kept;
            let mut tips: Vec<TextId> = pushed.map(|own| TextId(own.id)).collect();
            if kept < base.bundles.len() {
                tips.extend(base.branches().map(|(_, id)| TextId(id)));
            }
            tips.sort_unstable();
            tips.dedup();
            let file = (self.spool)()?;
            let bundle = self.write_bundle(&draft, next.generation, tips, &file)?;
            next.bundles.truncate(kept);
            next.bundles.push(bundle.clone());
            next.refs.extend(draft.plan.manifest.refs);
            written = Some((bundle, file));
        }
        if next.encode()?.len() as u64 > MAX_HEAD_BYTES {
            let message = format!("{} has too many branches for one head", next.session);
            return Err(Error::new(ErrorKind::LimitExceeded, message));
        }
        let Some((bundle, file)) = written else { return Ok((next, 0)) };
        self.bucket.upload(&next.bundle_key(self.bucket.names(), &bundle.name)?, &file)?;
        Ok((next, bundle.bytes))
    }

    /// Writes a bundle to a file, and gives it a unique name.
    fn write_bundle(
        &self,
        draft: &PushDraft,
        generation: u64,
        tips: Vec<TextId>,
        file: &Arc<dyn IoFile>,
    ) -> Result<PushedBundle> {
        let PushDraft { plan, stays, .. } = draft;
        let turns: u64 = plan.manifest.sessions.iter().map(|session| session.turns).sum();
        let tier =
            if *stays && turns >= LARGE_TURNS as u64 { Tier::Archive } else { Tier::Compacted };
        plan.write(self.repo, tier, file)?;
        let (bytes, hash) = measure(file)?;
        let index = super::lazy::append_index(plan, file, bytes)?;
        let name = format!("{generation}-{}", Hex((self.random)()));
        Ok(PushedBundle { name, bytes, hash, tips, index })
    }

    /// Turns a head into the successor of the known one.
    pub(super) fn set_successor(
        &self,
        next: &mut SessionHead,
        known: Option<&KnownHead>,
    ) -> Result<()> {
        let after = known.map_or(Some(1), |known| known.head.generation.checked_add(1));
        let full = || Error::limit("heads of a session", u64::MAX, u64::MAX);
        next.generation = after.ok_or_else(full)?;
        next.before = known.map(KnownHead::hash).transpose()?;
        next.push = Hex((self.random)());
        Ok(())
    }

    /// Replaces the known head by compare-and-swap.
    pub(super) fn swap(
        &self,
        key: &Key,
        known: Option<&KnownHead>,
        next: &SessionHead,
    ) -> Result<SwapOutcome> {
        let bytes = Bytes::from(next.encode()?);
        for _ in 0..MAX_WRITES {
            let put = match known {
                Some(known) => self.bucket.put_over(key, bytes.clone(), &known.version)?,
                None => self.bucket.put_new(key, bytes.clone())?,
            };
            if let Put::Done(version) = put {
                return Ok(SwapOutcome::Done(version));
            }
            // This write may have been sent twice, or its answer lost.
            match self.read_head(key)? {
                Some(found) if found.head.push == next.push => {
                    return Ok(SwapOutcome::Done(found.version));
                }
                Some(found) => match known {
                    Some(known) if found.head.push == known.head.push => {}
                    Some(known) => {
                        known.check_after(&found.head)?;
                        return Ok(SwapOutcome::Moved(Box::new(found)));
                    }
                    None => return Ok(SwapOutcome::Moved(Box::new(found))),
                },
                None if known.is_none() => {}
                None => return Err(lost_session_error(&next.session)),
            }
        }
        let message =
            format!("the remote did not confirm the new {key}: run it again to find out",);
        Err(Error::new(ErrorKind::Io, message))
    }

    /// Deletes the bundle of a push that lost the race, unless the current head lists it. The head
    /// that it was made for was replaced, so no head can list it. A collection deletes it if this
    /// client may not.
    pub(super) fn delete_lost_bundle(&self, next: &SessionHead, found: &KnownHead) -> Result<()> {
        let made = format!("{}-", next.generation);
        let own = next.bundles.last().filter(|last| last.name.starts_with(&made));
        let Some(own) = own else { return Ok(()) };
        if found.head.bundles.iter().all(|bundle| bundle.name != own.name) {
            let _ = self.bucket.delete(&[next.bundle_key(self.bucket.names(), &own.name)?]);
        }
        Ok(())
    }
}

/// A planned bundle, and the number of bundles that stay before it.
pub(super) struct PushDraft {
    pub(super) plan: BundlePlan,
    pub(super) kept: usize,
    /// False if the next push folds this bundle into its own.
    pub(super) stays: bool,
}

impl PushDraft {
    /// Creates a draft of a bundle that the next push does not fold.
    pub(super) fn standalone(mut plan: BundlePlan, kept: usize) -> Self {
        plan.separate_newest();
        Self { plan, kept, stays: true }
    }
}

/// The result of writing a head.
pub(super) enum SwapOutcome {
    /// The head is written.
    Done(Version),
    /// Another head was written first.
    Moved(Box<KnownHead>),
}

fn check_not_apart(remote: &str, branches: &[PushedBranch]) -> Result<()> {
    let apart = branches.iter().filter(|branch| branch.line == Line::Apart);
    let apart: Vec<String> = apart.map(|apart| apart.branch.to_string()).collect();
    if apart.is_empty() {
        return Ok(());
    }
    let message = format!(
        "{} has new turns here and on {remote}: fetch and merge, then push",
        apart.join(", ")
    );
    Err(Error::new(ErrorKind::Conflict, message))
}

/// Returns the error for a session that was deleted on the remote.
fn deleted_error(remote: &str, head: &SessionHead) -> Error {
    let SessionHead { session, by, at, .. } = head;
    let message = format!("{session} was deleted on {remote}, by {by} at {at}");
    Error::new(ErrorKind::Conflict, message)
}

/// Returns the size of a file and the hash of its bytes.
fn measure(file: &Arc<dyn IoFile>) -> Result<(u64, Hex<32>)> {
    let failed = |error| Error::io("read the bundle that was written", error);
    let (mut hash, mut at) = (checksum(), 0);
    let mut piece = vec![0; PIECE_BYTES];
    loop {
        let read = ReadAt::read_at(file, &mut piece, at).map_err(failed)?;
        hash.update(piece.get(..read).unwrap_or_default());
        at += read as u64;
        if read < piece.len() {
            return Ok((at, Hex(hash.finish())));
        }
    }
}
