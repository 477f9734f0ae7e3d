//! A transcript goes in turn by turn: pieces become a source, events become commits.
//!
//! The store keeps every piece of the file in the `source` section, so an import that comes again
//! needs no notes of its own: the new file is compared with the sources of the session's branches.
//!
//! | the file is | what happens |
//! |---|---|
//! | new to the session | every turn becomes a commit of a new branch |
//! | known, or a beginning of what is known | nothing |
//! | a longer version of a branch | its new turns go on top of the branch |
//! | rewritten after some point | the branch goes on from the last common turn, and what it had is left on another one |
//!
//! Redacted content comes in as its replacement in the store (`redacted.rs`), so a file that still
//! has it is no rewritten one.
//!
//! To go on in the middle, the parser first reads the stored beginning again, from the store, so it
//! knows what it would have known. Everything becomes visible in one operation at the end.

use std::io::{BufRead, BufReader, Read};
use std::sync::Arc;

use bytes::Bytes;
use turntree::context::{Builder, SourceEntry, SourceKind};
use turntree::error::{Error, Result};
use turntree::object::{Kind, ObjectId, ObjectSource};
use turntree::repo::{BranchName, Repository, Signature, Transaction};

use super::captures::Captures;
use super::finish::{finish_import, imported_tip};
use super::fork::{CopiedPiece, ForkStep, Forking, Origins, RecordKey, record_key};
use super::gap_limit::GapLimit;
use super::redacted::redacted;
use super::resume::{KnownFile, Line, Relation, ResumePoint, find_resume_point};
use super::source::{SourceReader, write_piece};
use super::turns::TurnWriter;
use crate::model::event::{Event, Parser};
use crate::model::format::{ImportOptions, RecordFormat};
use crate::model::report::{BASE, ImportNote, ImportReport, ImportedBranch, MAX_NOTES};
use crate::model::unread::UnreadRecords;
use crate::text::piece::{Piece, PieceKind};

const META: &str = "meta";

/// The section that files are in.
const FILES: &str = "files";

/// What the names of hooks as actors begin with.
const HOOK_ACTOR: &str = "hook/";

/// The fact that is the directory of a session.
const DIRECTORY: &str = "cwd";

/// Most pieces before the first record of a file that are looked at for facts: each has 1 MiB at most.
const MAX_BEGINNING: usize = 4;

/// Imports the transcript in `input`, which is not compressed any more. `directory` is where the session
/// worked, for formats that do not say it themselves.
///
/// # Errors
/// As for [`import`](crate::import).
pub(crate) fn import_transcript(
    repo: &Repository,
    format: RecordFormat,
    input: Box<dyn BufRead + '_>,
    options: &ImportOptions,
    directory: Option<&str>,
    origins: &Arc<Origins>,
) -> Result<ImportReport> {
    let mut input_bytes = 0;
    let mut gap = GapLimit::default();
    let pieces = (format.split)(input);
    let mut pieces = redacted(repo, pieces)?.map(|piece| {
        let piece = piece?;
        gap.pass(format.side_paths, &piece)?;
        input_bytes += (piece.bytes.len() + piece.suffix.len()) as u64;
        Ok(piece)
    });

    let mut staging = repo.begin();
    let relation =
        find_resume_point(repo, Line::Session(&options.session), format, &mut pieces, |piece| {
            write_piece(&mut staging, format.side_paths, piece)
        })?;
    let point = match relation {
        Relation::Resumed(point) => *point,
        Relation::Known(KnownFile { branch, head, .. }) => {
            drop(pieces);
            let report =
                ImportReport { input_bytes, ..ImportReport::unchanged(branch, head, format.name) };
            return finish_import(repo, repo.begin(), options, "", false, report);
        }
    };
    let branch = point.branch.clone();
    let (stamp, origins) = (options.stamp.clone(), Arc::clone(origins));
    let mut run = TranscriptImport::begin(repo, staging, format, &point, stamp, origins)?;
    if let Some(directory) = directory {
        run.parser.worked_in(directory);
    }
    let lookahead = run.catch_up(repo, point)?;
    for piece in lookahead.into_iter().map(Ok).chain(&mut pieces) {
        run.piece(&piece?)?;
    }
    drop(pieces);
    run.finish(repo, options, branch, input_bytes)
}

/// The document whose state the transcript goes on from: what it joins, or what that went on from.
fn document_below(
    repo: &Repository,
    format: RecordFormat,
    point: &ResumePoint,
) -> Result<Option<ObjectId>> {
    let (Some(_), Some(base)) = (format.continues, point.base) else { return Ok(None) };
    if point.restart {
        return Ok(Some(base));
    }
    let store = repo.store();
    let Some(item) = repo.context(&base)?.map(store, META)?.get(store, BASE.as_bytes())? else {
        return Ok(None);
    };
    let name = store.read_as(Kind::Blob, &item.link.id)?;
    let id = std::str::from_utf8(&name).ok().and_then(|name| name.parse().ok());
    id.map(Some).ok_or_else(|| Error::invalid("meta/base names no snapshot"))
}

/// Returns whether a session begins with what is above `base`: nothing, or snapshots of files that a hook
/// has taken before the client has written the first record.
pub(super) fn is_beginning(repo: &Repository, base: Option<&ObjectId>) -> Result<bool> {
    let Some(base) = base else { return Ok(true) };
    let sections = repo.context(base)?.sections(repo.store())?;
    if sections.keys().any(|name| name != FILES) {
        return Ok(false);
    }
    for entry in repo.history(&[*base], &[])?.first_parent() {
        if !entry?.commit.author.agent.starts_with(HOOK_ACTOR) {
            return Ok(false);
        }
    }
    Ok(true)
}

/// Refuses a file of whose messages more than a tenth have nothing to see: it is of another format, or
/// of a release that writes another one. A single one among others may be an answer that never came.
fn refuse_silent(writer: &TurnWriter<'_>) -> Result<()> {
    let (all, silent, name) = (writer.messages, writer.silent, writer.format().name);
    if silent.saturating_mul(10) <= all || (silent == 1 && all > 1) {
        return Ok(());
    }
    let message = format!(
        "read as {name}, {silent} of {all} messages have no text: the file is of another format, or of \
         a release of it that is not known; nothing was imported"
    );
    Err(Error::invalid(message))
}

/// An import under way.
pub(crate) struct TranscriptImport<'r> {
    pub(crate) parser: Box<dyn Parser + Send>,
    pub(crate) writer: TurnWriter<'r>,
    /// Bytes of the file that were in the source already.
    pub(crate) known_bytes: u64,
    notes: Vec<ImportNote>,
    /// Records of kinds that the parser does not know.
    pub(crate) unread: UnreadRecords,
    /// The file is new to the session.
    is_first: bool,
    /// The fork that the file may be, until that is known.
    forking: Option<Forking<'r>>,
    /// The records by which forks of the file find it.
    anchors: Vec<RecordKey>,
    origins: Arc<Origins>,
}

impl<'r> TranscriptImport<'r> {
    /// An import that goes on at `point`, on its branch and from its base.
    pub(crate) fn begin(
        repo: &'r Repository,
        mut staging: Transaction<'r>,
        format: RecordFormat,
        point: &ResumePoint,
        stamp: Signature,
        origins: Arc<Origins>,
    ) -> Result<Self> {
        let mut builder = match &point.base {
            Some(base) => Builder::from(repo.context(base)?),
            None => Builder::new(),
        };
        let mut parser = (format.parser)();
        if let Some(document) = document_below(repo, format, point)? {
            parser.resume(repo.store(), &repo.context(&document)?)?;
            let id = Bytes::from(document.to_string());
            builder.set_entry(&mut staging, META, BASE, Some(id))?;
        }
        if point.base != staging.tip(&point.branch) {
            staging.move_branch(&point.branch, point.base);
        }
        if let Some(left) = &point.left {
            staging.move_branch(&left.branch, Some(left.tip));
        }
        let captures = Captures::load(repo, point.branch.session())?;
        let branch = point.branch.clone();
        let mut writer = TurnWriter::new(staging, builder, branch, format, stamp, captures);
        if let Some(base) = &point.base {
            writer.go_on_from(&repo.context(base)?)?;
        }
        if let Some(left) = &point.left {
            writer.leaves(left);
        }
        let is_new = point.stored.is_empty() && is_beginning(repo, point.base.as_ref())?;
        let session = point.branch.session();
        let forking = match is_new {
            true => Forking::new(repo, format, session, Arc::clone(&origins)),
            false => None,
        };
        let (notes, unread) = (Vec::new(), UnreadRecords::default());
        let is_first = point.stored.is_empty();
        let anchors = Vec::new();
        Ok(Self {
            parser,
            writer,
            known_bytes: 0,
            notes,
            unread,
            is_first,
            forking,
            anchors,
            origins,
        })
    }

    /// An import that goes on where another one stopped, whose parser had come to `parser`.
    pub(crate) fn resume(parser: Box<dyn Parser + Send>, writer: TurnWriter<'r>) -> Self {
        let (notes, unread) = (Vec::new(), UnreadRecords::default());
        let (anchors, origins) = (Vec::new(), Arc::default());
        let (known_bytes, is_first, forking) = (0, false, None);
        Self { parser, writer, known_bytes, notes, unread, is_first, forking, anchors, origins }
    }

    /// Brings parser and context to the last common record, and returns the pieces read beyond it.
    pub(crate) fn catch_up(&mut self, repo: &Repository, point: ResumePoint) -> Result<Vec<Piece>> {
        let ResumePoint { base_pieces, stored, common, keep, mut replacement, lookahead, .. } =
            point;
        if point.restart {
            self.writer.replace_source(0, &[])?;
        }
        let has_other_beginning = keep == 0 && !replacement.is_empty();
        let beginning = if has_other_beginning { replacement.clone() } else { Vec::new() };
        if point.apart {
            self.writer.begin_source(&stored, base_pieces)?;
        }
        if keep < base_pieces {
            self.writer.replace_source(keep, &std::mem::take(&mut replacement))?;
        }
        let reader = SourceReader::new(repo.store(), &stored, common);
        let known = (self.writer.format().split)(Box::new(BufReader::new(reader)));
        for (index, piece) in (0..common).zip(known) {
            let (piece, mut events) = (piece?, Vec::new());
            self.known_bytes += (piece.bytes.len() + piece.suffix.len()) as u64;
            self.parser.piece(&piece, &mut events);
            if index >= base_pieces {
                self.writer.apply(&piece, events, index < keep)?;
            } else if point.apart {
                self.writer.note_facts(&piece, events)?;
            }
        }
        if !replacement.is_empty() {
            self.writer.replace_source(keep, &replacement)?;
        }
        self.note_beginning(&beginning)?;
        Ok(lookahead)
    }

    /// Notes the facts before the first record of a file, where its client has rewritten them, as a title.
    /// The directory stays the one that paths of files begin in.
    fn note_beginning(&mut self, entries: &[SourceEntry]) -> Result<()> {
        let glue = entries.iter().take_while(|entry| entry.kind != SourceKind::Record);
        let mut bytes = Vec::new();
        for entry in glue.take(MAX_BEGINNING) {
            bytes.extend_from_slice(&self.writer.transaction.read_as(Kind::Blob, &entry.blob)?);
            bytes.extend_from_slice(&entry.suffix);
        }
        let mut parser = (self.writer.format().parser)();
        for piece in (self.writer.format().split)(Box::new(bytes.as_slice())) {
            let piece = piece?;
            let mut events = Vec::new();
            if matches!(piece.kind, PieceKind::Trivia { .. }) {
                parser.piece(&piece, &mut events);
            }
            events.retain(|event| !matches!(event, Event::Meta { key, .. } if key == DIRECTORY));
            self.writer.note_facts(&piece, events)?;
        }
        Ok(())
    }

    pub(crate) fn piece(&mut self, piece: &Piece) -> Result<()> {
        let Some(mut forking) = self.forking.take() else {
            let events = self.parse(piece);
            return self.apply(piece, events);
        };
        let step = forking.piece(&self.writer.transaction, piece)?;
        self.forking = Some(forking);
        self.step(step)
    }

    /// Returns true if the file has had nothing but copies of another session's records.
    pub(crate) fn is_copying(&self) -> bool {
        self.forking.as_ref().is_some_and(Forking::is_copying)
    }

    /// The file has no further piece now.
    pub(crate) fn end(&mut self) -> Result<()> {
        let Some(mut forking) = self.forking.take() else { return Ok(()) };
        let step = forking.begin(&self.writer.transaction, None)?;
        self.step(step)
    }

    fn step(&mut self, step: ForkStep) -> Result<()> {
        match step {
            ForkStep::Hold => Ok(()),
            ForkStep::Copied(pieces) => {
                pieces.iter().try_for_each(|CopiedPiece { piece, base }| {
                    let events = self.parse(piece);
                    self.writer.copy(piece, base.as_ref().map(|(list, at)| (list, *at)), events)
                })
            }
            ForkStep::Begins { place, pieces, missing } => {
                if let Some(mut forking) = self.forking.take() {
                    self.anchors.append(&mut forking.anchors());
                }
                match place {
                    Some(place) => self.writer.begin_fork(&place)?,
                    None => self.own_copies()?,
                }
                if let Some((piece, session)) = pieces.first().zip(missing) {
                    let name = BranchName::main(&session).map(|_| session).unwrap_or_default();
                    let what = format!("the beginning is in session {name}, which is not here");
                    self.note(piece, format!("{what}: import that one, and this one again"));
                }
                pieces.iter().try_for_each(|piece| self.piece(piece))
            }
        }
    }

    /// Takes what seemed to be copies for the file's own, since the other session has no turn to go on from.
    fn own_copies(&mut self) -> Result<()> {
        if !self.writer.has_copies() {
            return Ok(());
        }
        let copies = self.writer.take_copies()?;
        let mut bytes = Vec::new();
        SourceReader::new(&self.writer.transaction, &copies, copies.len())
            .read_to_end(&mut bytes)
            .map_err(|error| Error::io("read the copies of another session", error))?;
        self.parser = (self.writer.format().parser)();
        for piece in (self.writer.format().split)(Box::new(bytes.as_slice())) {
            let piece = piece?;
            let events = self.parse(&piece);
            self.apply(&piece, events)?;
        }
        Ok(())
    }

    fn parse(&mut self, piece: &Piece) -> Vec<Event> {
        let mut events = Vec::new();
        self.parser.piece(piece, &mut events);
        events
    }

    /// Applies what the parser made of a piece.
    pub(crate) fn apply(&mut self, piece: &Piece, events: Vec<Event>) -> Result<()> {
        if let PieceKind::Damaged { reason } = &piece.kind {
            self.note(piece, reason.clone());
        }
        for event in &events {
            match event {
                Event::Unknown { what } => self.note(piece, what.clone()),
                Event::Unread { kind } => self.unread.add(kind),
                Event::Compact { .. } | Event::Rearrange { .. } => {
                    self.anchors.extend(record_key(self.writer.format(), piece));
                }
                _ => {}
            }
        }
        self.writer.apply(piece, events, true)
    }

    fn note(&mut self, piece: &Piece, what: String) {
        if self.notes.len() < MAX_NOTES {
            self.notes.push(ImportNote { line: piece.line, offset: piece.offset, what });
        }
    }

    fn finish(
        mut self,
        repo: &Repository,
        options: &ImportOptions,
        branch: BranchName,
        input_bytes: u64,
    ) -> Result<ImportReport> {
        self.end()?;
        let mut events = Vec::new();
        self.parser.finish(&mut events);
        self.writer.finish(events)?;
        if self.is_first {
            refuse_silent(&self.writer)?;
        }
        let Self { mut writer, notes, unread, anchors, origins, .. } = self;
        writer.captures.save(&mut writer.transaction)?;
        let head = imported_tip(&writer.transaction, &branch)?;
        let others = writer.left().into_iter();
        let others =
            others.map(|(branch, head)| ImportedBranch { branch, turns: 0, messages: 0, head });
        let report = ImportReport {
            turns: writer.turns,
            messages: writer.messages,
            input_bytes,
            notes,
            unread,
            others: others.collect(),
            ..ImportReport::unchanged(branch, head, writer.format().name)
        };
        let reason = format!("import {}", options.session);
        let format = writer.format();
        let report = finish_import(repo, writer.transaction, options, &reason, true, report)?;
        origins.add(format, &options.session, &anchors);
        Ok(report)
    }

    /// Notes the records by which forks find a file that is not at its end.
    pub(crate) fn note_anchors(&mut self) {
        let anchors = std::mem::take(&mut self.anchors);
        let (format, session) = (self.writer.format(), self.writer.branch().session());
        self.origins.add(format, session, &anchors);
    }
}
