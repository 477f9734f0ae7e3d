//! Summarizes the newest turns of a session for a list: what they did, how they ended, what they
//! cost.

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

/// What one or several turns did. A higher kind hides a lower one.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum TurnKind {
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

impl TurnKind {
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

/// A summary of the newest turns of a line.
#[derive(Debug, Clone, PartialEq)]
pub struct SessionBrief {
    /// The kinds of its turns in order: one for each turn, or for several turns of a longer line.
    pub kinds: Vec<TurnKind>,
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

/// Summarizes the newest `most` turns of the line of a snapshot.
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
    let (mut kinds, mut checked) = (Vec::with_capacity(line.len()), None);
    for entry in &line {
        let checks: BTreeMap<&str, bool> = checks_of(&entry.commit).collect();
        let mut kind = TurnKind::Other;
        if !checks.is_empty() {
            let passed = checks.values().all(|passed| *passed);
            checked = Some(passed);
            kind = if passed { TurnKind::Passed } else { TurnKind::Failed };
        }
        let failed = totals.tool_errors;
        if let Some(TurnDiff { after, changed }) = turn_diff(repo, entry)? {
            totals.add(repo, &entry.commit, &changed)?;
            let turn = TurnPlace { branch: "", is_left: false, commit: &entry.commit };
            totals.answers.add_turn(repo, turn, &after, &changed)?;
            kind = kind.max(if changed.contains_key(FILES) {
                TurnKind::Edit
            } else {
                TurnKind::Other
            });
            kind = kind.max(tested(&totals, &entry.commit).unwrap_or(TurnKind::Other));
        }
        if totals.tool_errors > failed {
            kind = kind.max(TurnKind::Failed);
        }
        if prompts.number(entry)?.is_some() {
            kind = TurnKind::Prompt;
        }
        kinds.push(kind);
    }
    let runs = totals.test_runs.runs();
    let tested = runs.max_by_key(|run| run.turn).map(|run| run.passed);
    Ok(SessionBrief {
        kinds: in_slots(&kinds),
        passed: checked.or(tested),
        is_interrupted: is_interrupted(repo, tip)?,
        failed_calls: totals.tool_errors,
        spending: Spending::of(totals.answers, prices),
        has_older,
    })
}

/// Returns the result of the tests that ended in a turn.
fn tested(totals: &MessageTotals, commit: &Commit) -> Option<TurnKind> {
    let of_turn = totals.test_runs.runs().filter(|run| run.turn == commit.turn);
    of_turn.map(|run| if run.passed { TurnKind::Passed } else { TurnKind::Failed }).max()
}

/// Returns the highest kind of each of [`SLOTS`] stretches; all kinds if there are no more.
fn in_slots(kinds: &[TurnKind]) -> Vec<TurnKind> {
    let slots = kinds.len().min(SLOTS);
    let bound = |slot: usize| slot * kinds.len() / slots;
    let stretches = (0..slots).filter_map(|slot| kinds.get(bound(slot)..bound(slot + 1)));
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
    fn a_long_line_shows_the_highest_kind_of_each_stretch() {
        let mut kinds = vec![TurnKind::Other; 1000];
        assert_eq!(in_slots(&[]), []);
        assert_eq!(
            in_slots(&[TurnKind::Edit, TurnKind::Prompt]),
            [TurnKind::Edit, TurnKind::Prompt]
        );
        for (at, kind) in [
            (0, TurnKind::Prompt),
            (500, TurnKind::Edit),
            (501, TurnKind::Failed),
            (999, TurnKind::Passed),
        ] {
            if let Some(slot) = kinds.get_mut(at) {
                *slot = kind;
            }
        }
        let shown: String = in_slots(&kinds).into_iter().map(TurnKind::letter).collect();
        assert_eq!(shown, format!("p{}x{}v", ".".repeat(19), ".".repeat(18)));
    }
}
