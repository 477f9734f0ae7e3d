//! Pieces: a transcript cut into stretches whose bytes, one after the other, are the file.

use std::fmt;
use std::ops::Range;

use bytes::Bytes;
use turntree::error::Result;

/// The pieces of one file, in order; nothing follows an error.
pub type Pieces<'r> = Box<dyn Iterator<Item = Result<Piece>> + 'r>;

/// A stretch of a transcript: the unit that is stored and, for records, understood.
#[derive(Clone)]
pub struct Piece {
    /// The kind.
    pub kind: PieceKind,
    /// The bytes, exactly as in the file.
    pub bytes: Bytes,
    /// Separator after `bytes` in the file (a line end, a comma and white space): a few bytes that
    /// are stored beside the blob, so that equal records are equal blobs.
    pub suffix: Bytes,
    /// Offset of `bytes` in the file.
    pub offset: u64,
    /// Line on which `bytes` starts, from 1.
    pub line: u64,
    /// What the file has, where `bytes` is what a store has in its place.
    pub original: Option<Bytes>,
}

/// Words of people must not end in logs by accident.
impl fmt::Debug for Piece {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { kind, bytes, offset, line, .. } = self;
        write!(f, "Piece({kind:?}, {} bytes at {offset}, line {line})", bytes.len())
    }
}

impl Piece {
    /// The end of a file, where a parser may still have something to say.
    pub(crate) fn end() -> Self {
        let kind = PieceKind::Trivia { fields: Vec::new() };
        let (bytes, suffix) = (Bytes::new(), Bytes::new());
        Self { kind, bytes, suffix, offset: 0, line: 0, original: None }
    }
}

/// The kind of a piece.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum PieceKind {
    /// A JSON value of its own: a line, or an element of an array that the format cuts.
    Record {
        /// The path of the format that it matched, such as `messages[*]`; empty for a line.
        path: &'static str,
    },
    /// Bytes between the records of a file, with the values of the fields of a JSON document that the
    /// format asked for and that lie inside: path and range in `bytes`. An empty range is the
    /// beginning of a value that holds records.
    Trivia {
        /// Fields found in this piece, in file order.
        fields: Vec<(&'static str, Range<usize>)>,
    },
    /// Bytes that are not what the format allows, kept as they are.
    Damaged {
        /// The error, with line and column.
        reason: String,
    },
}
