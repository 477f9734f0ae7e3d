//! Pieces: the parts that a transcript is split into. Their concatenation is the file.

use std::fmt;
use std::ops::Range;

use bytes::Bytes;
use turntree::error::Result;

/// The pieces of one file, in order. Ends after an error.
pub type Pieces<'r> = Box<dyn Iterator<Item = Result<Piece>> + 'r>;

/// A piece of a transcript: the stored unit and, for records, the parsed unit.
#[derive(Clone)]
pub struct Piece {
    /// The kind.
    pub kind: PieceKind,
    /// The bytes, exactly as in the file.
    pub bytes: Bytes,
    /// The separator after `bytes` in the file (a line end, a comma and whitespace). These few
    /// bytes are stored next to the blob, so that equal records are equal blobs.
    pub suffix: Bytes,
    /// The offset of `bytes` in the file.
    pub offset: u64,
    /// The line on which `bytes` starts, counted from 1.
    pub line: u64,
    /// The content of the file, if `bytes` is its replacement in the store.
    pub original: Option<Bytes>,
}

/// Shows no content, so that it cannot end up in logs by accident.
impl fmt::Debug for Piece {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { kind, bytes, offset, line, .. } = self;
        write!(f, "Piece({kind:?}, {} bytes at {offset}, line {line})", bytes.len())
    }
}

impl Piece {
    /// Returns an empty piece for the end of a file, where a parser may still emit events.
    pub(crate) fn end() -> Self {
        let kind = PieceKind::Trivia { fields: Vec::new() };
        let (bytes, suffix) = (Bytes::new(), Bytes::new());
        Self { kind, bytes, suffix, offset: 0, line: 0, original: None }
    }
}

/// The kind of a piece.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum PieceKind {
    /// A separate JSON value: a line, or an element of an array that the format splits.
    Record {
        /// The path of the format that matched, such as `messages[*]`. Empty for a line.
        path: &'static str,
    },
    /// Bytes between the records of a file, with the requested fields of a JSON document in them:
    /// path and range in `bytes`. An empty range marks the start of a value that contains records.
    Trivia {
        /// The fields in this piece, in file order.
        fields: Vec<(&'static str, Range<usize>)>,
    },
    /// Bytes that the format does not allow, kept unchanged.
    Damaged {
        /// The error, with line and column.
        reason: String,
    },
}
