//! Strategies side by side: what each did since the snapshot where they parted.

use std::collections::{BTreeMap, HashMap};

use turntree::context::{ContextDiff, MessageEntry, SectionDiff, diff};
use turntree::error::{Error, Result};
use turntree::object::{Commit, Kind, ObjectId, ObjectSource, Time};
use turntree::repo::{BranchName, LogEntry, Repository};

use super::answers::{AnswerCounter, TurnPlace};
use super::prices::PriceTable;
use super::spending::Spending;
use super::test_runs::{TestRunReader, TestRuns};
use super::turn_diff::{TurnDiff, repeats, turn_diff};
use crate::formats::view;

/// The prefix of the result of a check in the metadata of a commit, before the check's name.
pub const CHECK_PREFIX: &str = "check.";

/// The metadata of a check that passed.
pub const PASSED: &str = "passed";

/// The metadata of a check that failed.
pub const FAILED: &str = "failed";

/// Strategies and where they parted.
#[derive(Debug, Clone, PartialEq)]
pub struct Comparison {
    /// The newest snapshot that all of them have on their lines, with its turn; `None` when they have
    /// nothing in common: then all that they hold is their own.
    pub fork: Option<(ObjectId, u64)>,
    /// The strategies since then, in the order asked for.
    pub strategies: Vec<Strategy>,
}

/// The work of one line since the fork.
#[derive(Debug, Clone, PartialEq)]
pub struct Strategy {
    /// Its newest snapshot.
    pub tip: ObjectId,
    /// The turn of that.
    pub turn: u64,
    /// Its own snapshots.
    pub turns: u64,
    /// Messages that these added, of all agents.
    pub messages: u64,
    /// Tools that these messages call.
    pub tool_calls: u64,
    /// Results in these messages that say the tool failed.
    pub tool_errors: u64,
    /// What the answers among these took, and what they cost; `None` when none says so.
    pub spending: Option<Spending>,
    /// The files that are different from those at the fork.
    pub files: SectionDiff,
    /// From its beginning to its newest snapshot, in microseconds.
    pub elapsed_micros: i64,
    /// The newest result of each check that its snapshots name: whether it passed.
    pub checks: BTreeMap<String, bool>,
    /// Runs of tests that its messages tell of, by the runner: what tools printed, and nobody recorded.
    pub test_runs: BTreeMap<String, TestRuns>,
    /// Own snapshots whose content retention has dropped: their messages are not counted.
    pub expired: u64,
}

/// Compares lines that end in snapshots, with the branches they are known by; `prices` are those of
/// answers that say no cost.
///
/// A line begins when its branch was made, if the operation log says when and that is after the snapshot
/// of the fork; the line that was there before begins with the first of these. What is older than any of
/// them begins at that snapshot. The cost grows with what the lines did since then.
///
/// # Errors
/// `NotFound`, `Corrupt` or `Expired`, naming what cannot be read.
pub fn compare(
    repo: &Repository,
    lines: &[(Option<BranchName>, ObjectId)],
    prices: &PriceTable,
) -> Result<Comparison> {
    let fork = fork_of(repo, lines)?;
    let base = match fork {
        Some((id, _)) => Some((id, repo.commit(&id)?)),
        None => None,
    };
    let since = base.as_ref().map(|(_, commit)| commit.time);
    let births = births(repo, lines, since)?;
    let strategy = |(branch, tip): &(Option<BranchName>, ObjectId)| {
        let born = branch.as_ref().and_then(|branch| births.get(&branch.full()).copied());
        StrategyReader { repo, base: base.as_ref(), prices }.strategy(tip, born)
    };
    let begun = lines.iter().map(strategy).collect::<Result<Vec<_>>>()?;
    let forked = begun.iter().filter_map(|(_, born)| *born).min();
    let timed = begun.into_iter().map(|(mut strategy, born)| {
        if let (None, Some(forked), Some(since)) = (born, forked, since) {
            let newest = since.micros.saturating_add(strategy.elapsed_micros);
            if forked <= newest {
                strategy.elapsed_micros = newest - forked;
            }
        }
        strategy
    });
    Ok(Comparison { fork, strategies: timed.collect() })
}

/// The newest snapshot that all lines have.
fn fork_of(
    repo: &Repository,
    lines: &[(Option<BranchName>, ObjectId)],
) -> Result<Option<(ObjectId, u64)>> {
    let Some(((_, first), others)) = lines.split_first() else {
        return Err(Error::invalid("nothing to compare"));
    };
    let mut fork = (*first, repo.commit(first)?.turn);
    let mut line = repo.line(first)?;
    for (_, tip) in others {
        // All of these are on the first line, so the oldest is on all of them.
        match line.divergence(tip)?.fork {
            Some(found) if found.1 < fork.1 => fork = found,
            Some(_) => {}
            None => return Ok(None),
        }
    }
    Ok(Some(fork))
}

/// When branches were made, as far as the operations since `since` say.
fn births(
    repo: &Repository,
    lines: &[(Option<BranchName>, ObjectId)],
    since: Option<Time>,
) -> Result<HashMap<String, i64>> {
    let mut wanted: Vec<String> =
        lines.iter().filter_map(|(branch, _)| Some(branch.as_ref()?.full())).collect();
    let mut births = HashMap::new();
    for entry in repo.operations() {
        let operation = entry?.operation;
        let is_old = since.is_some_and(|since| operation.time_micros < since.micros);
        if wanted.is_empty() || is_old {
            break;
        }
        for change in operation.changes.iter().filter(|change| change.old.is_none()) {
            if let Some(at) = wanted.iter().position(|name| *name == change.name) {
                births.insert(wanted.swap_remove(at), operation.time_micros);
            }
        }
    }
    Ok(births)
}

struct StrategyReader<'a> {
    repo: &'a Repository,
    base: Option<&'a (ObjectId, Commit)>,
    prices: &'a PriceTable,
}

impl StrategyReader<'_> {
    /// Reads a line, and when its branch was made, if that is known and was for its own turns.
    fn strategy(&self, tip: &ObjectId, born: Option<i64>) -> Result<(Strategy, Option<i64>)> {
        let newest = self.repo.commit(tip)?;
        let hide: Vec<ObjectId> = self.base.iter().map(|(id, _)| *id).collect();
        let mut tally = Tally::default();
        let (mut turns, mut first) = (0, newest.time.micros);
        let mut checks = BTreeMap::new();
        let line = self.repo.history(&[*tip], &hide)?.first_parent();
        // Answers are counted from the oldest turn on.
        let mut line = line.collect::<Result<Vec<LogEntry>>>()?;
        line.reverse();
        if let Some(oldest) = line.first() {
            first = oldest.commit.time.micros;
        }
        for entry in &line {
            turns += 1;
            for (name, passed) in checks_of(&entry.commit) {
                checks.insert(name.to_owned(), passed);
            }
            self.count_messages(entry, &mut tally)?;
        }
        let base = self.base.map(|(id, _)| self.repo.context(id)).transpose()?;
        let context = self.repo.context(tip)?;
        let mut changed = diff(self.repo.store(), &base.unwrap_or_default(), &context)?;
        let forked = self.base.map_or(first, |(_, commit)| commit.time.micros);
        let born = born.filter(|born| (forked..=first).contains(born));
        let began = born.unwrap_or(forked);
        let strategy = Strategy {
            tip: *tip,
            turn: newest.turn,
            turns,
            messages: tally.messages,
            tool_calls: tally.tool_calls,
            tool_errors: tally.tool_errors,
            spending: Spending::of(tally.answers, self.prices),
            files: changed.remove("files").unwrap_or_default(),
            elapsed_micros: newest.time.micros.saturating_sub(began).max(0),
            checks,
            test_runs: tally.test_runs.finish(),
            expired: tally.expired,
        };
        Ok((strategy, born))
    }

    /// Counts the messages that a snapshot added to that of its first parent.
    fn count_messages(&self, entry: &LogEntry, tally: &mut Tally) -> Result<()> {
        let Some(TurnDiff { after, changed }) = turn_diff(self.repo, entry)? else {
            tally.expired += 1;
            return Ok(());
        };
        let source = self.repo.store();
        tally.add(source, &entry.commit, &changed)?;
        let turn = TurnPlace { branch: "", is_left: false, commit: &entry.commit };
        tally.answers.add_turn(source, turn, &after, &changed)
    }
}

/// The checks that a snapshot names, and whether each passed.
fn checks_of(commit: &Commit) -> impl Iterator<Item = (&str, bool)> {
    commit.metadata.iter().filter_map(|(key, value)| {
        let name = key.strip_prefix(CHECK_PREFIX)?;
        match value.as_str() {
            PASSED => Some((name, true)),
            FAILED => Some((name, false)),
            _ => None,
        }
    })
}

/// The totals of messages.
#[derive(Debug, Default)]
struct Tally {
    messages: u64,
    tool_calls: u64,
    tool_errors: u64,
    answers: AnswerCounter,
    test_runs: TestRunReader,
    expired: u64,
}

impl Tally {
    fn add(
        &mut self,
        source: &dyn ObjectSource,
        commit: &Commit,
        changed: &ContextDiff,
    ) -> Result<()> {
        for (section, changed) in changed {
            if !section.ends_with("/messages") {
                continue;
            }
            for item in changed.changes.iter().filter_map(|change| change.new.as_ref()) {
                let entry = MessageEntry::from_item(item)?;
                let bytes = source.read_as(Kind::Blob, &entry.blob)?;
                let message = view(&entry.media, &bytes);
                self.messages += 1;
                self.tool_calls += message.tool_calls.len() as u64;
                let failed = message.tool_results.iter().filter(|result| result.is_error);
                self.tool_errors += failed.count() as u64;
                if !repeats(commit) {
                    self.test_runs.add(section, commit.turn, &message);
                }
            }
        }
        Ok(())
    }
}
