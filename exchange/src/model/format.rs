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

/// The rank of a format by how much it requires of a file before it claims it. If several formats
/// claim a file, only those of the highest rank count.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum FormatRank {
    /// Messages with roles, and nothing else.
    Chat,
    /// Messages with roles and blocks that only one API has.
    ChatWithBlocks,
    /// Records of a program.
    Program,
    /// Records of a program that extends the records of another program.
    Dialect,
}

/// A format of transcripts, documents or archives.
#[derive(Debug, Clone, Copy)]
pub struct Format {
    /// The name in commands: lowercase with hyphens.
    pub name: &'static str,
    /// The display name: the program that writes it, and its kind of file.
    pub title: &'static str,
    /// The rank among formats that claim the same file.
    pub rank: FormatRank,
    /// Returns true if a value at the start of a file is of this format.
    pub recognise: fn(&JsonShape<'_>) -> bool,
    /// Returns the view of a parsed message.
    pub view: fn(&Value) -> MessageView,
    /// The reader of its files.
    pub reader: FormatReader,
}

impl Format {
    /// Returns true if each file is one turn that replaces the previous state.
    #[must_use]
    pub fn is_document(&self) -> bool {
        matches!(self.reader, FormatReader::Document(_))
    }
}

/// The reader of the files of a format.
#[derive(Debug, Clone, Copy)]
pub enum FormatReader {
    /// Reads a transcript, which grows at its end, record by record.
    Records(Records),
    /// Reads a file as one state that replaces the previous state.
    Document(DocumentReader),
    /// Reads a file as several histories.
    Archive(ArchiveImporter),
}

/// Splits a file into pieces.
pub type Splitter = for<'r> fn(Box<dyn BufRead + 'r>) -> Pieces<'r>;

/// The reader of a transcript, record by record.
#[derive(Debug, Clone, Copy)]
pub struct Records {
    /// Splits a file into pieces.
    pub split: Splitter,
    /// Creates a parser for one file.
    pub parser: fn() -> Box<dyn Parser + Send>,
    /// Paths of elements that are not part of the conversation and do not grow at their end.
    pub side_paths: &'static [&'static str],
    /// The format of documents that a transcript of this format may continue in the same session.
    pub continues: Option<&'static str>,
    /// The way in which records name their original session, if they do.
    pub lineage: Option<Lineage>,
    /// The kinds of records that its client writes, if the format names kinds. The reader counts
    /// records of other kinds.
    pub kinds: &'static [RecordKind],
}

impl Records {
    /// Creates a reader from only a splitter and a parser.
    #[must_use]
    pub const fn new(split: Splitter, parser: fn() -> Box<dyn Parser + Send>) -> Self {
        Self { split, parser, side_paths: &[], continues: None, lineage: None, kinds: &[] }
    }
}

impl Format {
    /// Returns the reader of its records.
    ///
    /// # Errors
    /// `InvalidInput` for a format whose files are read as a whole.
    pub fn records(&self) -> Result<&Records> {
        match &self.reader {
            FormatReader::Records(records) => Ok(records),
            FormatReader::Document(_) | FormatReader::Archive(_) => {
                let message = format!("{} is read as a whole, not record by record", self.name);
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
    /// Returns the format, if it has records.
    ///
    /// # Errors
    /// `InvalidInput` for a format whose files are read as a whole.
    pub(crate) fn of(format: &'static Format) -> Result<Self> {
        Ok(Self { name: format.name, view: format.view, records: format.records()? })
    }

    /// Returns true if a message of the user, stored as `media`, is a prompt. Messages of other
    /// formats count as prompts.
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

/// The way in which records of a format name their original session.
#[derive(Debug, Clone, Copy)]
pub struct Lineage {
    /// Returns the id of a record, which copies in other files share. `None` to recognise copies by
    /// all of their content except for volatile values.
    pub id: Option<fn(&Value) -> Option<&str>>,
    /// Returns the session of a record.
    pub origin: fn(&Value) -> RecordOrigin,
    /// Returns an id that only copies of the record share. `None` for a format with short or
    /// sequential ids.
    pub identity: Option<fn(&Value) -> Option<&str>>,
    /// Returns true if a record is the summary of a conversation. Another session can have it only
    /// as a copy.
    pub is_summary: fn(&Value) -> bool,
    /// Top-level members of a record, before the first object or array, that may differ in a copy.
    pub volatile: &'static [&'static str],
}

impl Lineage {
    /// Returns the lineage of a format whose copies keep the record ids.
    #[must_use]
    pub const fn by_id(id: fn(&Value) -> Option<&str>, origin: fn(&Value) -> RecordOrigin) -> Self {
        Self { id: Some(id), origin, identity: Some(id), is_summary: |_| false, volatile: &[] }
    }
}

/// The part of a file that another file continues from.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct FilePrefix {
    /// The size of the part in bytes.
    pub bytes: Option<u64>,
    /// The field that numbers records, and the number of the first record after the part. A fork
    /// continues the numbering, so the number is not the position in its file.
    pub ordinal: Option<(&'static str, u64)>,
}

/// The original session of a record.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum RecordOrigin {
    /// Not recorded.
    Unknown,
    /// The session of its file.
    OwnSession,
    /// Another session.
    OtherSession {
        /// The name of that session, or the end of its name.
        session: String,
        /// The part of that session's file that precedes this file, if this file has no copies of
        /// it.
        pieces: Option<FilePrefix>,
    },
    /// Another session in its state after one of its records, if this file has no copies of it.
    AfterRecord {
        /// The name of that session, as in [`RecordOrigin::OtherSession`].
        session: String,
        /// The id of that record.
        record: String,
    },
}

/// Reads a document: replaces the sections that it holds, and returns the other facts.
pub type DocumentReader = fn(&mut dyn ObjectSink, &mut Builder, &Bytes) -> Result<DocumentFacts>;

/// Imports the histories in a file, each to its own session or branch.
pub type ArchiveImporter = fn(&Repository, Bytes, &ImportOptions) -> Result<ImportReport>;

/// The format and session of an import, and its signature.
#[derive(Debug, Clone)]
pub struct ImportOptions {
    /// The format. `None` to detect it from the content.
    pub format: Option<&'static Format>,
    /// The session to create or continue.
    pub session: String,
    /// The branch for a document that is one turn of a conversation. By default the main branch of
    /// the session. Transcripts name branches themselves.
    pub branch: Option<BranchName>,
    /// The author and time of the import, and the time for records without one.
    pub stamp: Signature,
    /// True to point HEAD to the imported branch even if the branch of HEAD has snapshots.
    pub switch: bool,
    /// The adoption that the import is part of. A single undo reverts the adoption.
    pub adoption: Option<Arc<Adoption>>,
}

/// Facts of a document besides its sections.
#[derive(Debug, Clone, Default)]
pub struct DocumentFacts {
    /// The number of messages.
    pub messages: u64,
    /// The time of the document, if recorded.
    pub time: Option<Time>,
    /// The trigger of the document, if recorded.
    pub trigger: Option<Trigger>,
    /// The model. Empty if not recorded.
    pub model: String,
    /// The title in one line.
    pub title: String,
    /// The suffix for the name of the session, such as `.modes`. Empty for a part of the
    /// conversation.
    pub session_suffix: &'static str,
    /// Further metadata of the commit.
    pub metadata: BTreeMap<String, String>,
    /// The byte ranges of its messages, in order, without overlap.
    pub records: Vec<Range<usize>>,
    /// Tolerated irregularities.
    pub notes: Vec<ImportNote>,
}
