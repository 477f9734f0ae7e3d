//! Sums up the newest turns of a session for a list: what they did, how they ended, what they cost.

use std::collections::BTreeMap;

use turntree::context::sections::FILES;
use turntree::context::{MAIN_AGENT, MessageEntry};
use turntree::error::{ErrorKind, Result};
use turntree::object::{Commit, Kind, ObjectId, ObjectSource};
use turntree::repo::{LogEntry, Repository};

use super::answers::TurnPlace;
use super::compare::{MessageTotals, checks_of};
use super::prices::PriceTable;
use super::spending::Spending;
use super::turn_diff::{TurnDiff, turn_diff};
use crate::formats::{is_prompt, view};
use crate::model::words::is_interruption;

/// The number of slots of the picture of a session.
const SLOTS: usize = 40;

/// The most that one or several turns did. A stronger deed hides a weaker one.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Deed {
    /// Anything else.
    Other,
    /// A changed file.
    Edit,
    /// Tests or checks that passed.
    Passed,
    /// A failed call, test or check.
    Failed,
    /// A prompt.
    Prompt,
}

impl Deed {
    /// Returns its letter in the text of a picture.
    #[must_use]
    pub const fn letter(self) -> char {
        match self {
            Self::Other => '.',
            Self::Edit => 'e',
            Self::Passed => 'v',
            Self::Failed => 'x',
            Self::Prompt => 'p',
        }
    }
}

/// The newest turns of a line, summed up.
#[derive(Debug, Clone, PartialEq)]
pub struct SessionBrief {
    /// The deeds of its turns in order: one for each turn, or for several turns of a longer line.
    pub deeds: Vec<Deed>,
    /// The result of its newest checks or, without any, of its newest test runs. `None` without
    /// both.
    pub passed: Option<bool>,
    /// True if the user stopped the agent, and said nothing since.
    pub is_interrupted: bool,
    /// The number of failed calls.
    pub failed_calls: u64,
    /// The usage and cost of its answers. `None` if no answer records it.
    pub spending: Option<Spending>,
    /// True if older turns were left out.
    pub has_older: bool,
}

/// Sums up the newest `most` turns of the line of a snapshot.
///
/// # Errors
/// `NotFound` or `Corrupt`, with the id of the unreadable object.
pub fn session_brief(
    repo: &Repository,
    tip: &ObjectId,
    prices: &PriceTable,
    most: usize,
) -> Result<SessionBrief> {
    let newest = repo.history(&[*tip], &[])?.first_parent().take(most.saturating_add(1));
    let mut line = newest.collect::<Result<Vec<LogEntry>>>()?;
    let has_older = line.len() > most;
    line.truncate(most);
    line.reverse();
    let mut prompts = repo.prompts(Some(&is_prompt))?;
    let mut totals = MessageTotals::default();
    let (mut deeds, mut checked) = (Vec::with_capacity(line.len()), None);
    for entry in &line {
        let checks: BTreeMap<&str, bool> = checks_of(&entry.commit).collect();
        let mut deed = Deed::Other;
        if !checks.is_empty() {
            let passed = checks.values().all(|passed| *passed);
            checked = Some(passed);
            deed = if passed { Deed::Passed } else { Deed::Failed };
        }
        let failed = totals.tool_errors;
        if let Some(TurnDiff { after, changed }) = turn_diff(repo, entry)? {
            totals.add(repo, &entry.commit, &changed)?;
            let turn = TurnPlace { branch: "", is_left: false, commit: &entry.commit };
            totals.answers.add_turn(repo, turn, &after, &changed)?;
            deed = deed.max(if changed.contains_key(FILES) { Deed::Edit } else { Deed::Other });
            deed = deed.max(tested(&totals, &entry.commit).unwrap_or(Deed::Other));
        }
        if totals.tool_errors > failed {
            deed = deed.max(Deed::Failed);
        }
        if prompts.number(entry)?.is_some() {
            deed = Deed::Prompt;
        }
        deeds.push(deed);
    }
    let runs = totals.test_runs.runs();
    let tested = runs.max_by_key(|run| run.turn).map(|run| run.passed);
    Ok(SessionBrief {
        deeds: in_slots(&deeds),
        passed: checked.or(tested),
        is_interrupted: is_interrupted(repo, tip)?,
        failed_calls: totals.tool_errors,
        spending: Spending::of(totals.answers, prices),
        has_older,
    })
}

/// Returns the result of the tests that ended in a turn.
fn tested(totals: &MessageTotals, commit: &Commit) -> Option<Deed> {
    let of_turn = totals.test_runs.runs().filter(|run| run.turn == commit.turn);
    of_turn.map(|run| if run.passed { Deed::Passed } else { Deed::Failed }).max()
}

/// Returns the strongest deed of each of [`SLOTS`] stretches; all deeds if there are no more.
fn in_slots(deeds: &[Deed]) -> Vec<Deed> {
    let slots = deeds.len().min(SLOTS);
    let bound = |slot: usize| slot * deeds.len() / slots;
    let stretches = (0..slots).filter_map(|slot| deeds.get(bound(slot)..bound(slot + 1)));
    stretches.filter_map(|stretch| stretch.iter().copied().max()).collect()
}

/// Returns true if the last message of the conversation is the note of an interruption.
fn is_interrupted(repo: &Repository, tip: &ObjectId) -> Result<bool> {
    let context = match repo.context(tip) {
        Err(error) if error.kind() == ErrorKind::Expired => return Ok(false),
        context => context?,
    };
    let messages = context.messages(repo, MAIN_AGENT)?;
    let Some(last) = messages.len().checked_sub(1) else { return Ok(false) };
    let Some(item) = messages.get(repo, last)? else { return Ok(false) };
    let entry = MessageEntry::from_item(&item)?;
    let bytes = repo.read_as(Kind::Blob, &entry.blob)?;
    Ok(is_interruption(&view(&entry.media, &bytes).text))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_long_line_shows_its_strongest_deeds() {
        let mut deeds = vec![Deed::Other; 1000];
        assert_eq!(in_slots(&[]), []);
        assert_eq!(in_slots(&[Deed::Edit, Deed::Prompt]), [Deed::Edit, Deed::Prompt]);
        for (at, deed) in
            [(0, Deed::Prompt), (500, Deed::Edit), (501, Deed::Failed), (999, Deed::Passed)]
        {
            if let Some(slot) = deeds.get_mut(at) {
                *slot = deed;
            }
        }
        let shown: String = in_slots(&deeds).into_iter().map(Deed::letter).collect();
        assert_eq!(shown, format!("p{}x{}v", ".".repeat(19), ".".repeat(18)));
    }
}
