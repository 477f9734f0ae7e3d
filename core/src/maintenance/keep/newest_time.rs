//! Determines the time of the newest turn of a session, robust against wrong clocks.
//!
//! Turns have the times of their records. A machine that starts without a clock writes 1970, and
//! one with a fast clock writes a time years ahead. A policy about age uses the newest plausible
//! time of the session, so that neither makes a session old nor keeps it forever.

use crate::error::Result;
use crate::object::{ObjectId, Time};
use crate::repo::Repository;

/// The maximum difference between clocks of machines that write to one store.
const AHEAD_MICROS: i64 = 24 * 60 * 60 * 1_000_000;

/// Returns the newest time on the lines of `tips` that is not ahead of `now`; the newest time of
/// the tips if all are ahead, and `None` without tips. Reads each remaining turn of the lines once.
///
/// # Errors
/// Errors of reading the tips.
pub fn newest_time(repo: &Repository, tips: &[ObjectId], now: Time) -> Result<Option<Time>> {
    let latest = now.micros.saturating_add(AHEAD_MICROS);
    let mut newest: Option<Time> = None;
    for entry in repo.history(tips, &[])?.first_parent() {
        let Ok(entry) = entry else { break };
        let time = entry.commit.time;
        if time.micros <= latest && newest.is_none_or(|newest| time.micros > newest.micros) {
            newest = Some(time);
        }
    }
    if newest.is_some() {
        return Ok(newest);
    }
    let times: Vec<Time> =
        tips.iter().map(|tip| Ok(repo.commit(tip)?.time)).collect::<Result<_>>()?;
    Ok(times.into_iter().max_by_key(|time| time.micros))
}
