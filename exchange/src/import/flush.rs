//! Keeps the memory of an import small, however large its file is.

use turntree::error::Result;
use turntree::repo::Transaction;

/// Staged bytes after which an import makes them durable.
const FLUSH_BYTES: usize = 4 << 20;

/// Makes the staged bytes of an import durable, once there are many.
pub(crate) fn flush_if_needed(change: &mut Transaction<'_>) -> Result<()> {
    if change.staged_bytes() >= FLUSH_BYTES { change.flush() } else { Ok(()) }
}
