//! Branches of a session go to a remote: one bundle, and one compare-and-swap of the head.
//!
//! ```text
//! what the head that is known lacks -> a bundle, uploaded under a name that nobody has
//!                                   -> the head, written over the one that is known
//!            lost, or no answer?    -> read the head: is it this push, or has it gone on?
//! ```
//!
//! Nobody relies on an object because it lies in the bucket: a head that was swapped in lists it. So a
//! push that dies leaves a bundle that no head ever lists.

use std::collections::HashSet;
use std::sync::Arc;

use bytes::Bytes;

use super::bucket::{Key, Put, Version};
use super::head::{Head, MAX_HEAD_BYTES, PushedBundle};
use super::hex::Hex;
use super::known::KnownHead;
use super::line::Line;
use super::names::checksum;
use super::{Remote, lost};
use crate::error::{Error, ErrorKind, Result};
use crate::object::{Kind, ObjectId, ObjectSource};
use crate::repo::{BranchName, remote_branch_ref};
use crate::store::{IoFile, ReadAt, Tier};
use crate::transfer::bundle::{
    BundlePlan, BundleRequest, BundledRef, TextId, ToldBefore, plan_increment, utc,
};

/// Times that a push begins again because others pushed to the session meanwhile.
const MAX_RACES: u32 = 16;

/// Times that the same head is written again because nobody answered.
const MAX_WRITES: u32 = 4;

/// A bundle of so many turns is made with the effort of an archive, unless the next push makes it again.
const LARGE_TURNS: usize = 64;

/// Bytes that are hashed at once.
const PIECE_BYTES: usize = 1 << 20;

/// What a push does beside pushing.
#[derive(Clone, Copy)]
pub struct PushOptions<'a> {
    /// The branches; all of the session without any.
    pub branches: Option<&'a [BranchName]>,
    /// Brings a session back that somebody deleted on the remote, as was told before.
    pub is_revived: bool,
    /// Looks at what would go out, and may refuse: the branches as they stand, and the bundle.
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

/// The outcome of a push.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Pushed {
    /// Every branch that was asked for.
    pub branches: Vec<PushedBranch>,
    /// Bytes of the bundle; zero when the remote had every turn.
    pub bytes: u64,
    /// The generation of the head now.
    pub generation: u64,
}

/// A session that was deleted on a remote; here everything is as before.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DeletedSession {
    /// Its branches there, with the turns that they were at.
    pub branches: Vec<(BranchName, ObjectId)>,
    /// The generation of the head now.
    pub generation: u64,
}

/// A branch, here and on the remote.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PushedBranch {
    /// The branch.
    pub branch: BranchName,
    /// The turn that it is at here.
    pub id: ObjectId,
    /// The turn that it was at on the remote.
    pub before: Option<ObjectId>,
    /// How the two stand to each other, before the push.
    pub line: Line,
}

impl Remote<'_> {
    /// Pushes branches of a session. After a success they are on the remote, and whoever fetches gets
    /// them. Costs two requests and a bundle of what is new when nobody else pushed to the session.
    ///
    /// # Errors
    /// `NotFound` for a branch that is not here; `Conflict` when a branch here and on the remote both have
    /// turns that the other one lacks, or when the session was deleted there; `Corrupt` when the remote has gone back in time or is damaged;
    /// `Io` when it does not answer: then it is as before, or has the push already, and the next push finds
    /// out which.
    pub fn push(&self, session: &str, options: PushOptions<'_>) -> Result<Pushed> {
        let mut looked = false;
        for _ in 0..MAX_RACES {
            let mut known = KnownHead::load(self.repo, self.name, session)?;
            if known.is_none() {
                self.check_id()?;
                if let Some(found) = self.look(session, None)? {
                    self.catch_up(session, &found)?;
                    known = Some(found);
                }
                looked = true;
            } else if let Some(known) = &known
                && known.head.is_closed()
                && !options.is_revived
            {
                return Err(deleted(self.name, &known.head));
            }
            let base = match &known {
                Some(known) => known.head.clone().named(session),
                None => Head::first(self.id, session.to_owned()),
            };
            let branches = self.lines(&base, session, options.branches)?;
            refuse_apart(self.name, &branches)?;
            if !branches.iter().any(|branch| branch.line.is_pushed()) {
                let news = if looked { None } else { self.look(session, known.as_ref())? };
                let Some(found) = news else {
                    return Ok(Pushed { branches, bytes: 0, generation: base.generation });
                };
                self.catch_up(session, &found)?;
                looked = true;
                continue;
            }
            let draft = self.draft(&base, &branches)?;
            if let Some(Draft { plan, .. }) = &draft {
                (options.check)(&branches, plan)?;
            }
            let (next, bytes) = self.upload(&base, known.as_ref(), draft, &branches)?;
            match self.swap(&Head::key(self.bucket.names(), session)?, known.as_ref(), &next)? {
                Swap::Done(version) => {
                    let (generation, head) = (next.generation, next);
                    self.record(&KnownHead { head, version }, &format!("push to {}", self.name))?;
                    return Ok(Pushed { branches, bytes, generation });
                }
                Swap::Moved(found) => {
                    self.clear_away(&next, &found)?;
                    self.catch_up(session, &found)?;
                    looked = true;
                }
            }
        }
        let message = format!("others pushed to {session} again and again: push again later");
        Err(Error::new(ErrorKind::Conflict, message))
    }

    /// Takes in what others did to a session. What was deleted while it was known here is told, and what
    /// was never known here is not: there was nothing to lose.
    fn catch_up(&self, session: &str, found: &KnownHead) -> Result<()> {
        let known = KnownHead::load(self.repo, self.name, session)?;
        if found.head.is_closed() && known.is_none() {
            return Ok(());
        }
        self.take(found)?;
        let was_there = known.is_some_and(|known| !known.head.is_closed());
        if was_there && found.head.is_closed() {
            return Err(deleted(self.name, &found.head));
        }
        Ok(())
    }

    /// Deletes a session on the remote, if it is there as it was last seen. The next fetch tells others,
    /// and so does their next push; what lay there goes with the next collection.
    ///
    /// # Errors
    /// `NotFound` when it is not there; `Conflict` when it has something that was not fetched; those of
    /// [`Remote::push`].
    pub fn delete_session(&self, session: &str) -> Result<DeletedSession> {
        let known = KnownHead::load(self.repo, self.name, session)?;
        let Some(known) = known.filter(|known| !known.head.is_closed()) else {
            return Err(Error::not_found(format!(
                "{} has no session '{session}' that was fetched",
                self.name
            )));
        };
        let mut next = known.head.clone();
        next.refs.clear();
        next.bundles.clear();
        self.go_on(&mut next, Some(&known))?;
        next.by.clone_from(&self.stamp.actor);
        next.at = utc(self.stamp.time.micros);
        match self.swap(&Head::key(self.bucket.names(), session)?, Some(&known), &next)? {
            Swap::Done(version) => {
                let (branches, generation) = (known.head.branches().collect(), next.generation);
                let closed = KnownHead { head: next, version };
                self.record(&closed, &format!("delete on {}", self.name))?;
                Ok(DeletedSession { branches, generation })
            }
            Swap::Moved(_) => {
                let message = format!("others pushed to {session}: fetch, and look at it first");
                Err(Error::new(ErrorKind::Conflict, message))
            }
        }
    }

    /// How the branches that are wanted stand to those of a head.
    fn lines(
        &self,
        base: &Head,
        session: &str,
        wanted: Option<&[BranchName]>,
    ) -> Result<Vec<PushedBranch>> {
        let own = match wanted {
            Some(wanted) => wanted.to_vec(),
            None => {
                let all = self.repo.branches().into_iter().map(|(branch, _)| branch);
                all.filter(|branch| branch.session() == session).collect()
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

    /// What is to be written: what is new, with the bundles that are made one with it. Nothing when the
    /// remote has every turn, as of a branch that was made there.
    fn draft(&self, base: &Head, branches: &[PushedBranch]) -> Result<Option<Draft>> {
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
        if let Some(draft) = self.folded_by_push(base, branches, new >= LARGE_TURNS) {
            return Ok(Some(draft));
        }
        if new == 0 {
            return Ok(None);
        }
        let known: HashSet<ObjectId> = moved().filter_map(|moved| moved.before).collect();
        let told = self.told_before(moved().map(|moved| moved.branch.clone()), known)?;
        let plan = plan_increment(self.repo, &wanted, &without, Some(&told))?;
        Ok(Some(Draft::that_stays(plan, base.bundles.len())))
    }

    /// That operations on branches were told up to some turns that this remote was seen to have.
    pub(super) fn told_before(
        &self,
        branches: impl Iterator<Item = BranchName>,
        tips: HashSet<ObjectId>,
    ) -> Result<ToldBefore> {
        let on_remote = |branch: BranchName| {
            let there = remote_branch_ref(self.name, &branch)?;
            Ok((branch, there))
        };
        Ok(ToldBefore { branches: branches.map(on_remote).collect::<Result<_>>()?, tips })
    }

    /// Writes and uploads a bundle, if there is something for one; returns the head that lists it, which is
    /// not written yet.
    pub(super) fn upload(
        &self,
        base: &Head,
        known: Option<&KnownHead>,
        draft: Option<Draft>,
        branches: &[PushedBranch],
    ) -> Result<(Head, u64)> {
        let mut next = base.clone();
        self.go_on(&mut next, known)?;
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
            let bundle = self.written(&draft, next.generation, tips, &file)?;
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

    /// Writes a bundle to a file, under a name that nobody has.
    fn written(
        &self,
        draft: &Draft,
        generation: u64,
        tips: Vec<TextId>,
        file: &Arc<dyn IoFile>,
    ) -> Result<PushedBundle> {
        let Draft { plan, stays, .. } = draft;
        let turns: u64 = plan.manifest.sessions.iter().map(|session| session.turns).sum();
        let tier =
            if *stays && turns >= LARGE_TURNS as u64 { Tier::Archive } else { Tier::Compacted };
        plan.write(self.repo, tier, file)?;
        let (bytes, hash) = measured(file)?;
        let index = super::lazy::append_index(plan, file, bytes)?;
        let name = format!("{generation}-{}", Hex((self.random)()));
        Ok(PushedBundle { name, bytes, hash, tips, index })
    }

    /// Makes a head the one that comes after the one that is known.
    pub(super) fn go_on(&self, next: &mut Head, known: Option<&KnownHead>) -> Result<()> {
        let after = known.map_or(Some(1), |known| known.head.generation.checked_add(1));
        let full = || Error::limit("heads of a session", u64::MAX, u64::MAX);
        next.generation = after.ok_or_else(full)?;
        next.before = known.map(KnownHead::hash).transpose()?;
        next.push = Hex((self.random)());
        Ok(())
    }

    /// Writes a head over the one that is known.
    pub(super) fn swap(&self, key: &Key, known: Option<&KnownHead>, next: &Head) -> Result<Swap> {
        let bytes = Bytes::from(next.encode()?);
        for _ in 0..MAX_WRITES {
            let put = match known {
                Some(known) => self.bucket.put_over(key, bytes.clone(), &known.version)?,
                None => self.bucket.put_new(key, bytes.clone())?,
            };
            if let Put::Done(version) = put {
                return Ok(Swap::Done(version));
            }
            // This very write may have been done twice, or its answer lost.
            match self.read_head(key)? {
                Some(found) if found.head.push == next.push => {
                    return Ok(Swap::Done(found.version));
                }
                Some(found) => match known {
                    Some(known) if found.head.push == known.head.push => {}
                    Some(known) => {
                        known.check_after(&found.head)?;
                        return Ok(Swap::Moved(Box::new(found)));
                    }
                    None => return Ok(Swap::Moved(Box::new(found))),
                },
                None if known.is_none() => {}
                None => return Err(lost(&next.session)),
            }
        }
        let message = format!(
            "the remote does not say whether it took the new {key}: do it again to find out",
        );
        Err(Error::new(ErrorKind::Io, message))
    }

    /// Deletes the bundle of a push that lost, unless somebody has gone on from it: the head that it was
    /// for is gone, so nothing can list it any more. A collection does it where this key may not.
    pub(super) fn clear_away(&self, next: &Head, found: &KnownHead) -> Result<()> {
        let made = format!("{}-", next.generation);
        let own = next.bundles.last().filter(|last| last.name.starts_with(&made));
        let Some(own) = own else { return Ok(()) };
        if found.head.bundles.iter().all(|bundle| bundle.name != own.name) {
            let _ = self.bucket.delete(&[next.bundle_key(self.bucket.names(), &own.name)?]);
        }
        Ok(())
    }
}

/// What is to be written, and how many bundles stay in front of it.
pub(super) struct Draft {
    pub(super) plan: BundlePlan,
    pub(super) kept: usize,
    /// False if the next push makes it one with what that brings.
    pub(super) stays: bool,
}

impl Draft {
    /// A bundle that the next push leaves as it is.
    pub(super) fn that_stays(mut plan: BundlePlan, kept: usize) -> Self {
        plan.set_newest_apart();
        Self { plan, kept, stays: true }
    }
}

/// What came of writing a head.
pub(super) enum Swap {
    /// It is there.
    Done(Version),
    /// Another one is there.
    Moved(Box<KnownHead>),
}

fn refuse_apart(remote: &str, branches: &[PushedBranch]) -> Result<()> {
    let apart = branches.iter().filter(|branch| branch.line == Line::Apart);
    let apart: Vec<String> = apart.map(|apart| apart.branch.to_string()).collect();
    if apart.is_empty() {
        return Ok(());
    }
    let message = format!(
        "{} went on here and on {remote}: fetch and merge, and push then",
        apart.join(", ")
    );
    Err(Error::new(ErrorKind::Conflict, message))
}

/// The error for a session that somebody deleted there.
fn deleted(remote: &str, head: &Head) -> Error {
    let Head { session, by, at, .. } = head;
    let message = format!("{session} was deleted on {remote}, by {by} at {at}");
    Error::new(ErrorKind::Conflict, message)
}

/// The bytes of a file and their hash.
fn measured(file: &Arc<dyn IoFile>) -> Result<(u64, Hex<32>)> {
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
