//! Limits the bytes and pieces between two records of a transcript.
//!
//! Records are written as they come, however many there are. Pieces between them are held in memory
//! until the next record shows if a session has them already, so an input without another record
//! would fill the memory.

use turntree::context::SourceKind;
use turntree::error::{Error, Result};

use crate::import::source::source_kind;
use crate::text::piece::Piece;

/// Most pieces in a row that are no records: blank and damaged lines, or parts of a document.
pub const MAX_GAP_PIECES: u64 = 1 << 18;

/// Most bytes in a row that are no records.
pub const MAX_GAP_BYTES: u64 = 1 << 30;

/// Counts the pieces and bytes since the last record.
#[derive(Debug, Default)]
pub(crate) struct GapLimit {
    pieces: u64,
    bytes: u64,
}

impl GapLimit {
    /// Passes a piece.
    ///
    /// # Errors
    /// `LimitExceeded`, naming its line, when there was no record for too long.
    pub(crate) fn pass(&mut self, side_paths: &[&str], piece: &Piece) -> Result<()> {
        if source_kind(side_paths, piece) == SourceKind::Record {
            *self = Self::default();
            return Ok(());
        }
        self.pieces += 1;
        self.bytes += piece.bytes.len() as u64;
        let place = |what: &str| format!("{what} without a record up to line {}", piece.line);
        if self.pieces > MAX_GAP_PIECES {
            return Err(Error::limit(place("pieces"), MAX_GAP_PIECES, self.pieces));
        }
        if self.bytes > MAX_GAP_BYTES {
            return Err(Error::limit(place("bytes"), MAX_GAP_BYTES, self.bytes));
        }
        Ok(())
    }
}
