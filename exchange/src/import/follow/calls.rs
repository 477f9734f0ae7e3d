//! Checks if a transcript has a call yet. Searches backward from the end, because the calls of a
//! running session are near the end.

use std::io::{Read, Seek};

use turntree::error::{Error, Result};

use super::{last_line_end, read_at};
use crate::import::captures::contains_call;

/// Bytes per read.
const WINDOW_BYTES: u64 = 256 << 10;

/// Length of the tail to search. Results of other calls of the same turn may follow the call.
const TAIL_BYTES: u64 = 8 << 20;

/// Returns true if the complete lines in the last 8 MiB of a transcript have the call `call`.
///
/// # Errors
/// `Io` if the file is unreadable.
pub fn has_call(mut input: impl Read + Seek, call: &str) -> Result<bool> {
    let failed = |error| Error::io("read the transcript", error);
    let len = input.seek(std::io::SeekFrom::End(0)).map_err(failed)?;
    let end = last_line_end(&mut input, len)?;
    has_call_before(&mut input, end, call)
}

/// Returns true if the file has the call before `end`.
pub(super) fn has_call_before(
    input: &mut (impl Read + Seek),
    end: u64,
    call: &str,
) -> Result<bool> {
    let (mut to, first) = (end, end.saturating_sub(TAIL_BYTES));
    // Overlap the windows, so that an id across two windows is found in the later one.
    let overlap = call.len() as u64 + 2;
    while to > first {
        let from = to.saturating_sub(WINDOW_BYTES).max(first);
        let len = (to - from + overlap).min(end - from);
        if contains_call(&read_at(input, from, len)?, call) {
            return Ok(true);
        }
        to = from;
    }
    Ok(false)
}
