//! Finds the turn that a conversation resumes from after it rewinds.
//!
//! An append-only file can hold a tree: a record may follow an older record and abandon the ones in
//! between. Each turn of a session ends with a piece of the file, so the piece that a record
//! follows identifies a turn, on any branch.

use std::collections::{BTreeMap, HashSet};
use std::ops::Range;

use turntree::context::{Context, MAIN_AGENT, Transcript};
use turntree::error::{ErrorKind, Result};
use turntree::object::{Commit, ObjectId, ObjectSource, Trigger};
use turntree::repo::{BranchName, Transaction};

use crate::text::unique_name::unique_name;

/// Metadata key of a commit that does not continue the source of its parent: the number of pieces
/// of its own source before its first one.
pub(crate) const SOURCE_START: &str = "source-from";

/// Metadata key of the first commit after a client rewound a file in place: the branch that keeps
/// the abandoned content of the file, and the number of pieces of its source.
pub(crate) const ABANDONED_BRANCH: &str = "source-left";

/// Maximum number of digits that are parsed.
const MAX_DIGITS: usize = 19;

/// Returns the number of pieces of its source before `commit`, if the commit does not continue the
/// source of its parent.
pub(crate) fn source_start(commit: &Commit) -> Option<u64> {
    commit.metadata.get(SOURCE_START).filter(|pieces| pieces.len() <= MAX_DIGITS)?.parse().ok()
}

/// Returns the branch that was abandoned with `commit`, and the number of pieces of its source.
pub(crate) fn abandoned_branch(commit: &Commit) -> Option<(&str, u64)> {
    let (branch, pieces) = commit.metadata.get(ABANDONED_BRANCH)?.rsplit_once(' ')?;
    Some((branch, pieces.parse().ok()?))
}

/// Returns the first free name of `branch-2`, `branch-3`, ... A number at the end of `branch` is
/// dropped first.
///
/// # Errors
/// `InvalidInput` for a name that no branch can have.
pub(crate) fn free_name(
    branch: &BranchName,
    is_free: impl Fn(&BranchName) -> bool,
) -> Result<BranchName> {
    free_name_from(&mut 2, branch, is_free)
}

/// Returns the first free name like `free_name`, starting at the number `next`. Sets `next` to
/// the number after it.
///
/// # Errors
/// `InvalidInput` for a name that no branch can have.
pub(crate) fn free_name_from(
    next: &mut u64,
    branch: &BranchName,
    is_free: impl Fn(&BranchName) -> bool,
) -> Result<BranchName> {
    let stem = match branch.branch().rsplit_once('-') {
        Some((stem, number)) if number.parse::<u64>().is_ok() => stem,
        _ => branch.branch(),
    };
    loop {
        let name = BranchName::new(branch.session(), &format!("{stem}-{next}"))?;
        *next += 1;
        if is_free(&name) {
            return Ok(name);
        }
    }
}

/// Returns the branch `stem` of a session, or the first free one of `stem-2`, `stem-3` and so on.
///
/// # Errors
/// `InvalidInput` for a name that no branch can have.
pub(crate) fn unique_branch(
    session: &str,
    stem: &str,
    is_taken: impl Fn(&BranchName) -> bool,
) -> Result<BranchName> {
    let name = unique_name(stem, |name| {
        BranchName::new(session, name).is_ok_and(|branch| is_taken(&branch))
    });
    BranchName::new(session, &name)
}

/// The turns that a file has become, keyed by the number of pieces in their sources.
pub(crate) struct Timeline {
    turns: BTreeMap<u64, ObjectId>,
}

/// The state of a conversation after some piece.
pub(crate) struct RewindPoint {
    /// The last turn up to the piece. `None` before the first turn.
    pub(crate) base: Option<ObjectId>,
    /// The part of the next turn up to the piece: its context, and the number of messages that
    /// count.
    pub(crate) part: Option<(Context, u64)>,
}

impl Timeline {
    /// Returns the turns on the branches of `session` whose sources are prefixes of `source`. For
    /// equal prefixes the turns of the branch `first` win. Omits turns whose content expired.
    ///
    /// # Errors
    /// The errors of reading commits and contexts.
    pub(crate) fn of_session(
        change: &Transaction<'_>,
        session: &str,
        first: &BranchName,
        source: &Transcript,
    ) -> Result<Self> {
        let mut timeline = Self { turns: BTreeMap::new() };
        let mut seen = HashSet::new();
        let mut branches = change.branches_of(session);
        branches.sort_by_key(|(name, _)| name != first);
        for (_, tip) in branches {
            timeline.add_line(change, (&tip, session), source, &mut seen)?;
        }
        Ok(timeline)
    }

    /// Returns the turns like [`Timeline::of`], and those on the line of `tip`, for the session of
    /// `tip`.
    ///
    /// # Errors
    /// The errors of reading commits and contexts.
    pub(crate) fn of_tip(
        change: &Transaction<'_>,
        tip: &ObjectId,
        source: &Transcript,
    ) -> Result<Self> {
        let session = change.read_commit(tip)?.session;
        let first = BranchName::main(&session)?;
        let mut timeline = Self::of_session(change, &session, &first, source)?;
        timeline.add_line(change, (tip, &session), source, &mut HashSet::new())?;
        Ok(timeline)
    }

    fn add_line(
        &mut self,
        change: &Transaction<'_>,
        (tip, session): (&ObjectId, &str),
        source: &Transcript,
        seen: &mut HashSet<ObjectId>,
    ) -> Result<()> {
        let mut next = Some(*tip);
        while let Some(id) = next.filter(|id| seen.insert(*id)) {
            let commit = change.read_commit(&id)?;
            next = commit.parents.first().copied().filter(|_| commit.session == session);
            let Some(context) = context_of(change, &commit)? else { continue };
            let own = Transcript::open(change, &context)?;
            if commit.session == session && is_source_prefix(change, &own, source)? {
                self.turns.entry(own.len()).or_insert(id);
            }
        }
        Ok(())
    }

    /// Adds a turn whose source has `pieces` pieces.
    pub(crate) fn add(&mut self, pieces: u64, turn: ObjectId) {
        self.turns.insert(pieces, turn);
    }

    /// Returns the state of the conversation after the piece `to`, counted from 0. `None` if the
    /// turn of that piece is missing.
    ///
    /// # Errors
    /// The errors of reading commits and contexts.
    pub(crate) fn point_at(
        &self,
        change: &Transaction<'_>,
        to: Option<u64>,
    ) -> Result<Option<RewindPoint>> {
        let Some(to) = to else { return Ok(Some(RewindPoint { base: None, part: None })) };
        let Some((end, id)) = self.turns.range(to.saturating_add(1)..).next() else {
            return Ok(None);
        };
        let whole = RewindPoint { base: Some(*id), part: None };
        let commit = change.read_commit(id)?;
        let Some(context) = context_of(change, &commit)? else { return Ok(None) };
        if commit.trigger == Trigger::Compaction {
            return Ok(Some(whole));
        }
        let base = commit.parents.first().copied();
        let below = match base {
            Some(base) => context_of(change, &change.read_commit(&base)?)?,
            None => Some(Context::default()),
        };
        let Some(below) = below else { return Ok(None) };
        let known = below.messages(change, MAIN_AGENT)?.len();
        let begins = match source_start(&commit) {
            Some(begins) => begins,
            None => Transcript::open(change, &below)?.len(),
        };
        let Some(messages) = count_messages_until(change, &context, to, begins..*end, known)?
        else {
            return Ok(Some(whole));
        };
        let has_more = known < messages;
        Ok(Some(RewindPoint { base, part: has_more.then_some((context, messages)) }))
    }
}

/// Returns the number of messages of a turn up to the piece `to`, or `None` if the whole turn
/// counts. `pieces` are the pieces of the turn in its source. The first `known` messages are older
/// than the turn. A piece that repeats a piece before `to` adds no message.
fn count_messages_until(
    change: &Transaction<'_>,
    context: &Context,
    to: u64,
    pieces: Range<u64>,
    known: u64,
) -> Result<Option<u64>> {
    let source = Transcript::open(change, context)?;
    let behind = to.saturating_add(1);
    let blobs = |range: Range<u64>| {
        let pieces = source.pieces(change, range);
        pieces.map(|piece| Ok(piece?.entry().blob)).collect::<Result<HashSet<ObjectId>>>()
    };
    let mut after = blobs(behind..pieces.end)?;
    for blob in blobs(pieces.start.min(behind)..behind)? {
        after.remove(&blob);
    }
    let messages = context.messages(change, MAIN_AGENT)?;
    let from = messages.len().saturating_sub(pieces.end.saturating_sub(to)).max(known);
    let from = from.min(messages.len());
    for (at, item) in (from..).zip(messages.iter(change, from..messages.len())) {
        if after.contains(&item?.link.id) {
            return Ok(Some(at));
        }
    }
    Ok(None)
}

/// Returns the state of a conversation after the copied piece `to` of its transcript, which is a
/// copy of a piece of a session on the line of one of `tips`. `places` has the piece that each
/// copied piece is a copy of. `None` if no such turn is found.
///
/// # Errors
/// The errors of reading commits and contexts.
pub(crate) fn point_in_copies(
    change: &Transaction<'_>,
    (session, tips): (&str, &[ObjectId]),
    transcript: &Transcript,
    places: &[Option<(usize, u64)>],
    to: u64,
) -> Result<Option<RewindPoint>> {
    let end = usize::try_from(to).unwrap_or(usize::MAX).saturating_add(1);
    let copied = places.iter().take(end).rev().find_map(|place| *place);
    let Some((base, at)) = copied else { return Ok(None) };
    let Some(base) = transcript.bases().get(base) else { return Ok(None) };
    let Some(wanted) = base.get(change, at)? else { return Ok(None) };
    let mut seen = HashSet::new();
    for tip in tips {
        let mut session = session.to_owned();
        let mut next = Some(*tip);
        while let Some(id) = next.filter(|id| seen.insert(*id)) {
            let commit = change.read_commit(&id)?;
            next = commit.parents.first().copied();
            if commit.session == session {
                continue;
            }
            session.clone_from(&commit.session);
            // Another branch of that session may have more of its file than this line.
            let branches = change.branches_of(&session).into_iter().map(|(_, tip)| tip);
            for tip in std::iter::once(id).chain(branches) {
                let Some(context) = context_of(change, &change.read_commit(&tip)?)? else {
                    continue;
                };
                let there = Transcript::open(change, &context)?;
                if there.own().get(change, at)?.as_ref() == Some(&wanted) {
                    let timeline = Timeline::of_tip(change, &tip, &there)?;
                    return timeline.point_at(change, Some(there.copied() + at));
                }
            }
        }
    }
    Ok(None)
}

/// Returns the context of a commit, or `None` if it expired.
fn context_of(change: &Transaction<'_>, commit: &Commit) -> Result<Option<Context>> {
    match Context::open(change, &commit.tree) {
        Ok(context) => Ok(Some(context)),
        Err(error) if matches!(error.kind(), ErrorKind::Expired | ErrorKind::NotFound) => Ok(None),
        Err(error) => Err(error),
    }
}

/// Returns true if `part` is a nonempty prefix of `source`. Compares only the last record of
/// `part`, because records contain their ids.
pub(super) fn is_source_prefix(
    objects: &dyn ObjectSource,
    part: &Transcript,
    source: &Transcript,
) -> Result<bool> {
    let Some(last) = part.len().checked_sub(1) else { return Ok(false) };
    let blob = |transcript: &Transcript| {
        let piece = transcript.pieces(objects, last..last + 1).next().transpose()?;
        Ok::<_, turntree::Error>(piece.map(|piece| piece.entry().blob))
    };
    Ok(blob(part)? == blob(source)?)
}
