//! What there is to know about a transcript format: how to recognise, cut, understand and view it.

use std::collections::BTreeMap;
use std::io::BufRead;
use std::ops::Range;

use bytes::Bytes;
use serde_json::Value;
use turntree::context::Builder;
use turntree::error::Result;
use turntree::object::{ObjectSink, Time, Trigger};
use turntree::repo::{Repository, Stamp};

use super::event::{Event, Parser};
use super::report::{ImportNote, ImportReport};
use super::view::MessageView;
use crate::text::piece::{Piece, Pieces};
use crate::text::shape::Shape;

/// What there is to know about a format.
#[derive(Debug, Clone, Copy)]
pub struct Format {
    /// The name in commands: lower case with hyphens.
    pub name: &'static str,
    /// What writes it, for people.
    pub title: &'static str,
    /// Whether a value at the beginning of a file is of this format.
    pub recognise: fn(&Shape<'_>) -> bool,
    /// The pieces of a file.
    pub cut: for<'r> fn(Box<dyn BufRead + 'r>) -> Pieces<'r>,
    /// Cut elements that stand beside the conversation and do not grow at its end.
    pub asides: &'static [&'static str],
    /// A parser for one file.
    pub parser: fn() -> Box<dyn Parser + Send>,
    /// The view of a message, parsed.
    pub view: fn(&Value) -> MessageView,
    /// For documents that are a whole state, read at once: what they become. Nothing for transcripts,
    /// which are read piece by piece.
    pub whole: Option<Whole>,
    /// For files that hold several histories, read at once: what imports them.
    pub archive: Option<Archive>,
    /// The format of documents that a transcript of this one may go on from, in the same session.
    pub continues: Option<&'static str>,
    /// How its records tell that they go on from another session, where they do.
    pub lineage: Option<Lineage>,
    /// Whether its client takes messages out when a person goes back: what a file has now is then the
    /// line that lives, and what it had is left.
    pub is_rewritten: bool,
}

/// How records of a format tell what session they come from.
#[derive(Debug, Clone, Copy)]
pub struct Lineage {
    /// The id of a record, which a copy of it in another file has too.
    pub id: fn(&Value) -> Option<&str>,
    /// Where a record comes from.
    pub origin: fn(&Value) -> Told,
}

/// Where a record comes from.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Told {
    /// It does not say.
    Nothing,
    /// From the session of its file, and from no other.
    Here,
    /// From another session.
    From {
        /// What that is called, or what its name ends with.
        session: String,
        /// Pieces of its file that come before this one, for a file that has no copies of them.
        pieces: Option<u64>,
    },
    /// From another session as it was behind one of its records, of which this file has no copies.
    Behind {
        /// As of [`Told::From`].
        session: String,
        /// The id of that record.
        record: String,
    },
}

/// The parser of a document that is read as a whole: it says nothing piece by piece.
pub(crate) struct Silent;

impl Parser for Silent {
    fn piece(&mut self, _: &Piece, _: &mut Vec<Event>) {}
}

/// Reads a document: the sections it replaces, and what there is to say about it.
pub type Whole = fn(&mut dyn ObjectSink, &mut Builder, &Bytes) -> Result<WholeDocument>;

/// Imports the histories in a file, each to a session or branch of its own.
pub type Archive = fn(&Repository, Bytes, &ImportOptions) -> Result<ImportReport>;

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

/// What a document is, beside its sections.
#[derive(Debug, Clone, Default)]
pub struct WholeDocument {
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
    /// What the session that it goes to is called beside the one it is of: `.modes`, say. Empty for
    /// a part of the conversation.
    pub beside: &'static str,
    /// What else the commit is to say.
    pub metadata: BTreeMap<String, String>,
    /// Where its messages lie, in order, none in another.
    pub records: Vec<Range<usize>>,
    /// What is odd about it, and was tolerated.
    pub notes: Vec<ImportNote>,
}
