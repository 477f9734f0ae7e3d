//! Follows a transcript while it is written: each time what is new goes in, and only that is read.
//!
//! An import takes a file for finished: its last turn ends with it. A transcript that is followed
//! goes on, maybe in the middle of a turn. So the last turn is committed as far as it goes, and made
//! again, with what came since, the next time: in the end the branch has the commits that an import
//! of the whole file would have made, whenever and however often it was followed.
//!
//! | what is known | what is read |
//! |---|---|
//! | the notes of the last time, of the commit that the branch is at | the end of the stored source, and of the file |
//! | anything else | the whole file, compared with the source as an import does |
//!
//! Notes are a cache: they hold what the parser knew and where the file ended. Whether the file still
//! is what it was there is compared with the store. Lines that are not ended yet are left for later.

mod calls;
mod earlier;
mod notes;

use std::collections::{BTreeMap, HashMap};
use std::io::{BufReader, Cursor, Read, Seek, SeekFrom};
use std::sync::Arc;

use bytes::Bytes;
use serde::de::IgnoredAny;
use turntree::context::{Builder, Context, SourceEntry, Transcript};
use turntree::error::{Error, Result};
use turntree::object::{ObjectId, ObjectSource, Time, Trigger};
use turntree::repo::{BranchName, Repository, Signature, Transaction};

use super::captures::Captures;
use super::finish::imported_tip;
use super::fork::Origins;
use super::redacted::redacted;
use super::resume::{KnownFile, Line, Relation, ResumePoint, describe, find_resume_point};
use super::rewind::begins;
use super::transcript::{TranscriptImport, is_beginning};
use super::turns::{OpenTurn, ROOT, TurnWriter, fact};
use crate::import::source::write_piece;
use crate::model::event::Parser;
use crate::model::format::{Format, RecordFormat};
use crate::model::unread::UnreadRecords;
use crate::text::piece::{Piece, PieceKind};
use crate::text::unpack::HEAD_BYTES;
pub use calls::holds_call;
use earlier::take_earlier_files;
use notes::Notes;
pub use notes::{followed_branch, followed_bytes};

/// Bytes of the file, and of the store, that are compared where the file went on.
const TAIL_BYTES: u64 = 16 << 10;

/// Most new bytes that are read at once; more is read as an import does, a record at a time.
const MAX_NEW_BYTES: u64 = 32 << 20;

/// Says what there is in the workspace: given the context of the branch, changes the one in the
/// making, and returns what the commit is to say of it.
pub type TurnFiles<'f> = dyn FnMut(&mut Transaction<'_>, &Context, &mut Builder) -> Result<BTreeMap<String, String>>
    + 'f;

/// Options of following a transcript.
pub struct FollowOptions<'a> {
    /// The session it becomes, or continues.
    pub session: String,
    /// The branch of that session on which it goes in, whatever its records are, or beside it after a
    /// rollback; without one it is the branch that knows it.
    pub onto: Option<BranchName>,
    /// The author and time. Records without a time get this one.
    pub stamp: Signature,
    /// Has its say about files before the last turn is committed.
    pub files: &'a mut TurnFiles<'a>,
    /// The call, by its id, after which `files` is asked: what that says belongs to the turn with the
    /// call. While the transcript does not have it, or others wait for theirs, it is kept aside.
    pub call: Option<String>,
    /// The client has written all that it had to write at this moment: what has waited for calls since
    /// then goes into the newest turn.
    pub settled: Option<Time>,
    /// The directory that paths of files begin in, where that is above the one that the session works in. A
    /// session that has turns keeps its own.
    pub root: Option<String>,
    /// A call that has begun and will not end, by its id, which is empty where the client tells none:
    /// `files` is asked before anything new goes in, and what it says belongs to the turn with the call.
    /// Nothing is kept of it when the transcript does not have the call.
    pub interrupted: Option<String>,
    /// Files as they were before the tool ran, by key: where the newest turn has another content, they
    /// go into the turn before that of the call.
    pub before: Vec<(String, Bytes)>,
}

/// The result of following a transcript.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Followed {
    /// The branch that has the file now.
    pub branch: BranchName,
    /// The branch that went back, when this one begins now: it is what the client goes on with.
    pub beside: Option<BranchName>,
    /// True if the file has turns that were taken back of the branch, and nothing else since.
    pub was_longer: bool,
    /// Its newest commit.
    pub head: ObjectId,
    /// True if the branch moved.
    pub moved: bool,
    /// Bytes the store grew by.
    pub new_bytes: u64,
    /// The root of the context that has the files as they were told: that of `head`, or one that is
    /// kept aside.
    pub files: ObjectId,
    /// True if files that are kept aside wait for their call.
    pub waits: bool,
    /// True if only the end of the file was read.
    pub was_quick: bool,
    /// The notes to keep for the next time; nothing when the whole file is to be read again.
    pub notes: Option<Vec<u8>>,
    /// New records of kinds that the reader does not know.
    pub unread: UnreadRecords,
}

/// Takes in what is new in a transcript, of the format that `detect` says by how it begins; `None` when
/// there is nothing in it yet.
///
/// # Errors
/// As of an [import](super::transcript), and those of `detect`.
pub(crate) fn follow(
    repo: &Repository,
    mut input: impl Read + Seek,
    notes: Option<&[u8]>,
    options: FollowOptions<'_>,
    detect: fn(&[u8]) -> Result<&'static Format>,
    origins: &Arc<Origins>,
) -> Result<Option<Followed>> {
    let (end, head) = whole_records(&mut input)?;
    if end == 0 {
        return Ok(None);
    }
    let format = detect(&head)?;
    let Ok(format) = RecordFormat::of(format) else {
        let message = format!("{} documents are no transcript: import them", format.name);
        return Err(Error::invalid(message));
    };
    if is_unended_line(format, &mut input, end)? {
        return Ok(None);
    }
    let origins = Arc::clone(origins);
    let mut follower = Follower { repo, format, input, end, options, earlier: None, origins };
    if let Some(notes) = notes.and_then(Notes::decode)
        && let Some(resumed) = follower.resume(notes)?
    {
        return follower.finish(resumed).map(Some);
    }
    let started = match follower.start(true)? {
        Some(started) => Some(started),
        None => follower.start(false)?,
    };
    started.map(|started| follower.finish(started)).transpose()
}

/// Returns the end of the last whole record of a file, and the head of the file.
fn whole_records(input: &mut (impl Read + Seek)) -> Result<(u64, Vec<u8>)> {
    let failed = |error| Error::io("read the transcript", error);
    let len = input.seek(SeekFrom::End(0)).map_err(failed)?;
    let head = read_at(input, 0, len.min(HEAD_BYTES as u64))?;
    let first = head.iter().position(|byte| *byte == b'\n').and_then(|at| head.get(..at));
    let is_lines = first.is_none_or(|line| serde_json::from_slice::<IgnoredAny>(line).is_ok());
    if is_lines {
        return Ok((last_line_end(input, len)?, head));
    }
    // A document is whole or is being written again.
    let tail = read_at(input, len.saturating_sub(TAIL_BYTES), len.min(TAIL_BYTES))?;
    let last = tail.iter().rfind(|byte| !byte.is_ascii_whitespace());
    Ok((if matches!(last, Some(b'}' | b']')) { len } else { 0 }, head))
}

/// The offset behind the last line end before `len`; 0 when there is none.
fn last_line_end(input: &mut (impl Read + Seek), len: u64) -> Result<u64> {
    let mut end = len;
    while end > 0 {
        let start = end.saturating_sub(TAIL_BYTES);
        let part = read_at(input, start, end - start)?;
        if let Some(at) = part.iter().rposition(|byte| *byte == b'\n') {
            return Ok(start + at as u64 + 1);
        }
        end = start;
    }
    // A document on one line without an end.
    let whole = read_at(input, 0, len.min(MAX_NEW_BYTES))?;
    let is_whole = serde_json::from_slice::<IgnoredAny>(&whole).is_ok();
    Ok(if is_whole { len } else { 0 })
}

/// Returns true if the file up to `end` is one record of a file of lines, and its line has not
/// ended: taken as it is, it would lack the line end that an import finds. A document may be one
/// line without an end.
fn is_unended_line(format: RecordFormat, input: &mut (impl Read + Seek), end: u64) -> Result<bool> {
    if read_at(input, end.saturating_sub(1), 1)? == b"\n" {
        return Ok(false);
    }
    let bytes = read_at(input, 0, end.min(MAX_NEW_BYTES))?;
    let first = (format.split)(Box::new(bytes.as_slice())).next().transpose()?;
    Ok(first.is_some_and(|piece| {
        matches!(piece.kind, PieceKind::Record { .. }) && piece.bytes.len() == bytes.len()
    }))
}

fn read_at(input: &mut (impl Read + Seek), from: u64, len: u64) -> Result<Vec<u8>> {
    let failed = |error| Error::io("read the transcript", error);
    input.seek(SeekFrom::Start(from)).map_err(failed)?;
    let mut bytes = Vec::new();
    input.take(len).read_to_end(&mut bytes).map_err(failed)?;
    Ok(bytes)
}

/// A file that is followed.
struct Follower<'r, 'a, R> {
    repo: &'r Repository,
    format: RecordFormat,
    input: R,
    /// The end of the whole records.
    end: u64,
    options: FollowOptions<'a>,
    /// The root of the context with the files of an interrupted call.
    earlier: Option<ObjectId>,
    origins: Arc<Origins>,
}

/// The progress before the last turn is committed.
struct Progress<'r> {
    run: TranscriptImport<'r>,
    branch: BranchName,
    /// The branch that this one was taken back of, when it begins now.
    beside: Option<BranchName>,
    /// The file has turns that were taken back of the branch.
    was_longer: bool,
    /// The old tip of the branch.
    tip: Option<ObjectId>,
    /// Bytes of the file that the source has; nothing when that has more than the file.
    offset: Option<u64>,
    was_quick: bool,
}

impl<'r, R: Read + Seek> Follower<'r, '_, R> {
    /// Goes on from the notes of the last time; nothing when they are not of this branch and file.
    fn resume(&mut self, notes: Notes) -> Result<Option<Progress<'r>>> {
        let is_there = match &self.options.onto {
            Some(branch) => Line::Branch(branch).has(self.repo, &notes.branch)?,
            None => true,
        };
        let is_known = notes.session == self.options.session && notes.format == self.format.name;
        let is_known = is_known && is_there;
        let new = self.end.checked_sub(notes.offset).filter(|new| *new <= MAX_NEW_BYTES);
        let mut staging = self.repo.begin();
        let (Some(new), true) = (new, is_known) else { return Ok(None) };
        if staging.tip(&notes.branch) != Some(notes.head) {
            return Ok(None);
        }
        let context = self.repo.context(&notes.head)?;
        if !self.has_tail(&context, notes.offset)? {
            return Ok(None);
        }
        let bytes = Bytes::from(read_at(&mut self.input, notes.offset, new)?);
        let cut = redacted(self.repo, (self.format.split)(Box::new(Cursor::new(bytes))))?;
        let pieces = cut.collect::<Result<Vec<Piece>>>()?;
        let Some((parser, told)) = self.parse(&notes, &pieces)? else { return Ok(None) };

        if notes.open.is_some() {
            let parents = self.repo.commit(&notes.head)?.parents;
            staging.move_branch(&notes.branch, parents.first().copied());
        }
        let (builder, stamp) = (Builder::from(context.clone()), self.options.stamp.clone());
        let captures = Captures::load(self.repo, notes.branch.session())?;
        let mut writer =
            TurnWriter::new(staging, builder, notes.branch.clone(), self.format, stamp, captures);
        writer.go_on_from(&context)?;
        let is_open = notes.open.is_some();
        if let Some(open) = notes.open {
            writer.reopen(open);
        }
        self.earlier = take_earlier_files(&mut writer, notes.head, is_open, &mut self.options)?;
        let mut run = TranscriptImport::resume(parser, writer);
        for (piece, events) in pieces.iter().zip(told) {
            run.apply(piece, events)?;
        }
        let (branch, beside, tip) = (notes.branch, None, Some(notes.head));
        let (was_longer, offset, was_quick) = (false, Some(self.end), true);
        Ok(Some(Progress { run, branch, beside, was_longer, tip, offset, was_quick }))
    }

    /// Returns true if the file has at `offset`, and before, what the source ends with.
    fn has_tail(&mut self, context: &Context, offset: u64) -> Result<bool> {
        let store = self.repo.store();
        let transcript = Transcript::open(store, context)?;
        let (mut stored, mut whole, mut from) = (Vec::new(), Vec::new(), transcript.len());
        let mut bytes = 0;
        while from > 0 && bytes < TAIL_BYTES {
            from -= 1;
            for found in transcript.pieces(store, from..from + 1) {
                let found = found?;
                let mut piece = found.bytes(store)?.to_vec();
                piece.extend_from_slice(&found.suffix);
                bytes += piece.len() as u64;
                whole.push(piece);
                stored.push(found.entry());
            }
        }
        whole.reverse();
        // The file must go on with a line of its own, and begin where the source does.
        let whole = whole.concat();
        if let Some(start) = offset.checked_sub(whole.len() as u64) {
            let there = read_at(&mut self.input, start, whole.len() as u64)?;
            if there == whole {
                return Ok(there.ends_with(b"\n") && (from > 0 || start == 0));
            }
        }
        self.has_lines(&stored, offset, from == 0)
    }

    /// Returns true if the file ends at `offset` with lines that are these pieces, the last one first:
    /// something else stands in the store for what is redacted or masked. `is_all` when the source has
    /// no others.
    fn has_lines(&mut self, stored: &[SourceEntry], offset: u64, is_all: bool) -> Result<bool> {
        let start = offset.saturating_sub(4 * TAIL_BYTES);
        let mut tail = read_at(&mut self.input, start, offset - start)?;
        if start > 0 {
            let Some(line) = tail.iter().position(|byte| *byte == b'\n') else { return Ok(false) };
            tail.drain(..=line);
        }
        if !tail.ends_with(b"\n") {
            return Ok(false);
        }
        let cut = redacted(self.repo, (self.format.split)(Box::new(Cursor::new(tail))))?;
        // Records that are no lines cannot be cut from the middle of a file.
        let Ok(there) = cut.collect::<Result<Vec<Piece>>>() else { return Ok(false) };
        let is_whole = match (is_all, start == 0) {
            (true, true) => there.len() == stored.len(),
            (true, false) => false,
            (false, true) => there.len() > stored.len(),
            (false, false) => true,
        };
        if !is_whole || there.is_empty() {
            return Ok(false);
        }
        for (piece, stored) in there.iter().rev().zip(stored) {
            if !describe(self.repo, self.format.side_paths, piece).is(stored)? {
                return Ok(false);
            }
        }
        Ok(true)
    }

    /// Parses the new pieces with a parser that resumes from the notes. Contents that it turns out
    /// to need are read from the store, and it begins again.
    #[expect(clippy::type_complexity, reason = "a parser and what it told, used once")]
    fn parse(
        &self,
        notes: &Notes,
        pieces: &[Piece],
    ) -> Result<Option<(Box<dyn Parser + Send>, Vec<Vec<crate::model::event::Event>>)>> {
        let mut contents = HashMap::new();
        loop {
            let mut parser = (self.format.parser)();
            if !parser.load(&notes.parser, &contents) {
                return Ok(None);
            }
            let tell = |piece| {
                let mut events = Vec::new();
                parser.piece(piece, &mut events);
                events
            };
            let told: Vec<_> = pieces.iter().map(tell).collect();
            if parser.is_lost() {
                return Ok(None);
            }
            let wanted = parser.wanted();
            if wanted.is_empty() {
                return Ok(Some((parser, told)));
            }
            for id in wanted {
                let Some(object) = self.repo.store().read(&id)? else { return Ok(None) };
                if contents.insert(id, object.bytes).is_some() {
                    return Ok(None);
                }
            }
        }
    }

    /// Compares the whole file with what the session has, and makes the last turn again if it
    /// `may_remake` it: nothing comes back when that turn has something that the file does not tell.
    fn start(&mut self, may_remake: bool) -> Result<Option<Progress<'r>>> {
        let failed = |error| Error::io("read the transcript", error);
        self.input.seek(SeekFrom::Start(0)).map_err(failed)?;
        let file = BufReader::with_capacity(HEAD_BYTES, (&mut self.input).take(self.end));
        let mut pieces = redacted(self.repo, (self.format.split)(Box::new(file)))?;

        let (repo, format) = (self.repo, self.format);
        let line = match &self.options.onto {
            Some(branch) => Line::Branch(branch),
            None => Line::Session(&self.options.session),
        };
        let mut staging = repo.begin();
        let relation = find_resume_point(repo, line, format, &mut pieces, |piece| {
            write_piece(&mut staging, format.side_paths, piece)
        })?;
        let (mut point, is_known, was_longer) = match relation {
            Relation::Resumed(point) => (*point, false, false),
            Relation::Known(KnownFile { branch, head, was_longer }) => {
                (whole_source(repo, branch, head)?, true, was_longer)
            }
        };
        let (branch, tip) = (point.branch.clone(), staging.tip(&point.branch));
        let beside = point.beside.clone();
        let base = point.base;
        let is_new = point.stored.is_empty() && is_beginning(repo, point.base.as_ref())?;
        let remade = if may_remake { reopen(repo, format, &mut point, tip)? } else { None };
        let (stamp, origins) = (self.options.stamp.clone(), Arc::clone(&self.origins));
        let mut run = TranscriptImport::begin(repo, staging, format, &point, stamp, origins)?;
        if let Some(Remade { time, metadata, .. }) = &remade {
            run.writer.remake(*time, metadata.clone());
        }
        let root = match &remade {
            Some(Remade { context, .. }) => fact(repo.store(), context, ROOT)?,
            None => self.options.root.clone().filter(|_| is_new),
        };
        if let Some(root) = root {
            run.writer.set_root(&root)?;
        }
        let lookahead = run.catch_up(repo, point)?;
        if let Some(Remade { context, .. }) = &remade {
            run.writer.carry_files(context)?;
            if !run.writer.has_sections_of(context)? {
                return Ok(None);
            }
        }
        if let Some(tip) = tip.filter(|tip| remade.is_some() || base == Some(*tip)) {
            let is_open = remade.is_some();
            self.earlier = take_earlier_files(&mut run.writer, tip, is_open, &mut self.options)?;
        }
        for piece in lookahead.into_iter().map(Ok).chain(&mut pieces) {
            run.piece(&piece?)?;
        }
        drop(pieces);
        if run.is_copying() {
            return Ok(None);
        }
        run.end()?;
        run.note_anchors();
        // A branch may have more than the file.
        let offset = (!is_known || run.known_bytes == self.end).then_some(self.end);
        let was_quick = false;
        Ok(Some(Progress { run, branch, beside, was_longer, tip, offset, was_quick }))
    }

    /// Commits the last turn as far as it goes, and makes all of it durable.
    fn finish(mut self, progress: Progress<'r>) -> Result<Followed> {
        let Progress { mut run, branch, beside, was_longer, tip, offset, was_quick } = progress;
        let writer = &mut run.writer;
        if let Some(moment) = self.options.settled {
            writer.captures.reach_until(moment);
        }
        let was_interrupted = self.options.interrupted.is_some();
        // The call was never written down: what was seen is no turn's.
        if was_interrupted && writer.captures.is_waiting() {
            writer.captures.forget_newest();
        }
        let newest = writer.captures.newest().or(tip);
        let context = match newest {
            Some(id) => {
                let tree = writer.transaction.read_commit(&id)?.tree;
                Context::open(&writer.transaction, &tree)?
            }
            None => Context::default(),
        };
        let has_place = !writer.captures.is_waiting() && self.has_call()?;
        let files = &mut *self.options.files;
        let open = writer.pause(&mut |change, builder| match has_place && !was_interrupted {
            true => files(change, &context, builder),
            false => Ok(BTreeMap::new()),
        })?;
        let head = imported_tip(&writer.transaction, &branch)?;
        let mut tree = writer.transaction.read_commit(&head)?.tree;
        if !has_place && !was_interrupted {
            let call = self.options.call.clone().unwrap_or_default();
            tree = keep_aside(writer, head, &call, &mut self.options)?;
            // It is aside of this very state: another process may have the call by now.
            writer.transaction.move_branch(&branch, Some(head));
        }
        let waits = writer.captures.is_waiting();
        let (moved, mut new_bytes) = (tip != Some(head), 0);
        if writer.captures.save(&mut writer.transaction)? || moved {
            if self.repo.tip(&self.repo.shared_head()?).is_none() {
                writer.transaction.set_head(&branch);
            }
            let reason = format!("follow {}", self.options.session);
            let committed = run.writer.transaction.commit(&self.options.stamp, &reason)?;
            new_bytes = committed.written.stored_bytes;
        }
        let notes = offset.zip(run.parser.save()).map(|(offset, parser)| {
            let (session, format) = (self.options.session, self.format.name.to_owned());
            Notes { session, format, branch: branch.clone(), head, offset, open, parser }.encode()
        });
        let files = self.earlier.unwrap_or(tree);
        Ok(Followed {
            branch,
            beside,
            was_longer,
            head,
            moved,
            new_bytes,
            files,
            waits,
            was_quick,
            notes,
            unread: run.unread,
        })
    }

    /// Returns true if the transcript has the call after which files are told, if they are told
    /// after one.
    fn has_call(&mut self) -> Result<bool> {
        match &self.options.call {
            Some(call) => calls::is_before(&mut self.input, self.end, call),
            None => Ok(true),
        }
    }
}

/// Asks for files and keeps them until `call` comes, on top of what waits already; the root of the
/// context that has them comes back.
fn keep_aside(
    writer: &mut TurnWriter<'_>,
    head: ObjectId,
    call: &str,
    options: &mut FollowOptions<'_>,
) -> Result<ObjectId> {
    let change = &mut writer.transaction;
    let newest = change.read_commit(&writer.captures.newest().unwrap_or(head))?.tree;
    let context = Context::open(change, &newest)?;
    let mut builder = Builder::from(context.clone());
    let metadata = (options.files)(change, &context, &mut builder)?;
    let tree = builder.write(change)?;
    if tree != newest {
        writer.captures.keep(change, call, tree, head, metadata, &options.stamp)?;
    }
    Ok(tree)
}

/// A branch that has all of a file, as the place where it goes on.
fn whole_source(repo: &Repository, branch: BranchName, head: ObjectId) -> Result<ResumePoint> {
    let stored = Transcript::open(repo.store(), &repo.context(&head)?)?;
    let pieces = stored.len();
    Ok(ResumePoint {
        branch,
        beside: None,
        base: Some(head),
        base_pieces: pieces,
        stored,
        common: pieces,
        keep: pieces,
        replacement: Vec::new(),
        lookahead: Vec::new(),
        restart: false,
        apart: false,
        left: None,
    })
}

/// A turn that is made again.
struct Remade {
    /// The time for records without one.
    time: Option<Time>,
    metadata: BTreeMap<String, String>,
    /// The context that it had.
    context: Context,
}

/// Goes back before the last turn of the branch, if that came from the transcript and all of it can
/// be made again: it may not have been whole.
fn reopen(
    repo: &Repository,
    format: RecordFormat,
    point: &mut ResumePoint,
    tip: Option<ObjectId>,
) -> Result<Option<Remade>> {
    let Some(head) = point.base.filter(|base| Some(*base) == tip) else { return Ok(None) };
    let commit = repo.commit(&head)?;
    let is_turn = commit.trigger == Trigger::Turn && commit.author.agent == format.name;
    if !is_turn
        || point.restart
        || point.apart
        || format.continues.is_some()
        || commit.parents.len() > 1
    {
        return Ok(None);
    }
    let parent = commit.parents.first().copied();
    let own = begins(&commit);
    let (pieces, time) = match parent {
        None => (own.unwrap_or(0), None),
        Some(parent) => {
            let before = repo.commit(&parent)?;
            if repo.store().tombstone(&before.tree).is_some() {
                return Ok(None);
            }
            let pieces = Transcript::open(repo.store(), &repo.context(&parent)?)?.len();
            (own.unwrap_or(pieces), (pieces > 0).then_some(before.time))
        }
    };
    if pieces > point.common || pieces > point.keep {
        return Ok(None);
    }
    let context = repo.context(&head)?;
    (point.base, point.base_pieces, point.apart) = (parent, pieces, own.is_some());
    let time = time.or(Some(commit.time));
    Ok(Some(Remade { time, metadata: commit.metadata, context }))
}
