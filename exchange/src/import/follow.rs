//! Follows a growing transcript: each call imports the new part and reads only that.
//!
//! An import treats a file as finished: its last turn ends with the file. A followed transcript
//! grows, maybe in the middle of a turn. The follower commits the unfinished turn, and the next
//! call replaces that commit with one that includes the new records. In the end the branch has the
//! same commits as after an import of the whole file, regardless of when and how often it was
//! followed.
//!
//! | known state | reads |
//! |---|---|
//! | notes of the last call, for the current tip | the end of the stored source and of the file |
//! | anything else | the whole file, and compares it with the source like an import |
//!
//! Notes are a cache: the state of the parser and the position in the file. The follower verifies
//! the file before that position against the store. It ignores unterminated lines until they end.

mod calls;
mod earlier_files;
mod notes;

use std::collections::{BTreeMap, HashMap};
use std::io::{BufReader, Cursor, Read, Seek, SeekFrom};
use std::sync::Arc;

use bytes::Bytes;
use serde::de::IgnoredAny;
use turntree::context::{Builder, Context, SourceEntry, Transcript};
use turntree::error::{Error, Result};
use turntree::object::{ObjectId, ObjectSource, Time, Trigger};
use turntree::repo::{Adoption, BranchName, Repository, Signature, Transaction};

use super::captures::Captures;
use super::finish::imported_tip;
use super::fork::Origins;
use super::redact::redact_pieces;
use super::resume::{
    BranchScope, KnownFile, Relation, ResumePoint, describe_piece, find_resume_point,
};
use super::rewind::source_start;
use super::transcript::{TranscriptImport, is_conversation_start, reject_silent_file};
use super::turns::{OpenTurn, ROOT, TurnWriter, fact};
use crate::import::source::write_piece;
use crate::model::event::Parser;
use crate::model::format::{Format, RecordFormat};
use crate::model::report::{ImportNote, ImportedBranch};
use crate::model::unread::UnreadRecords;
use crate::text::piece::{Piece, PieceKind};
use crate::text::unpack::HEAD_BYTES;
pub use calls::has_call;
use earlier_files::import_earlier_files;
use notes::Notes;
pub use notes::{followed_branch, followed_bytes};

/// Bytes before the position that the follower compares with the store.
const TAIL_BYTES: u64 = 16 << 10;

/// Maximum number of new bytes to read into memory. More are read one record at a time, like an
/// import.
const MAX_NEW_BYTES: u64 = 32 << 20;

/// Reports the state of the workspace: receives the context of the branch, changes the current
/// context, and returns the metadata about it for the commit.
pub type TurnFiles<'f> = dyn FnMut(&mut Transaction<'_>, &Context, &mut Builder) -> Result<BTreeMap<String, String>>
    + 'f;

/// Options of following a transcript.
pub struct FollowOptions<'a> {
    /// The session to create or continue.
    pub session: String,
    /// The branch of that session to import to, regardless of its records, or the branch of its
    /// client after a rollback. `None` for the branch that has the records.
    pub onto: Option<BranchName>,
    /// The author, and the time for records without a time.
    pub stamp: Signature,
    /// Updates the files of the context before the last turn is committed. `None` to keep them.
    pub files: Option<&'a mut TurnFiles<'a>>,
    /// The id of the call after which `files` runs. Its files belong to the turn with the call.
    /// They are kept as a capture while the transcript lacks the call or other captures are
    /// pending.
    pub call: Option<String>,
    /// The time until which the client has written all records. Captures up to that time go into
    /// the newest turn.
    pub settled: Option<Time>,
    /// The root of file paths, if it is above the working directory. Ignored for a session with
    /// turns.
    pub root: Option<String>,
    /// The id of a call that began and will never end, empty if the client does not report it.
    /// `files` runs before the new records are imported, and its files belong to the turn with the
    /// call. They are dropped if the transcript lacks the call.
    pub interrupted: Option<String>,
    /// Files as they were before the tool ran, by key. A file that differs from the newest turn is
    /// added to the turn before the call.
    pub before: Vec<(String, Bytes)>,
    /// The working directory of the session, for formats that do not record it.
    pub directory: Option<String>,
    /// The adoption that the operation is part of.
    pub adoption: Option<Arc<Adoption>>,
    /// True if a client may be writing the file. Otherwise a new file whose messages have no text is
    /// an error, as in an import.
    pub is_live: bool,
}

impl FollowOptions<'_> {
    /// The options for a file that a client may be writing, without anything from a hook.
    #[must_use]
    pub fn new(session: &str, stamp: Signature) -> Self {
        Self {
            session: session.to_owned(),
            onto: None,
            stamp,
            files: None,
            call: None,
            settled: None,
            root: None,
            interrupted: None,
            before: Vec::new(),
            directory: None,
            adoption: None,
            is_live: true,
        }
    }
}

/// The result of following a transcript.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FollowReport {
    /// The branch that has the file now.
    pub branch: BranchName,
    /// The branch that was rolled back, if `branch` starts now and continues from the rolled-back
    /// turns.
    pub rolled_back: Option<BranchName>,
    /// True if the file has turns that were rolled back from the branch, and no newer ones.
    pub was_longer: bool,
    /// The newest commit of the branch.
    pub head: ObjectId,
    /// True if the branch moved.
    pub moved: bool,
    /// The number of bytes that the store grew by.
    pub new_bytes: u64,
    /// The root of the context that has the reported files: the one of `head`, or of a capture.
    pub files: ObjectId,
    /// True if a capture waits for its call.
    pub has_pending: bool,
    /// True if only the end of the file was read.
    pub is_incremental: bool,
    /// The notes for the next call. `None` if the next call must read the whole file.
    pub notes: Option<Vec<u8>>,
    /// New records of kinds that the parser does not know.
    pub unread: UnreadRecords,
    /// New pieces that were kept but not understood, at most 1,000.
    pub odd: Vec<ImportNote>,
    /// The number of commits that were written, including an unfinished turn that was rebuilt.
    pub turns: u64,
    /// The number of messages in these commits.
    pub messages: u64,
    /// The format of the file.
    pub format: &'static str,
    /// The branches that keep rewound turns.
    pub others: Vec<ImportedBranch>,
}

/// Imports the new part of a transcript. `detect` finds the format from the start of the file.
/// Returns `None` if the file has no complete record yet.
///
/// # Errors
/// The errors of an [import](super::transcript), and of `detect`.
pub(crate) fn follow(
    repo: &Repository,
    mut input: impl Read + Seek,
    notes: Option<&[u8]>,
    options: FollowOptions<'_>,
    detect: fn(&[u8]) -> Result<&'static Format>,
    origins: &Arc<Origins>,
) -> Result<Option<FollowReport>> {
    let (end, head) = whole_records(&mut input)?;
    if end == 0 {
        return Ok(None);
    }
    let format = detect(&head)?;
    let Ok(format) = RecordFormat::of(format) else {
        let message = format!("{} documents are not transcripts: import them", format.name);
        return Err(Error::invalid(message));
    };
    if is_unterminated_line(format, &mut input, end)? {
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

/// Returns the end of the last complete record of a file, and the head of the file.
fn whole_records(input: &mut (impl Read + Seek)) -> Result<(u64, Vec<u8>)> {
    let failed = |error| Error::io("read the transcript", error);
    let len = input.seek(SeekFrom::End(0)).map_err(failed)?;
    let head = read_at(input, 0, len.min(HEAD_BYTES as u64))?;
    let first = head.iter().position(|byte| *byte == b'\n').and_then(|at| head.get(..at));
    let is_lines = first.is_none_or(|line| serde_json::from_slice::<IgnoredAny>(line).is_ok());
    if is_lines {
        return Ok((last_line_end(input, len)?, head));
    }
    // A document is either complete or being rewritten.
    let tail = read_at(input, len.saturating_sub(TAIL_BYTES), len.min(TAIL_BYTES))?;
    let last = tail.iter().rfind(|byte| !byte.is_ascii_whitespace());
    Ok((if matches!(last, Some(b'}' | b']')) { len } else { 0 }, head))
}

/// Returns the offset after the last line end before `len`, or 0 if there is none.
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
    // A document may be a single line without a line end.
    let whole = read_at(input, 0, len.min(MAX_NEW_BYTES))?;
    let is_whole = serde_json::from_slice::<IgnoredAny>(&whole).is_ok();
    Ok(if is_whole { len } else { 0 })
}

/// Returns true if the file up to `end` is a single record of a line format without its line end.
/// Importing it would store a record without the line end that a later import finds. A document may
/// be one line without an end.
fn is_unterminated_line(
    format: RecordFormat,
    input: &mut (impl Read + Seek),
    end: u64,
) -> Result<bool> {
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

/// A followed file.
struct Follower<'r, 'a, R> {
    repo: &'r Repository,
    format: RecordFormat,
    input: R,
    /// The end of the complete records.
    end: u64,
    options: FollowOptions<'a>,
    /// The root of the context with the files of an interrupted call.
    earlier: Option<ObjectId>,
    origins: Arc<Origins>,
}

/// The state before the last turn is committed.
struct Progress<'r> {
    run: TranscriptImport<'r>,
    branch: BranchName,
    /// The branch that was rolled back, if `branch` starts now.
    rolled_back: Option<BranchName>,
    /// True if the file has turns that were rolled back from the branch.
    was_longer: bool,
    /// The old tip of the branch.
    tip: Option<ObjectId>,
    /// Number of bytes of the file that the source has. `None` if the source has more than the
    /// file.
    offset: Option<u64>,
    is_incremental: bool,
}

impl<'r, R: Read + Seek> Follower<'r, '_, R> {
    /// Continues from the notes of the last call. Returns `None` if they do not match this branch
    /// and file.
    fn resume(&mut self, notes: Notes) -> Result<Option<Progress<'r>>> {
        let is_there = match &self.options.onto {
            Some(branch) => BranchScope::Branch(branch).has(self.repo, &notes.branch)?,
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
        let cut = redact_pieces(self.repo, (self.format.split)(Box::new(Cursor::new(bytes))))?;
        let pieces = cut.collect::<Result<Vec<Piece>>>()?;
        let Some((parser, parsed)) = self.parse(&notes, &pieces)? else { return Ok(None) };

        if notes.open.is_some() {
            let parents = self.repo.commit(&notes.head)?.parents;
            staging.move_branch(&notes.branch, parents.first().copied());
        }
        let (builder, stamp) = (Builder::from(context.clone()), self.options.stamp.clone());
        let captures = Captures::load(self.repo, notes.branch.session())?;
        let mut writer =
            TurnWriter::new(staging, builder, notes.branch.clone(), self.format, stamp, captures);
        writer.continue_from(&context)?;
        let is_open = notes.open.is_some();
        if let Some(open) = notes.open {
            writer.reopen(open);
        }
        self.earlier = import_earlier_files(&mut writer, notes.head, is_open, &mut self.options)?;
        let mut run = TranscriptImport::resume(parser, writer);
        for (piece, events) in pieces.iter().zip(parsed) {
            run.apply(piece, events)?;
        }
        let (branch, rolled_back, tip) = (notes.branch, None, Some(notes.head));
        let (was_longer, offset, is_incremental) = (false, Some(self.end), true);
        Ok(Some(Progress { run, branch, rolled_back, was_longer, tip, offset, is_incremental }))
    }

    /// Returns true if the file before `offset` ends like the source.
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
        // The file must have a line end at `offset`, and must start where the source starts.
        let whole = whole.concat();
        if let Some(start) = offset.checked_sub(whole.len() as u64) {
            let there = read_at(&mut self.input, start, whole.len() as u64)?;
            if there == whole {
                return Ok(there.ends_with(b"\n") && (from > 0 || start == 0));
            }
        }
        self.has_lines(&stored, offset, from == 0)
    }

    /// Returns true if the lines of the file before `offset` are these pieces, in reverse order.
    /// Used if the bytes differ, because the store holds replacements of redacted or masked pieces.
    /// `is_all` is true if the source has no further pieces.
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
        let cut = redact_pieces(self.repo, (self.format.split)(Box::new(Cursor::new(tail))))?;
        // Records that are not lines cannot be split from the middle of a file.
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
            if !describe_piece(self.repo, self.format.side_paths, piece).is_equal_to(stored)? {
                return Ok(false);
            }
        }
        Ok(true)
    }

    /// Parses the new pieces with a parser that resumes from the notes. If the parser needs content
    /// of the store, reads that content and starts over.
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
            if let Some(directory) = &self.options.directory {
                parser.set_directory(directory);
            }
            let tell = |piece| {
                let mut events = Vec::new();
                parser.piece(piece, &mut events);
                events
            };
            let parsed: Vec<_> = pieces.iter().map(tell).collect();
            if parser.lacks_context() {
                return Ok(None);
            }
            let wanted = parser.missing_blobs();
            if wanted.is_empty() {
                return Ok(Some((parser, parsed)));
            }
            for id in wanted {
                let Some(object) = self.repo.read(&id)? else { return Ok(None) };
                if contents.insert(id, object.bytes).is_some() {
                    return Ok(None);
                }
            }
        }
    }

    /// Compares the whole file with the session and rebuilds the last turn if it `may_rebuild` it.
    /// Returns `None` if that turn has content that does not come from the file.
    fn start(&mut self, may_rebuild: bool) -> Result<Option<Progress<'r>>> {
        let failed = |error| Error::io("read the transcript", error);
        self.input.seek(SeekFrom::Start(0)).map_err(failed)?;
        let file = BufReader::with_capacity(HEAD_BYTES, (&mut self.input).take(self.end));
        let mut pieces = redact_pieces(self.repo, (self.format.split)(Box::new(file)))?;

        let (repo, format) = (self.repo, self.format);
        let line = match &self.options.onto {
            Some(branch) => BranchScope::Branch(branch),
            None => BranchScope::Session(&self.options.session),
        };
        let mut staging = repo.begin();
        let relation = find_resume_point(repo, line, format, &mut pieces, |piece| {
            write_piece(&mut staging, format.side_paths, piece)
        })?;
        let (mut point, is_known, was_longer) = match relation {
            Relation::Resumed(point) => (*point, false, false),
            Relation::Known(KnownFile { branch, head, was_longer }) => {
                (resume_at_end(repo, branch, head)?, true, was_longer)
            }
        };
        let (branch, tip) = (point.branch.clone(), staging.tip(&point.branch));
        let rolled_back = point.rolled_back.clone();
        let base = point.base;
        let is_new = point.stored.is_empty() && is_conversation_start(repo, point.base.as_ref())?;
        let remade = if may_rebuild { reopen(repo, format, &mut point, tip)? } else { None };
        let (stamp, origins) = (self.options.stamp.clone(), Arc::clone(&self.origins));
        let mut run = TranscriptImport::begin(repo, staging, format, &point, stamp, origins)?;
        if let Some(directory) = &self.options.directory {
            run.parser.set_directory(directory);
        }
        if let Some(RebuiltTurn { time, metadata, .. }) = &remade {
            run.writer.rebuild(*time, metadata.clone());
        }
        let root = match &remade {
            Some(RebuiltTurn { context, .. }) => fact(repo, context, ROOT)?,
            None => self.options.root.clone().filter(|_| is_new),
        };
        if let Some(root) = root {
            run.writer.set_root(&root)?;
        }
        let lookahead = run.catch_up(repo, point)?;
        if let Some(RebuiltTurn { context, .. }) = &remade {
            run.writer.copy_files(context)?;
            if !run.writer.has_sections_of(context)? {
                return Ok(None);
            }
        }
        if let Some(tip) = tip.filter(|tip| remade.is_some() || base == Some(*tip)) {
            let is_open = remade.is_some();
            self.earlier = import_earlier_files(&mut run.writer, tip, is_open, &mut self.options)?;
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
        let is_incremental = false;
        Ok(Some(Progress { run, branch, rolled_back, was_longer, tip, offset, is_incremental }))
    }

    /// Commits the unfinished turn and makes all changes durable.
    fn finish(mut self, progress: Progress<'r>) -> Result<FollowReport> {
        let Progress { mut run, branch, rolled_back, was_longer, tip, offset, is_incremental } =
            progress;
        let writer = &mut run.writer;
        if let Some(moment) = self.options.settled {
            writer.captures.assign_until(moment);
        }
        let was_interrupted = self.options.interrupted.is_some();
        // The client never wrote the call, so its files belong to no turn.
        if was_interrupted && writer.captures.has_pending() {
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
        let has_place = !writer.captures.has_pending() && self.has_call()?;
        let mut files = self.options.files.as_mut().filter(|_| has_place && !was_interrupted);
        let open = writer.pause(&mut |change, builder| match &mut files {
            Some(files) => files(change, &context, builder),
            None => Ok(BTreeMap::new()),
        })?;
        if !self.options.is_live && run.is_first {
            reject_silent_file(writer)?;
        }
        let head = imported_tip(&writer.transaction, &branch)?;
        let mut tree = writer.transaction.read_commit(&head)?.tree;
        if !has_place && !was_interrupted {
            let call = self.options.call.clone().unwrap_or_default();
            tree = store_capture(writer, head, &call, &mut self.options)?;
            // The capture is valid only for this tip: another process may have imported the call
            // since.
            writer.transaction.move_branch(&branch, Some(head));
        }
        let has_pending = writer.captures.has_pending();
        let (moved, mut new_bytes) = (tip != Some(head), 0);
        let (turns, messages) = (writer.turns, writer.messages);
        let others = writer.abandoned_branches();
        if writer.captures.save(&mut writer.transaction)? || moved {
            if self.repo.tip(&self.repo.shared_head()?).is_none() {
                // An import also moves the HEAD of the directory where it is run.
                match self.options.is_live {
                    true => writer.transaction.set_head(&branch),
                    false => writer.transaction.switch(&branch),
                }
            }
            let (change, session) = (run.writer.transaction, &self.options.session);
            let committed = match &self.options.adoption {
                Some(adoption) => adoption.commit(change, &self.options.stamp, session)?,
                None => {
                    let verb = if self.options.is_live { "follow" } else { "import" };
                    change.commit(&self.options.stamp, &format!("{verb} {session}"))?
                }
            };
            new_bytes = committed.written.stored_bytes;
        }
        let notes = offset.zip(run.parser.save()).map(|(offset, parser)| {
            let (session, format) = (self.options.session, self.format.name.to_owned());
            Notes { session, format, branch: branch.clone(), head, offset, open, parser }.encode()
        });
        let files = self.earlier.unwrap_or(tree);
        Ok(FollowReport {
            branch,
            rolled_back,
            was_longer,
            head,
            moved,
            new_bytes,
            files,
            has_pending,
            is_incremental,
            notes,
            unread: run.unread,
            odd: run.notes,
            turns,
            messages,
            format: self.format.name,
            others,
        })
    }

    /// Returns true if the transcript has the call that the files belong to, or if there is no such
    /// call.
    fn has_call(&mut self) -> Result<bool> {
        match &self.options.call {
            Some(call) => calls::has_call_before(&mut self.input, self.end, call),
            None => Ok(true),
        }
    }
}

/// Runs `files` and stores the result as a capture that waits for `call`, on top of the pending
/// captures. Returns the root of the context with the files.
fn store_capture(
    writer: &mut TurnWriter<'_>,
    head: ObjectId,
    call: &str,
    options: &mut FollowOptions<'_>,
) -> Result<ObjectId> {
    let change = &mut writer.transaction;
    let newest = change.read_commit(&writer.captures.newest().unwrap_or(head))?.tree;
    let context = Context::open(change, &newest)?;
    let mut builder = Builder::from(context.clone());
    let metadata = match &mut options.files {
        Some(files) => files(change, &context, &mut builder)?,
        None => BTreeMap::new(),
    };
    let tree = builder.write(change)?;
    if tree != newest {
        writer.captures.store(change, call, tree, head, metadata, &options.stamp)?;
    }
    Ok(tree)
}

/// Returns a resume point at the end of a branch that has the whole file.
fn resume_at_end(repo: &Repository, branch: BranchName, head: ObjectId) -> Result<ResumePoint> {
    let stored = Transcript::open(repo, &repo.context(&head)?)?;
    let pieces = stored.len();
    Ok(ResumePoint {
        branch,
        rolled_back: None,
        base: Some(head),
        base_pieces: pieces,
        stored,
        common: pieces,
        keep: pieces,
        replacement: Vec::new(),
        lookahead: Vec::new(),
        restart: false,
        is_detached: false,
        abandoned: None,
    })
}

/// A turn that is rebuilt.
struct RebuiltTurn {
    /// The fallback time for records without one.
    time: Option<Time>,
    metadata: BTreeMap<String, String>,
    /// The old context of the turn.
    context: Context,
}

/// Moves `point` before the last turn of the branch, which may be unfinished, if the turn came from
/// the transcript and can be rebuilt completely.
fn reopen(
    repo: &Repository,
    format: RecordFormat,
    point: &mut ResumePoint,
    tip: Option<ObjectId>,
) -> Result<Option<RebuiltTurn>> {
    let Some(head) = point.base.filter(|base| Some(*base) == tip) else { return Ok(None) };
    let commit = repo.commit(&head)?;
    let is_turn = commit.trigger == Trigger::Turn && commit.author.agent == format.name;
    if !is_turn
        || point.restart
        || point.is_detached
        || format.continues.is_some()
        || commit.parents.len() > 1
    {
        return Ok(None);
    }
    let parent = commit.parents.first().copied();
    let own = source_start(&commit);
    let (pieces, time) = match parent {
        None => (own.unwrap_or(0), None),
        Some(parent) => {
            let before = repo.commit(&parent)?;
            if repo.tombstone(&before.tree).is_some() {
                return Ok(None);
            }
            let pieces = Transcript::open(repo, &repo.context(&parent)?)?.len();
            (own.unwrap_or(pieces), (pieces > 0).then_some(before.time))
        }
    };
    if pieces > point.common || pieces > point.keep {
        return Ok(None);
    }
    let context = repo.context(&head)?;
    (point.base, point.base_pieces, point.is_detached) = (parent, pieces, own.is_some());
    let time = time.or(Some(commit.time));
    Ok(Some(RebuiltTurn { time, metadata: commit.metadata, context }))
}
