//! Documents that are a whole state: each file is one turn, and what it says replaces what was there.
//!
//! A transcript grows at its end and is read piece by piece. A snapshot of a framework says all it
//! knows at once, so it is read whole and checked before anything is written. Its bytes still become
//! pieces of the `source` section, cut where messages lie, so that both share their blobs.

use std::collections::BTreeMap;
use std::io::BufRead;
use std::ops::Range;

use bytes::Bytes;

use super::document::MAX_RECORD_BYTES;
use super::event::{Event, Parser};
use super::format::Format;
use super::import::{BASE, ImportNote, ImportOptions, ImportReport};
use super::piece::Piece;
use super::source::SOURCE;
use crate::context::{Builder, Context, SourceEntry, SourceKind};
use crate::error::{Error, Result};
use crate::object::{Author, Kind, ObjectId, ObjectSink, Time, Trigger};
use crate::repo::vfs::take_over;
use crate::repo::{BranchName, LogEntry, Repository, Snapshot};

/// Longest glue piece, in bytes.
const MAX_PIECE_BYTES: usize = 1 << 20;

/// The parser of a document that is read as a whole: it says nothing piece by piece.
pub(super) struct Silent;

impl Parser for Silent {
    fn piece(&mut self, _: &Piece, _: &mut Vec<Event>) {}
}

/// Reads a document: the sections it replaces, and what there is to say about it.
pub type Whole = fn(&mut dyn ObjectSink, &mut Builder, &Bytes) -> Result<WholeDocument>;

/// Imports the histories in a file, each to a session or branch of its own.
pub type Archive = fn(&Repository, Bytes, &ImportOptions) -> Result<ImportReport>;

/// What a document is, beside its sections.
#[derive(Debug, Clone, Default)]
pub struct WholeDocument {
    /// Messages in it.
    pub messages: u64,
    /// When it was made, if it says so.
    pub time: Option<Time>,
    /// One line for people.
    pub title: String,
    /// What else the commit is to say.
    pub metadata: BTreeMap<String, String>,
    /// Where its messages lie, in order, none in another.
    pub records: Vec<Range<usize>>,
    /// What is odd about it, and was tolerated.
    pub notes: Vec<ImportNote>,
}

/// Imports a document as one commit, on top of the session's main branch.
///
/// # Errors
/// `InvalidInput` naming the place of what is wrong, `LimitExceeded` for a document over
/// [`MAX_RECORD_BYTES`]. The store is then as it was.
pub(super) fn import_whole(
    repo: &Repository,
    read: Whole,
    format: &'static Format,
    input: impl BufRead,
    options: &ImportOptions,
) -> Result<ImportReport> {
    let document = read_all(input)?;
    let branch = BranchName::main(&options.session)?;
    let mut transaction = repo.begin();
    let tip = transaction.tip(&branch);
    let parent = match tip {
        Some(tip) => repo.context(&tip)?,
        None => Context::default(),
    };
    let mut builder = Builder::from(parent);
    let read = read(&mut transaction, &mut builder, &document)?;
    write_source(&mut transaction, &mut builder, &document, &read.records)?;
    let name = Bytes::from_static(format.name.as_bytes());
    builder.set_entry(&mut transaction, "meta", "format", Some(name))?;
    builder.set_entry(&mut transaction, "meta", BASE, None)?;
    take_over(&mut transaction, &mut builder)?;
    let tree = builder.write(&mut transaction)?;
    let source = Context::open(&transaction, &tree)?.section(&transaction, SOURCE)?;
    let known = match tip {
        Some(tip) => find_source(repo, &tip, source.map(|section| section.id))?,
        None => None,
    };
    let mut report = ImportReport {
        branch: branch.clone(),
        format: format.name,
        turns: 0,
        messages: 0,
        head: tree,
        input_bytes: document.len() as u64,
        new_bytes: 0,
        notes: read.notes,
        others: Vec::new(),
    };
    let mut reason = format!("import {}", options.session);
    if let (Some(_), Some(tip)) = (known, tip) {
        drop(transaction);
        report.head = tip;
        if !options.switch || repo.head()?.branch == branch {
            return Ok(report);
        }
        transaction = repo.begin();
        reason = format!("switch {branch}");
    } else {
        let author = Author { agent: format.name.to_owned(), model: String::new() };
        let time = read.time.unwrap_or(options.stamp.time);
        let (trigger, message, metadata) = (Trigger::Turn, read.title, read.metadata);
        let snapshot = Snapshot { tree, author, time, trigger, message, metadata };
        report.head = transaction.snapshot(&branch, snapshot)?;
        (report.turns, report.messages) = (1, read.messages);
    }
    if options.switch || repo.head()?.commit.is_none() {
        transaction.switch(&branch);
    }
    report.new_bytes = transaction.finish(&options.stamp, &reason)?.written.stored_bytes;
    Ok(report)
}

/// All of a document.
///
/// # Errors
/// `LimitExceeded` for one over [`MAX_RECORD_BYTES`].
pub(super) fn read_all(input: impl BufRead) -> Result<Bytes> {
    let mut bytes = Vec::new();
    let mut input = input.take(MAX_RECORD_BYTES as u64 + 1);
    std::io::Read::read_to_end(&mut input, &mut bytes)
        .map_err(|error| Error::io("read the document", error))?;
    if bytes.len() > MAX_RECORD_BYTES {
        let (limit, found) = (MAX_RECORD_BYTES as u64, bytes.len() as u64);
        return Err(Error::limit("bytes of the document", limit, found));
    }
    Ok(bytes.into())
}

/// Makes `source` the document, cut at its records.
pub(super) fn write_source(
    sink: &mut dyn ObjectSink,
    builder: &mut Builder,
    document: &Bytes,
    records: &[Range<usize>],
) -> Result<()> {
    let mut pieces = Vec::new();
    let mut at = 0;
    let end = document.len()..document.len();
    for record in records.iter().chain([&end]) {
        while at < record.start {
            let stop = record.start.min(at + MAX_PIECE_BYTES);
            pieces.push((SourceKind::Glue, at..stop));
            at = stop;
        }
        if record.end > at {
            pieces.push((SourceKind::Record, record.clone()));
            at = record.end;
        }
    }
    let mut items = Vec::with_capacity(pieces.len());
    for (kind, range) in pieces {
        let blob = sink.write(Kind::Blob, document.slice(range))?;
        items.push(SourceEntry { blob, kind, suffix: Bytes::new() }.to_item()?);
    }
    builder.set_list(sink, SOURCE, items)
}

/// The commit on the line of `tip` that has this source: sections of equal content have equal ids.
fn find_source(
    repo: &Repository,
    tip: &ObjectId,
    source: Option<ObjectId>,
) -> Result<Option<ObjectId>> {
    for entry in repo.history(&[*tip], &[])?.first_parent() {
        let LogEntry { id, commit, .. } = entry?;
        if repo.store().gone(&commit.tree).is_some() {
            continue;
        }
        let found = repo.context(&id)?.section(repo.store(), SOURCE)?;
        if found.map(|section| section.id) == source {
            return Ok(Some(id));
        }
    }
    Ok(None)
}
