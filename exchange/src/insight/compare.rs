//! Compares strategies: the work of several lines since the snapshot where they diverged.

use std::collections::{BTreeMap, BTreeSet, HashMap};

use rayon::prelude::*;
use turntree::context::sections::{FILES, is_conversation};
use turntree::context::{ContextDiff, MessageEntry, SectionChange, SectionDiff, diff_section};
use turntree::error::{Error, Result};
use turntree::object::{Commit, Kind, ObjectId, ObjectSource, Time};
use turntree::repo::{BranchName, LogEntry, Repository, WORKSPACE};

use super::align::{AlignedRun, RunReader};
use super::answers::{AnswerCounter, TurnPlace};
use super::prices::PriceTable;
use super::spending::Spending;
use super::test_runs::{TestRunReader, TestRuns};
use super::turn_diff::{TurnDiff, repeats, turn_diff};
use crate::formats::view;

/// Prefix of the metadata key of a check result, followed by the name of the check.
pub const CHECK_PREFIX: &str = "check.";

/// The metadata value of a check that passed.
pub const PASSED: &str = "passed";

/// The metadata value of a check that failed.
pub const FAILED: &str = "failed";

/// The longest time from the first snapshot of a new branch to the operation that creates it, in
/// microseconds: capturing a workspace comes between.
const MAX_DELAY: i64 = 60_000_000;

/// Strategies and their fork point.
#[derive(Debug, Clone, PartialEq)]
pub struct Comparison {
    /// The newest common snapshot of all lines, with its turn. `None` without a common snapshot:
    /// then all turns of a line count.
    pub fork: Option<(ObjectId, u64)>,
    /// The strategies, in the requested order.
    pub strategies: Vec<Strategy>,
}

/// The work of one line since the fork.
#[derive(Debug, Clone, PartialEq)]
pub struct Strategy {
    /// The newest snapshot.
    pub tip: ObjectId,
    /// The turn of that snapshot.
    pub turn: u64,
    /// The number of its snapshots since the fork.
    pub turns: u64,
    /// The number of messages of all agents in these snapshots.
    pub messages: u64,
    /// The number of tool calls in these messages.
    pub tool_calls: u64,
    /// The number of failed tool results in these messages.
    pub tool_errors: u64,
    /// The usage and cost of the answers. `None` if no answer records it.
    pub spending: Option<Spending>,
    /// The files that the line changed since the fork. After a fork from a transcript, other files
    /// of the directory count from its first capture on.
    pub files: SectionDiff,
    /// The time from its start to its newest snapshot, in microseconds.
    pub elapsed_micros: i64,
    /// The newest result of each check: true if it passed.
    pub checks: BTreeMap<String, bool>,
    /// The test runs in its messages, by runner. Read from tool output, not from recorded checks.
    pub test_runs: BTreeMap<String, TestRuns>,
    /// The number of its snapshots whose content expired. Their messages are not counted.
    pub expired: u64,
}

impl Strategy {
    /// Returns true if all its checks passed; without recorded checks, the newest of all its found
    /// test runs. `None` without either.
    fn passed(&self) -> Option<bool> {
        let found = self.test_runs.values().map(|found| found.passed);
        let outcomes: Vec<bool> = match self.checks.is_empty() {
            true => found.collect(),
            false => self.checks.values().copied().collect(),
        };
        (!outcomes.is_empty()).then(|| outcomes.iter().all(|passed| *passed))
    }
}

/// Compares lines by their tips, with the names of their branches if known. `prices` apply to
/// answers without a recorded cost.
///
/// A line starts at the creation of its branch, if the operation log has the time and it is between
/// the fork snapshot and the first snapshot of the line. Other lines start at the earliest of these
/// times, or at the fork snapshot if they ended before that. The cost grows with the length of the
/// lines since the fork.
///
/// # Errors
/// `NotFound`, `Corrupt` or `Expired`, with the id of the unreadable object.
pub fn compare(
    repo: &Repository,
    lines: &[(Option<BranchName>, ObjectId)],
    prices: &PriceTable,
) -> Result<Comparison> {
    Ok(read_lines(repo, lines, prices, false)?.0)
}

/// Compares lines as [`compare`] does, and reads their steps for an alignment: a run passed if its
/// checks passed, or, without recorded checks, its found test runs.
///
/// # Errors
/// Errors of [`compare`].
pub fn compare_aligned(
    repo: &Repository,
    lines: &[(Option<BranchName>, ObjectId)],
    prices: &PriceTable,
) -> Result<(Comparison, Vec<AlignedRun>)> {
    read_lines(repo, lines, prices, true)
}

fn read_lines(
    repo: &Repository,
    lines: &[(Option<BranchName>, ObjectId)],
    prices: &PriceTable,
    with_steps: bool,
) -> Result<(Comparison, Vec<AlignedRun>)> {
    let fork = find_fork(repo, lines)?;
    let base = match fork {
        Some((id, _)) => Some((id, repo.commit(&id)?)),
        None => None,
    };
    let since = base.as_ref().map(|(_, commit)| commit.time);
    let births = creation_times(repo, lines, since)?;
    let strategy = |(branch, tip): &(Option<BranchName>, ObjectId)| {
        let created = branch.as_ref().and_then(|branch| births.get(&branch.full()).copied());
        let reader = StrategyReader { repo, base: base.as_ref(), prices, with_steps };
        reader.strategy(tip, created)
    };
    let read = lines.par_iter().map(strategy).collect::<Result<Vec<_>>>()?;
    let (begun, runs): (Vec<_>, Vec<_>) =
        read.into_iter().map(|(strategy, created, run)| ((strategy, created), run)).unzip();
    let runs = runs.into_iter().flatten().collect();
    let forked = begun.iter().filter_map(|(_, created)| *created).min();
    let timed = begun.into_iter().map(|(mut strategy, created)| {
        if let (None, Some(forked), Some(since)) = (created, forked, since) {
            let newest = since.micros.saturating_add(strategy.elapsed_micros);
            if forked <= newest {
                strategy.elapsed_micros = newest - forked;
            }
        }
        strategy
    });
    Ok((Comparison { fork, strategies: timed.collect() }, runs))
}

/// Returns the newest common snapshot of all lines.
pub(crate) fn find_fork(
    repo: &Repository,
    lines: &[(Option<BranchName>, ObjectId)],
) -> Result<Option<(ObjectId, u64)>> {
    let Some(((_, first), others)) = lines.split_first() else {
        return Err(Error::invalid("nothing to compare"));
    };
    // A line alone counts from its first turn.
    if others.is_empty() {
        return Ok(None);
    }
    let mut fork = (*first, repo.commit(first)?.turn);
    let mut line = repo.line(first)?;
    for (_, tip) in others {
        // All fork points are on the first line, so the oldest is on every line.
        match line.divergence(tip)?.fork {
            Some(found) if found.1 < fork.1 => fork = found,
            Some(_) => {}
            None => return Ok(None),
        }
    }
    Ok(Some(fork))
}

/// Returns the creation times of branches, from the operations since `since`.
fn creation_times(
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
    with_steps: bool,
}

/// A strategy, the creation time of its branch, and its steps if they are wanted.
type ReadStrategy = (Strategy, Option<i64>, Option<AlignedRun>);

impl StrategyReader<'_> {
    /// Reads a line. Also returns the creation time of its branch, if known and not later than its
    /// first turn.
    fn strategy(&self, tip: &ObjectId, created: Option<i64>) -> Result<ReadStrategy> {
        let newest = self.repo.commit(tip)?;
        let hide: Vec<ObjectId> = self.base.iter().map(|(id, _)| *id).collect();
        let base = self.base.map(|(id, _)| self.repo.context(id)).transpose()?;
        let steps = self.with_steps.then(|| RunReader::begin(self.repo, tip, base.as_ref()));
        let mut totals = MessageTotals { steps: steps.transpose()?, ..MessageTotals::default() };
        let (mut turns, mut first) = (0, newest.time.micros);
        let mut checks = BTreeMap::new();
        let line = self.repo.history(&[*tip], &hide)?.first_parent();
        // Count answers from the oldest turn on.
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
            self.count_messages(entry, &mut totals)?;
        }
        let changes = self.changed_files(tip, &line)?;
        let forked = self.base.map_or(first, |(_, commit)| commit.time.micros);
        // A branch that was created with its first snapshot is a little younger than that.
        let until = first.saturating_add(MAX_DELAY);
        let created = created.filter(|created| (forked..=until).contains(created));
        let created = created.map(|created| created.min(first).max(forked));
        let began = created.unwrap_or(forked);
        let steps = totals.steps.take();
        let strategy = Strategy {
            tip: *tip,
            turn: newest.turn,
            turns,
            messages: totals.messages,
            tool_calls: totals.tool_calls,
            tool_errors: totals.tool_errors,
            spending: Spending::of(totals.answers, self.prices),
            files: SectionDiff { changes },
            elapsed_micros: newest.time.micros.saturating_sub(began).max(0),
            checks,
            test_runs: totals.test_runs.finish(),
            expired: totals.expired,
        };
        let run = steps.map(|steps| steps.finish(strategy.passed()));
        Ok((strategy, created, run))
    }

    /// Returns the files that the line changed since the fork.
    ///
    /// A fork from a transcript names only the files of tool calls. A capture after it finds more
    /// files, and never finds those outside of the directory or ignored in it. So a file that the
    /// fork does not name counts from the first capture on, and a file that the first capture does
    /// not have was not removed by the line.
    fn changed_files(&self, tip: &ObjectId, line: &[LogEntry]) -> Result<Vec<SectionChange>> {
        let Some((fork, _)) = self.base else { return self.between(None, tip) };
        let changes = self.between(Some(fork), tip)?;
        let Some(captured) = self.first_capture(fork, line)? else { return Ok(changes) };
        let later = self.between(Some(&captured), tip)?;
        let source = self.repo.store();
        let keys = later.iter().map(|change| change.key.as_bytes());
        let named = self.repo.context(fork)?.map(source, FILES)?.get_sorted(source, keys)?;
        let is_captured: BTreeSet<&str> = later.iter().map(|change| &*change.key).collect();
        let is_own = |change: &&SectionChange| {
            change.old.is_some() && (change.new.is_some() || is_captured.contains(&*change.key))
        };
        let mut files: Vec<SectionChange> = changes.iter().filter(is_own).cloned().collect();
        let unnamed = later.iter().zip(&named).filter(|(_, named)| named.is_none());
        files.extend(unnamed.map(|(change, _)| change.clone()));
        files.sort_by(|one, other| one.key.cmp(&other.key));
        Ok(files)
    }

    /// Returns the first snapshot of the line with all files of a directory, if the fork is not such
    /// a snapshot.
    fn first_capture(&self, fork: &ObjectId, line: &[LogEntry]) -> Result<Option<ObjectId>> {
        let is_captured = |entry: &&LogEntry| entry.commit.metadata.contains_key(WORKSPACE);
        for entry in line.iter().filter(is_captured) {
            if self.repo.whole_workspace(&entry.id)?.is_some() {
                let is_part = self.repo.whole_workspace(fork)?.is_none();
                return Ok(is_part.then_some(entry.id));
            }
        }
        Ok(None)
    }

    /// Returns the files that differ between two snapshots.
    fn between(&self, old: Option<&ObjectId>, new: &ObjectId) -> Result<Vec<SectionChange>> {
        let source = self.repo.store();
        let section = |id: &ObjectId| self.repo.context(id)?.section(source, FILES);
        let old = old.map(section).transpose()?.flatten();
        let new = section(new)?;
        if old == new { Ok(Vec::new()) } else { diff_section(source, old, new) }
    }

    /// Counts the messages that a snapshot added to its first parent.
    fn count_messages(&self, entry: &LogEntry, totals: &mut MessageTotals) -> Result<()> {
        let Some(TurnDiff { after, changed }) = turn_diff(self.repo, entry)? else {
            totals.expired += 1;
            return Ok(());
        };
        let source = self.repo.store();
        totals.add(source, &entry.commit, &changed)?;
        if let Some(steps) = &mut totals.steps {
            steps.end_turn(self.repo, entry, &after, &changed)?;
        }
        let turn = TurnPlace { branch: "", is_left: false, commit: &entry.commit };
        totals.answers.add_turn(source, turn, &after, &changed)
    }
}

/// Returns the check results in the metadata of a snapshot: true for a passed check.
pub(crate) fn checks_of(commit: &Commit) -> impl Iterator<Item = (&str, bool)> {
    commit.metadata.iter().filter_map(|(key, value)| {
        let name = key.strip_prefix(CHECK_PREFIX)?;
        match value.as_str() {
            PASSED => Some((name, true)),
            FAILED => Some((name, false)),
            _ => None,
        }
    })
}

/// The totals of some messages.
#[derive(Debug, Default)]
pub(super) struct MessageTotals {
    messages: u64,
    tool_calls: u64,
    pub(super) tool_errors: u64,
    pub(super) answers: AnswerCounter,
    pub(super) test_runs: TestRunReader,
    expired: u64,
    steps: Option<RunReader>,
}

impl MessageTotals {
    /// Adds the messages that a turn added to the conversations.
    pub(super) fn add(
        &mut self,
        source: &dyn ObjectSource,
        commit: &Commit,
        changed: &ContextDiff,
    ) -> Result<()> {
        for (section, changed) in changed {
            if !is_conversation(section) {
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
                    if let Some(steps) = &mut self.steps {
                        steps.message(commit.turn, &message);
                    }
                }
            }
        }
        Ok(())
    }
}
