//! Limits the bytes and pieces between two records of a transcript.
//!
//! The import writes records as they arrive, without a limit. It holds the pieces between records
//! in memory until the next record shows whether a session already has them, so an input without
//! further records would fill the memory.

use turntree::context::SourceKind;
use turntree::error::{Error, Result};

use crate::import::source::source_kind;
use crate::text::piece::Piece;

/// Maximum number of successive pieces that are not records: blank and damaged lines, or parts of a
/// document.
pub const MAX_GAP_PIECES: u64 = 1 << 18;

/// Maximum size of successive pieces that are not records, in bytes.
pub const MAX_GAP_BYTES: u64 = 1 << 30;

/// Counts the pieces and bytes since the last record.
#[derive(Debug, Default)]
pub(crate) struct GapLimit {
    pieces: u64,
    bytes: u64,
}

impl GapLimit {
    /// Counts a piece.
    ///
    /// # Errors
    /// `LimitExceeded`, with the line of the piece, if the gap exceeds a limit.
    pub(crate) fn count(&mut self, side_paths: &[&str], piece: &Piece) -> Result<()> {
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
