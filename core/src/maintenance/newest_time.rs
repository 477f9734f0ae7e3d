//! The time of a line's newest turn, whatever the clock of its last record said.
//!
//! Turns have the times of their records, which others wrote: a machine that starts without a clock writes
//! 1970, and one whose clock runs ahead writes of years to come. A policy about age goes by the newest
//! time on the line that can be right, so that neither makes a session old nor keeps it for ever.

use crate::error::Result;
use crate::object::{ObjectId, Time};
use crate::repo::Repository;

/// Clocks of machines that write to one store may differ by so much.
const AHEAD_MICROS: i64 = 24 * 60 * 60 * 1_000_000;

/// Returns the newest time of the turns on the line of `tip` that is not ahead of `now`; that of `tip`
/// where all are. Reads the turns of the line, as far as they are there.
///
/// # Errors
/// Those of reading the commit `tip`.
pub fn newest_time(repo: &Repository, tip: &ObjectId, now: Time) -> Result<Time> {
    let latest = now.micros.saturating_add(AHEAD_MICROS);
    let mut newest: Option<Time> = None;
    for entry in repo.history(&[*tip], &[])?.first_parent() {
        let Ok(entry) = entry else { break };
        let time = entry.commit.time;
        if time.micros <= latest && newest.is_none_or(|newest| time.micros > newest.micros) {
            newest = Some(time);
        }
    }
    newest.map_or_else(|| Ok(repo.commit(tip)?.time), Ok)
}
