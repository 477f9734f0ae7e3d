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
//! | rewritten after some point | a new branch from the last common turn; the old one stays |
//!
//! What was redacted from the store comes in as what stands for it there (`redacted.rs`), so a file that
//! still has it is no rewritten one.
//!
//! To go on in the middle, the parser first reads the stored beginning again, from the store, so it
//! knows what it would have known. Everything becomes visible in one operation at the end.

use std::io::{BufRead, BufReader, Cursor, Read};

use bytes::Bytes;

use super::between::Between;
use super::captures::Captures;
use super::detect::detect;
use super::event::{Event, Parser};
use super::fork::{Forking, Step};
use super::format::Format;
use super::piece::{Piece, PieceKind};
use super::redacted::redacted;
use super::rejoin::{Joint, Relation, rejoin};
use super::source::SourceReader;
use super::turns::TurnWriter;
use super::unpack::unpacked;
use super::unread::Unread;
use super::whole::{import_whole, read_all};
use crate::context::Builder;
use crate::error::{Error, Result};
use crate::object::{Kind, ObjectId, ObjectSource};
use crate::repo::{BranchName, Repository, Stamp, Transaction};

const META: &str = "meta";

/// The entry of `meta` with the commit of the document that a transcript goes on from.
pub(super) const BASE: &str = "base";

/// Most notes an import reports one by one.
const MAX_NOTES: usize = 1000;

/// What to import, and as what.
#[derive(Debug, Clone)]
pub struct ImportOptions {
    /// The format, when it is known; else it is detected from the content.
    pub format: Option<&'static Format>,
    /// The session it becomes, or continues.
    pub session: String,
    /// Who imports, and when. Records without a time get this one.
    pub stamp: Stamp,
    /// Point HEAD at the imported branch even when HEAD's own branch has snapshots.
    pub switch: bool,
}

/// What an import did.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ImportReport {
    /// The branch that has the file now.
    pub branch: BranchName,
    /// The format it was read as.
    pub format: &'static str,
    /// Commits made: turns and compactions.
    pub turns: u64,
    /// Messages in these turns.
    pub messages: u64,
    /// The newest commit of the branch.
    pub head: ObjectId,
    /// Bytes of the file.
    pub input_bytes: u64,
    /// Bytes the store grew by.
    pub new_bytes: u64,
    /// Pieces that are kept but were not understood, at most 1,000 of them.
    pub notes: Vec<ImportNote>,
    /// Further branches that got something, for a file that holds several histories.
    pub others: Vec<ImportedBranch>,
}

/// What an import put on a branch.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ImportedBranch {
    /// The branch.
    pub branch: BranchName,
    /// Commits made.
    pub turns: u64,
    /// Messages in them.
    pub messages: u64,
    /// The newest commit of the branch.
    pub head: ObjectId,
}

/// A piece that is kept but was not understood.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ImportNote {
    /// Line of the file, from 1.
    pub line: u64,
    /// Offset in the file.
    pub offset: u64,
    /// What was expected and found.
    pub what: String,
}

/// Imports a transcript, also one that is compressed with zstd: what is stored is what it unpacks to.
/// Memory: the largest record, and a few MiB; 8 MiB more to unpack it.
///
/// # Errors
/// `Io` for a compressed one that is damaged or grows beyond measure; `InvalidInput` for an empty file
/// or an unknown format, naming what was looked for; `LimitExceeded` for a record over the limit, and
/// for an input without another record for 2^18 pieces or 1 GiB, naming the line; `Conflict` when
/// another process moved the branch meanwhile. The store is then as it was.
pub fn import(
    repo: &Repository,
    input: impl BufRead,
    options: &ImportOptions,
) -> Result<ImportReport> {
    import_from(repo, input, options, None)
}

/// As [`import`], for a transcript whose working directory is known from somewhere else. It counts for
/// formats that do not say it themselves.
///
/// # Errors
/// Those of [`import`].
pub fn import_from(
    repo: &Repository,
    input: impl BufRead,
    options: &ImportOptions,
    directory: Option<&str>,
) -> Result<ImportReport> {
    let (head, input) = unpacked(Box::new(input))?;
    if head.is_empty() {
        return Err(Error::invalid("the file is empty: expected a transcript"));
    }
    let format = match options.format {
        Some(format) => format,
        None => detect(&head)?,
    };
    if let Some(import) = format.archive {
        return import(repo, read_all(Cursor::new(head).chain(input))?, options);
    }
    if format.whole.is_some() {
        return import_whole(repo, format, Cursor::new(head).chain(input), options);
    }
    let mut input_bytes = 0;
    let mut between = Between::default();
    let pieces = (format.cut)(Box::new(Cursor::new(head).chain(input)));
    let mut pieces = redacted(repo, pieces)?.map(|piece| {
        let piece = piece?;
        between.pass(format, &piece)?;
        input_bytes += (piece.bytes.len() + piece.suffix.len()) as u64;
        Ok(piece)
    });

    let mut staging = repo.begin();
    let relation = rejoin(repo, &options.session, format, &mut pieces, |piece| {
        super::turns::write_piece(&mut staging, format, piece)
    })?;
    let joint = match relation {
        Relation::Joined(joint) => *joint,
        Relation::Known(branch, head) => {
            drop(pieces);
            return known(repo, options, branch, head, format, input_bytes);
        }
    };
    let branch = joint.branch.clone();
    let mut run = Run::begin(repo, staging, format, &joint, options.stamp.clone())?;
    if let Some(directory) = directory {
        run.parser.worked_in(directory);
    }
    let ahead = run.catch_up(repo, joint)?;
    for piece in ahead.into_iter().map(Ok).chain(&mut pieces) {
        run.piece(&piece?)?;
    }
    drop(pieces);
    run.finish(repo, options, branch, input_bytes)
}

/// The document whose state the transcript goes on from: what it joins, or what that went on from.
fn document_below(repo: &Repository, format: &Format, joint: &Joint) -> Result<Option<ObjectId>> {
    let (Some(_), Some(base)) = (format.continues, joint.base) else { return Ok(None) };
    if joint.anew {
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

/// An import under way.
pub(super) struct Run<'r> {
    pub(super) parser: Box<dyn Parser + Send>,
    pub(super) writer: TurnWriter<'r>,
    /// Bytes of the file that were in the source already.
    pub(super) known_bytes: u64,
    notes: Vec<ImportNote>,
    unread: Unread,
    /// What the file may be a fork of, until that is known.
    forking: Option<Forking>,
}

impl<'r> Run<'r> {
    /// An import that goes on at `joint`, on its branch and from its base.
    pub(super) fn begin(
        repo: &'r Repository,
        mut staging: Transaction<'r>,
        format: &'static Format,
        joint: &Joint,
        stamp: Stamp,
    ) -> Result<Self> {
        let mut builder = match &joint.base {
            Some(base) => Builder::from(repo.context(base)?),
            None => Builder::new(),
        };
        let mut parser = (format.parser)();
        if let Some(document) = document_below(repo, format, joint)? {
            parser.resume(repo.store(), &repo.context(&document)?)?;
            let id = Bytes::from(document.to_string());
            builder.set_entry(&mut staging, META, BASE, Some(id))?;
        }
        if joint.base != staging.tip(&joint.branch) {
            staging.move_branch(&joint.branch, joint.base);
        }
        if let Some((name, tip)) = &joint.left {
            staging.move_branch(name, Some(*tip));
        }
        let captures = Captures::load(repo, joint.branch.session())?;
        let branch = joint.branch.clone();
        let mut writer = TurnWriter::new(staging, builder, branch, format, stamp, captures);
        writer.left.extend(joint.left.iter().map(|(name, _)| name.clone()));
        let is_new = joint.base.is_none() && joint.stored.is_empty();
        let forking = if is_new { Forking::new(format) } else { None };
        let (notes, unread) = (Vec::new(), Unread::default());
        Ok(Self { parser, writer, known_bytes: 0, notes, unread, forking })
    }

    /// An import that goes on where another one stopped, whose parser had come to `parser`.
    pub(super) fn resume(parser: Box<dyn Parser + Send>, writer: TurnWriter<'r>) -> Self {
        let (notes, unread) = (Vec::new(), Unread::default());
        Self { parser, writer, known_bytes: 0, notes, unread, forking: None }
    }

    /// Brings parser and context to the last common record, and returns the pieces read beyond it.
    pub(super) fn catch_up(&mut self, repo: &Repository, joint: Joint) -> Result<Vec<Piece>> {
        let Joint { base_pieces, stored, common, keep, mut instead, ahead, .. } = joint;
        if joint.anew {
            self.writer.replace_source(0, &[])?;
        }
        if joint.apart {
            self.writer.begin_source(&stored, base_pieces)?;
        }
        if keep < base_pieces {
            self.writer.replace_source(keep, &std::mem::take(&mut instead))?;
        }
        let reader = SourceReader::new(repo.store(), &stored, common);
        let known = (self.writer.format().cut)(Box::new(BufReader::new(reader)));
        for (index, piece) in (0..common).zip(known) {
            let (piece, mut events) = (piece?, Vec::new());
            self.known_bytes += (piece.bytes.len() + piece.suffix.len()) as u64;
            self.parser.piece(&piece, &mut events);
            if index >= base_pieces {
                self.writer.apply(&piece, events, index < keep)?;
            } else if joint.apart {
                self.writer.note_facts(&piece, events)?;
            }
        }
        if !instead.is_empty() {
            self.writer.replace_source(keep, &instead)?;
        }
        Ok(ahead)
    }

    pub(super) fn piece(&mut self, piece: &Piece) -> Result<()> {
        let Some(mut forking) = self.forking.take() else {
            let events = self.parse(piece);
            return self.apply(piece, events);
        };
        let step = forking.piece(&self.writer.transaction, piece)?;
        self.forking = Some(forking);
        self.step(step)
    }

    /// Whether the file has had nothing but copies of another session's records.
    pub(super) fn is_copying(&self) -> bool {
        self.forking.as_ref().is_some_and(Forking::is_copying)
    }

    /// The file has no further piece now.
    pub(super) fn end(&mut self) -> Result<()> {
        let Some(mut forking) = self.forking.take() else { return Ok(()) };
        let step = forking.begin(&self.writer.transaction, None)?;
        self.step(step)
    }

    fn step(&mut self, step: Step) -> Result<()> {
        match step {
            Step::Hold => Ok(()),
            Step::Copied(pieces) => pieces.iter().try_for_each(|piece| {
                let events = self.parse(piece);
                self.writer.copy(piece, events)
            }),
            Step::Begins { place, pieces, missing } => {
                self.forking = None;
                if let Some(place) = place {
                    self.writer.begin_fork(&place)?;
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

    fn parse(&mut self, piece: &Piece) -> Vec<Event> {
        let mut events = Vec::new();
        self.parser.piece(piece, &mut events);
        events
    }

    /// Applies what the parser made of a piece.
    pub(super) fn apply(&mut self, piece: &Piece, events: Vec<Event>) -> Result<()> {
        if let PieceKind::Damaged { reason } = &piece.kind {
            self.note(piece, reason.clone());
        }
        for event in &events {
            match event {
                Event::Unknown { what } => self.note(piece, what.clone()),
                Event::Unread { kind } => self.unread.add(piece, kind),
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
        let Self { mut writer, mut notes, unread, .. } = self;
        notes.extend(unread.note());
        writer.captures.save(&mut writer.transaction)?;
        if options.switch || repo.tip(&repo.shared_head()?).is_none() {
            writer.transaction.switch(&branch);
        }
        let head = writer.transaction.tip(&branch);
        let left = writer.left().into_iter();
        let left =
            left.map(|(branch, head)| ImportedBranch { branch, turns: 0, messages: 0, head });
        let others = left.collect();
        let (format, turns, messages) = (writer.format(), writer.turns, writer.messages);
        let reason = format!("import {}", options.session);
        let committed = writer.transaction.finish(&options.stamp, &reason)?;
        let head = head.ok_or_else(|| Error::invalid("the transcript holds no record"))?;
        let new_bytes = committed.written.stored_bytes;
        let format = format.name;
        Ok(ImportReport {
            branch,
            format,
            turns,
            messages,
            head,
            input_bytes,
            new_bytes,
            notes,
            others,
        })
    }
}

/// Reports a file that is known already; HEAD moves when that is wanted.
fn known(
    repo: &Repository,
    options: &ImportOptions,
    branch: BranchName,
    head: ObjectId,
    format: &'static Format,
    input_bytes: u64,
) -> Result<ImportReport> {
    let mut new_bytes = 0;
    if options.switch && repo.head()?.branch != branch {
        let mut transaction = repo.begin();
        transaction.switch(&branch);
        new_bytes =
            transaction.finish(&options.stamp, &format!("switch {branch}"))?.written.stored_bytes;
    }
    Ok(ImportReport {
        branch,
        format: format.name,
        turns: 0,
        messages: 0,
        head,
        input_bytes,
        new_bytes,
        notes: Vec::new(),
        others: Vec::new(),
    })
}
