//! A format of transcripts: recognises, splits, parses and views its files.

use std::collections::BTreeMap;
use std::io::BufRead;
use std::ops::{Deref, Range};
use std::sync::Arc;

use bytes::Bytes;
use serde_json::Value;
use turntree::context::Builder;
use turntree::error::{Error, Result};
use turntree::object::{ObjectSink, Time, Trigger};
use turntree::repo::{Adoption, BranchName, Repository, Signature};

use super::event::Parser;
use super::record_kind::RecordKind;
use super::report::{ImportNote, ImportReport};
use super::view::MessageView;
use crate::text::json;
use crate::text::piece::Pieces;
use crate::text::shape::JsonShape;

/// How much of a file a format requires before it claims it: of the formats that claim one file, those of
/// the highest rank count.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum FormatRank {
    /// Messages with roles, and nothing else.
    Chat,
    /// The same with blocks that one interface alone has.
    ChatWithBlocks,
    /// Records of a program.
    Program,
    /// Records of a program that writes those of another one with more in them.
    Dialect,
}

/// A format of transcripts, documents or archives.
#[derive(Debug, Clone, Copy)]
pub struct Format {
    /// The name in commands: lower case with hyphens.
    pub name: &'static str,
    /// The name for people: the program that writes it, and its kind of file.
    pub title: &'static str,
    /// Where it stands among formats that claim the same file.
    pub rank: FormatRank,
    /// Returns whether a value at the beginning of a file is of this format.
    pub recognise: fn(&JsonShape<'_>) -> bool,
    /// Returns the view of a message, parsed.
    pub view: fn(&Value) -> MessageView,
    /// The way in which its files are read.
    pub reader: FormatReader,
}

impl Format {
    /// Returns whether each file of it is one turn, which replaces the state before it.
    #[must_use]
    pub fn is_document(&self) -> bool {
        matches!(self.reader, FormatReader::Document(_))
    }
}

/// The way in which the files of a format are read.
#[derive(Debug, Clone, Copy)]
pub enum FormatReader {
    /// Record by record: a transcript, which grows at its end.
    Records(Records),
    /// At once, as one state that replaces the state before it.
    Document(DocumentReader),
    /// At once, as several histories.
    Archive(ArchiveImporter),
}

/// Splits a file into pieces.
pub type Splitter = for<'r> fn(Box<dyn BufRead + 'r>) -> Pieces<'r>;

/// The reader of a transcript, record by record.
#[derive(Debug, Clone, Copy)]
pub struct Records {
    /// Splits a file into pieces.
    pub split: Splitter,
    /// Makes a parser for one file.
    pub parser: fn() -> Box<dyn Parser + Send>,
    /// Paths of elements that stand beside the conversation and do not grow at its end.
    pub side_paths: &'static [&'static str],
    /// The format of documents that a transcript of this one may continue, in the same session.
    pub continues: Option<&'static str>,
    /// The way in which records name the session that they come from, where they do.
    pub lineage: Option<Lineage>,
    /// The kinds of records that its client writes, for a format that names kinds; the reader counts
    /// records of others.
    pub kinds: &'static [RecordKind],
}

impl Records {
    /// A reader with nothing but a way to split files and a parser.
    #[must_use]
    pub const fn new(split: Splitter, parser: fn() -> Box<dyn Parser + Send>) -> Self {
        Self { split, parser, side_paths: &[], continues: None, lineage: None, kinds: &[] }
    }
}

impl Format {
    /// The reader of its records.
    ///
    /// # Errors
    /// `InvalidInput` for a format whose files are read at once.
    pub fn records(&self) -> Result<&Records> {
        match &self.reader {
            FormatReader::Records(records) => Ok(records),
            FormatReader::Document(_) | FormatReader::Archive(_) => {
                let message = format!("{} is read at once, not record by record", self.name);
                Err(Error::invalid(message))
            }
        }
    }
}

/// A format whose files are read record by record.
#[derive(Debug, Clone, Copy)]
pub(crate) struct RecordFormat {
    pub(crate) name: &'static str,
    view: fn(&Value) -> MessageView,
    records: &'static Records,
}

impl RecordFormat {
    /// The format, if it has records.
    ///
    /// # Errors
    /// `InvalidInput` for a format whose files are read at once.
    pub(crate) fn of(format: &'static Format) -> Result<Self> {
        Ok(Self { name: format.name, view: format.view, records: format.records()? })
    }

    /// Returns whether a message of the user, kept as `media`, is a prompt; one of another format
    /// is taken for one.
    pub(crate) fn is_prompt(&self, media: &str, bytes: &[u8]) -> bool {
        let value = if media == self.name { json::value(bytes) } else { None };
        value.is_none_or(|value| (self.view)(&value).is_prompt())
    }
}

impl Deref for RecordFormat {
    type Target = Records;

    fn deref(&self) -> &Records {
        self.records
    }
}

/// The way in which records of a format name the session that they come from.
#[derive(Debug, Clone, Copy)]
pub struct Lineage {
    /// The id of a record, which a copy of it in another file has too. Without one a copy is recognised by
    /// all of it but its volatile values.
    pub id: Option<fn(&Value) -> Option<&str>>,
    /// The session of a record.
    pub origin: fn(&Value) -> RecordOrigin,
    /// An id in a record that no record of another session has but a copy; nothing for a format in which
    /// ids are short or counted.
    pub identity: Option<fn(&Value) -> Option<&str>>,
    /// Returns whether a record is a summary of a conversation, which another session has as a copy alone.
    pub is_summary: fn(&Value) -> bool,
    /// Members at the top of a record, before the first object or array, that a copy may have otherwise.
    pub volatile: &'static [&'static str],
}

impl Lineage {
    /// The lineage of a format whose copies keep the ids of records.
    #[must_use]
    pub const fn by_id(id: fn(&Value) -> Option<&str>, origin: fn(&Value) -> RecordOrigin) -> Self {
        Self { id: Some(id), origin, identity: Some(id), is_summary: |_| false, volatile: &[] }
    }
}

/// The part of a file that another one goes on from.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct PiecesBefore {
    /// Its bytes.
    pub bytes: Option<u64>,
    /// The field that numbers records, and the number of the first record behind the part. A fork
    /// numbers its records on from there, so a number counts no records of a file.
    pub ordinal: Option<(&'static str, u64)>,
}

/// The session that a record comes from.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum RecordOrigin {
    /// The record does not say.
    Unknown,
    /// The session of its file, and no other.
    Here,
    /// Another session.
    From {
        /// The name of that session, or the end of its name.
        session: String,
        /// The part of its file that comes before this one, for a file that has no copies of it.
        pieces: Option<PiecesBefore>,
    },
    /// Another session as it was behind one of its records, of which this file has no copies.
    Behind {
        /// As of [`RecordOrigin::From`].
        session: String,
        /// The id of that record.
        record: String,
    },
}

/// Reads a document: replaces the sections that it holds, and returns the facts beside them.
pub type DocumentReader = fn(&mut dyn ObjectSink, &mut Builder, &Bytes) -> Result<DocumentFacts>;

/// Imports the histories in a file, each to a session or branch of its own.
pub type ArchiveImporter = fn(&Repository, Bytes, &ImportOptions) -> Result<ImportReport>;

/// The format and session of an import, and its signature.
#[derive(Debug, Clone)]
pub struct ImportOptions {
    /// The format, when it is known; else it is detected from the content.
    pub format: Option<&'static Format>,
    /// The session it becomes, or continues.
    pub session: String,
    /// The branch that a document goes on which is one turn of a conversation; main of the session by
    /// default. Transcripts name branches themselves.
    pub branch: Option<BranchName>,
    /// The author and time of the import. Records without a time get this one.
    pub stamp: Signature,
    /// Point HEAD at the imported branch even when HEAD's own branch has snapshots.
    pub switch: bool,
    /// The adoption that it is part of, which one undo takes back.
    pub adoption: Option<Arc<Adoption>>,
}

/// Facts of a document beside its sections.
#[derive(Debug, Clone, Default)]
pub struct DocumentFacts {
    /// Messages in it.
    pub messages: u64,
    /// When it was made, if it says so.
    pub time: Option<Time>,
    /// Why it was made, if it says so.
    pub trigger: Option<Trigger>,
    /// The model that spoke; empty when it does not say so.
    pub model: String,
    /// One line for people.
    pub title: String,
    /// The suffix of the session that the document goes to, such as `.modes`. Empty for a part of
    /// the conversation.
    pub beside: &'static str,
    /// Further metadata of the commit.
    pub metadata: BTreeMap<String, String>,
    /// The byte ranges of its messages, in order, without overlap.
    pub records: Vec<Range<usize>>,
    /// Oddities that were tolerated.
    pub notes: Vec<ImportNote>,
}
