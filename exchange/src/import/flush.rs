//! Bounds the memory of an import, independent of the size of its file.

use turntree::error::Result;
use turntree::repo::Transaction;

/// Number of staged bytes from which an import makes them durable.
const FLUSH_BYTES: usize = 4 << 20;

/// Makes the staged bytes of an import durable once there are many of them.
pub(crate) fn flush_if_needed(change: &mut Transaction<'_>) -> Result<()> {
    if change.staged_bytes() >= FLUSH_BYTES { change.flush() } else { Ok(()) }
}
