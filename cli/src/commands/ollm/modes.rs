//! `ollm modes`: shows the modes of an agent, how often each was used and for how long.

use std::collections::BTreeMap;
use std::io::Write;

use clap::Args;
use clap_complete::ArgValueCompleter;
use turntree_exchange::formats::ollm::{MODES_SUFFIX, PastTransition, past_transitions};

use crate::porcelain::read::revision::known_branch_of;
use crate::program::complete::sessions;
use crate::program::invocation::Invocation;
use crate::view::clock;
use crate::view::error::{Answer, Result};
use crate::view::json;
use crate::view::output::{FAINT, ID, NAME};
use crate::view::render::{ID_DIGITS, count, harmless};

/// Show the changes of mode of a session, how often each was made, and the time in each mode
///
/// Expired changes are only counted.
#[derive(Debug, Args)]
pub(crate) struct ShowModes {
    /// The session; that of HEAD by default
    #[arg(long, value_name = "NAME", add = ArgValueCompleter::new(sessions))]
    session: Option<String>,
    /// Show each change, oldest first
    #[arg(long)]
    replay: bool,
}

impl ShowModes {
    pub(crate) fn run(&self, run: &mut Invocation) -> Result<Answer> {
        let repo = run.open()?;
        let branch = known_branch_of(&repo, self.session.as_deref(), None)?;
        let session = session_of(branch.session());
        let (past, expired) = past_transitions(&repo, session)?;
        let (counts, times) = (counts(&past), times(&past));
        if run.out.json {
            run.out.record(&json::ModesRecord::new(session, &past, expired, &counts, &times))?;
            return Ok(Answer::Yes);
        }
        let paint = run.out.paint;
        let expired = if expired > 0 { format!(", {expired} expired") } else { String::new() };
        let name = paint.paint(NAME, session);
        writeln!(run.out, "{name}: {}{expired}", count(past.len() as u64, "change"))?;
        if self.replay {
            for (index, change) in past.iter().enumerate() {
                let next = past.get(index + 1);
                let stayed = next.map(|next| micros_between(change, next));
                let stayed = stayed.map(|micros| format!(", for {}", clock::length(micros)));
                let task = change.task.as_ref().map(|task| format!(": {}", harmless(task)));
                writeln!(
                    run.out,
                    "{} {} {} to {}{}{}",
                    paint.paint(ID, change.id.short(ID_DIGITS)),
                    paint.paint(FAINT, clock::rfc3339(change.time)),
                    harmless(&change.from),
                    harmless(&change.to),
                    stayed.unwrap_or_default(),
                    task.unwrap_or_default(),
                )?;
            }
            return Ok(Answer::Yes);
        }
        for ((from, to), made) in &counts {
            writeln!(run.out, "{made:>4}  {} to {}", harmless(from), harmless(to))?;
        }
        for (mode, micros) in &times {
            writeln!(run.out, "in {} for {}", harmless(mode), clock::length(*micros))?;
        }
        Ok(Answer::Yes)
    }
}

/// The number of each change of mode.
fn counts(past: &[PastTransition]) -> BTreeMap<(String, String), u64> {
    let mut counts = BTreeMap::new();
    for change in past {
        *counts.entry((change.from.clone(), change.to.clone())).or_default() += 1;
    }
    counts
}

/// The time in each mode that was entered and left, in microseconds.
fn times(past: &[PastTransition]) -> BTreeMap<String, i64> {
    let mut times = BTreeMap::new();
    for pair in past.windows(2) {
        if let [entered, left] = pair
            && entered.to == left.from
        {
            let time: &mut i64 = times.entry(entered.to.clone()).or_default();
            *time = time.saturating_add(micros_between(entered, left));
        }
    }
    times
}

/// The time between two changes; other changes in between do not matter.
fn micros_between(change: &PastTransition, next: &PastTransition) -> i64 {
    next.time.micros.saturating_sub(change.time.micros)
}

/// The original session of a session of modes, otherwise the session itself.
fn session_of(named: &str) -> &str {
    named.strip_suffix(MODES_SUFFIX).unwrap_or(named)
}

#[cfg(test)]
mod tests {
    use turntree::object::{Kind, ObjectId, Time};

    use super::*;

    fn change(from: &str, to: &str, micros: i64) -> PastTransition {
        let time = Time { micros, ..Time::default() };
        let id = ObjectId::of(Kind::Blob, to.as_bytes());
        PastTransition { id, time, from: from.to_owned(), to: to.to_owned(), task: None }
    }

    #[test]
    fn only_the_last_suffix_is_that_of_modes() {
        for (named, session) in [("a", "a"), ("a.modes", "a"), ("a.modes.modes", "a.modes")] {
            assert_eq!(session_of(named), session);
        }
    }

    #[test]
    fn times_of_others_may_be_any() {
        let past = [change("a", "b", i64::MIN), change("b", "a", i64::MAX)];
        assert_eq!(times(&past), BTreeMap::from([("b".to_owned(), i64::MAX)]));
        let past = [&past[..], &past[..]].concat();
        let times = times(&past);
        assert_eq!((times["b"], times["a"]), (i64::MAX, i64::MIN));
    }
}
