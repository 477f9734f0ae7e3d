//! The time of the newest turn of a session, whatever the clock of its last record said.
//!
//! Turns have the times of their records: a machine that starts without a clock writes 1970, and one whose
//! clock runs ahead writes years to come. A policy about age uses the newest plausible time of the session,
//! so that neither makes a session old nor keeps it for ever.

use crate::error::Result;
use crate::object::{ObjectId, Time};
use crate::repo::Repository;

/// Clocks of machines that write to one store may differ by so much.
const AHEAD_MICROS: i64 = 24 * 60 * 60 * 1_000_000;

/// Returns the newest time on the lines of `tips` that is not ahead of `now`; the newest time of the tips
/// where all are ahead, and `None` without tips. Reads each turn of the lines once, as far as they are there.
///
/// # Errors
/// Those of reading the tips.
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
