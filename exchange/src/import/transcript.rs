//! Imports a transcript turn by turn: pieces become a source, events become commits.
//!
//! The store keeps every piece of the file in the `source` section, so a repeated import needs no
//! notes. It compares the file with the sources of the branches of the session.
//!
//! | the file is | result |
//! |---|---|
//! | new to the session | each turn becomes a commit of a new branch |
//! | known, or a prefix of a known file | no change |
//! | a longer version of a branch | the branch gets the new turns |
//! | rewritten after a point | continues from the last common turn; a new branch keeps the rest |
//!
//! Redacted content is imported as its replacement (`redact.rs`), so a file that still has the
//! original content does not count as rewritten.
//!
//! To continue in the middle of a file, the parser first rereads the known part from the store,
//! which restores its state. All changes become visible in one operation at the end.

use std::io::{BufRead, BufReader, Read};
use std::sync::Arc;

use bytes::Bytes;
use turntree::context::sections::{FILES, META};
use turntree::context::{Builder, SourceEntry, SourceKind};
use turntree::error::{Error, Result};
use turntree::object::{Kind, ObjectId, ObjectSource};
use turntree::repo::{BranchName, Repository, Signature, Transaction};

use super::captures::Captures;
use super::finish::{finish_import, imported_tip};
use super::fork::{CopiedPiece, ForkStep, Forking, Origins, RecordKey, record_key};
use super::gap_limit::GapLimit;
use super::redact::redact_pieces;
use super::resume::{BranchScope, KnownFile, Relation, ResumePoint, find_resume_point};
use super::source::{SourceReader, write_piece};
use super::turns::TurnWriter;
use crate::model::event::{Event, Parser};
use crate::model::format::{ImportOptions, RecordFormat};
use crate::model::report::{BASE, ImportNote, ImportReport, MAX_NOTES};
use crate::model::unread::UnreadRecords;
use crate::text::piece::{Piece, PieceKind};

/// Prefix of the actor names of hooks.
const HOOK_ACTOR: &str = "hook/";

/// The fact with the working directory of a session.
const DIRECTORY: &str = "cwd";

/// The most pieces before the first record of a file that are read for facts. A piece has at most
/// 1 MiB.
const MAX_BEGINNING: usize = 4;

/// Imports the uncompressed transcript in `input`. `directory` is the working directory of the
/// session, for formats that do not record it.
///
/// # Errors
/// The errors of [`import`](crate::import).
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
    let mut pieces = redact_pieces(repo, pieces)?.map(|piece| {
        let piece = piece?;
        gap.count(format.side_paths, &piece)?;
        input_bytes += (piece.bytes.len() + piece.suffix.len()) as u64;
        Ok(piece)
    });

    let mut staging = repo.begin();
    let relation = find_resume_point(
        repo,
        BranchScope::Session(&options.session),
        format,
        &mut pieces,
        |piece| write_piece(&mut staging, format.side_paths, piece),
    )?;
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
        run.parser.set_directory(directory);
    }
    let lookahead = run.catch_up(repo, point)?;
    for piece in lookahead.into_iter().map(Ok).chain(&mut pieces) {
        run.piece(&piece?)?;
    }
    drop(pieces);
    run.finish(repo, options, branch, input_bytes)
}

/// Returns the document that the transcript continues: the base, or the document that the base
/// recorded.
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
    id.map(Some).ok_or_else(|| Error::invalid("meta/base is not the id of a snapshot"))
}

/// Returns true if `base` holds nothing of a conversation: it is missing, or has only snapshots of
/// files that a hook took before the client wrote the first record.
pub(super) fn is_conversation_start(repo: &Repository, base: Option<&ObjectId>) -> Result<bool> {
    let Some(base) = base else { return Ok(true) };
    let sections = repo.context(base)?.sections(repo)?;
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

/// Rejects a file if more than a tenth of its messages have no visible content: it has another
/// format, or an unknown version of this format. A single such message may be an answer that was
/// never received.
pub(super) fn reject_silent_file(writer: &TurnWriter<'_>) -> Result<()> {
    let (all, silent, name) = (writer.messages, writer.silent, writer.format().name);
    if silent.saturating_mul(10) <= all || (silent == 1 && all > 1) {
        return Ok(());
    }
    let message = format!(
        "read as {name}, {silent} of {all} messages have no text: the file has another format, or \
         is from an unknown release of it; nothing was imported"
    );
    Err(Error::invalid(message))
}

/// An import in progress.
pub(crate) struct TranscriptImport<'r> {
    pub(crate) parser: Box<dyn Parser + Send>,
    pub(crate) writer: TurnWriter<'r>,
    /// Bytes of the file that the source already had.
    pub(crate) known_bytes: u64,
    /// Pieces that were kept but not understood.
    pub(crate) notes: Vec<ImportNote>,
    /// Records of kinds that the parser does not know.
    pub(crate) unread: UnreadRecords,
    /// True if the file is new to the session.
    pub(crate) is_first: bool,
    /// The search for the session that the file may be a fork of, until it is decided.
    forking: Option<Forking<'r>>,
    /// The records that forks of this file may be matched by.
    anchors: Vec<RecordKey>,
    origins: Arc<Origins>,
}

impl<'r> TranscriptImport<'r> {
    /// Begins an import at `point`, on its branch and from its base.
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
            parser.resume(repo, &repo.context(&document)?)?;
            let id = Bytes::from(document.to_string());
            builder.set_entry(&mut staging, META, BASE, Some(id))?;
        }
        if point.base != staging.tip(&point.branch) {
            staging.move_branch(&point.branch, point.base);
        }
        if let Some(left) = &point.abandoned {
            staging.move_branch(&left.branch, Some(left.tip));
        }
        let captures = Captures::load(repo, point.branch.session())?;
        let branch = point.branch.clone();
        let mut writer = TurnWriter::new(staging, builder, branch, format, stamp, captures);
        if let Some(base) = &point.base {
            writer.continue_from(&repo.context(base)?)?;
        }
        if let Some(left) = &point.abandoned {
            writer.mark_rewound(left);
        }
        let is_new = point.stored.is_empty() && is_conversation_start(repo, point.base.as_ref())?;
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

    /// Continues an import with the parser and writer of the previous one.
    pub(crate) fn resume(parser: Box<dyn Parser + Send>, writer: TurnWriter<'r>) -> Self {
        let (notes, unread) = (Vec::new(), UnreadRecords::default());
        let (anchors, origins) = (Vec::new(), Arc::default());
        let (known_bytes, is_first, forking) = (0, false, None);
        Self { parser, writer, known_bytes, notes, unread, is_first, forking, anchors, origins }
    }

    /// Advances the parser and the context to the last common record. Returns the pieces that were
    /// read beyond it.
    pub(crate) fn catch_up(&mut self, repo: &Repository, point: ResumePoint) -> Result<Vec<Piece>> {
        let ResumePoint { base_pieces, stored, common, keep, mut replacement, lookahead, .. } =
            point;
        if point.restart {
            self.writer.replace_source(0, &[])?;
        }
        let has_other_beginning = keep == 0 && !replacement.is_empty();
        let beginning = if has_other_beginning { replacement.clone() } else { Vec::new() };
        if point.is_detached {
            self.writer.begin_source(&stored, base_pieces)?;
        }
        if keep < base_pieces {
            self.writer.replace_source(keep, &std::mem::take(&mut replacement))?;
        }
        let reader = SourceReader::new(repo, &stored, common);
        let known = (self.writer.format().split)(Box::new(BufReader::new(reader)));
        for (index, piece) in (0..common).zip(known) {
            let (piece, mut events) = (piece?, Vec::new());
            self.known_bytes += (piece.bytes.len() + piece.suffix.len()) as u64;
            self.parser.piece(&piece, &mut events);
            if index >= base_pieces {
                self.writer.apply(&piece, events, index < keep)?;
            } else if point.is_detached {
                self.writer.apply_facts(&piece, events)?;
            }
        }
        if !replacement.is_empty() {
            self.writer.replace_source(keep, &replacement)?;
        }
        self.apply_beginning(&beginning)?;
        Ok(lookahead)
    }

    /// Applies the facts before the first record of a file if its client has rewritten them, such
    /// as a title. Keeps the working directory: it is the root of the stored paths of files.
    fn apply_beginning(&mut self, entries: &[SourceEntry]) -> Result<()> {
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
            self.writer.apply_facts(&piece, events)?;
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
        self.apply_fork_step(step)
    }

    /// Returns true if the file has only had copies of another session's records so far.
    pub(crate) fn is_copying(&self) -> bool {
        self.forking.as_ref().is_some_and(Forking::is_copying)
    }

    /// Handles the current end of the file.
    pub(crate) fn end(&mut self) -> Result<()> {
        let Some(mut forking) = self.forking.take() else { return Ok(()) };
        let step = forking.begin(&self.writer.transaction, None)?;
        self.apply_fork_step(step)
    }

    fn apply_fork_step(&mut self, step: ForkStep) -> Result<()> {
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
                    None => self.import_copies_as_own()?,
                }
                if let Some((piece, session)) = pieces.first().zip(missing) {
                    let name = BranchName::main(&session).map(|_| session).unwrap_or_default();
                    let what =
                        format!("the beginning is in session {name}, which is not in the store");
                    let advice = "import that session first, then this file as another session";
                    self.note(piece, format!("{what}: {advice}"));
                }
                pieces.iter().try_for_each(|piece| self.piece(piece))
            }
        }
    }

    /// Imports supposed copies as records of the file itself, because the other session has no turn
    /// to continue from.
    fn import_copies_as_own(&mut self) -> Result<()> {
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

    /// Applies the events of a piece.
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
        self.writer.finish()?;
        if self.is_first {
            reject_silent_file(&self.writer)?;
        }
        let Self { mut writer, notes, unread, anchors, origins, .. } = self;
        writer.captures.save(&mut writer.transaction)?;
        let head = imported_tip(&writer.transaction, &branch)?;
        let report = ImportReport {
            turns: writer.turns,
            messages: writer.messages,
            input_bytes,
            notes,
            unread,
            others: writer.abandoned_branches(),
            ..ImportReport::unchanged(branch, head, writer.format().name)
        };
        let reason = format!("import {}", options.session);
        let format = writer.format();
        let report = finish_import(repo, writer.transaction, options, &reason, true, report)?;
        origins.add(format, &options.session, &anchors);
        Ok(report)
    }

    /// Records the anchors of a file that has not ended, so that forks can find it.
    pub(crate) fn note_anchors(&mut self) {
        let anchors = std::mem::take(&mut self.anchors);
        let (format, session) = (self.writer.format(), self.writer.branch().session());
        self.origins.add(format, session, &anchors);
    }
}
