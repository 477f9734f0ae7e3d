//! What may stand between two records of a transcript: not without end.
//!
//! Records are written as they come, however many there are. What stands between them is held until
//! the next one says whether a session has it already, so an input that never has another one would
//! fill the memory.

use turntree::context::SourceKind;
use turntree::error::{Error, Result};

use crate::import::source::source_kind;
use crate::model::format::Format;
use crate::text::piece::Piece;

/// Most pieces in a row that are no records: blank and damaged lines, or parts of a document.
pub const MAX_PIECES_BETWEEN: u64 = 1 << 18;

/// Most bytes of these.
pub const MAX_BYTES_BETWEEN: u64 = 1 << 30;

/// Counts what stands between records.
#[derive(Debug, Default)]
pub(crate) struct Between {
    pieces: u64,
    bytes: u64,
}

impl Between {
    /// Passes a piece.
    ///
    /// # Errors
    /// `LimitExceeded`, naming its line, when there was no record for too long.
    pub(crate) fn pass(&mut self, format: &Format, piece: &Piece) -> Result<()> {
        if source_kind(format, piece) == SourceKind::Record {
            *self = Self::default();
            return Ok(());
        }
        self.pieces += 1;
        self.bytes += piece.bytes.len() as u64;
        let place = |what: &str| format!("{what} without a record up to line {}", piece.line);
        if self.pieces > MAX_PIECES_BETWEEN {
            return Err(Error::limit(place("pieces"), MAX_PIECES_BETWEEN, self.pieces));
        }
        if self.bytes > MAX_BYTES_BETWEEN {
            return Err(Error::limit(place("bytes"), MAX_BYTES_BETWEEN, self.bytes));
        }
        Ok(())
    }
}
