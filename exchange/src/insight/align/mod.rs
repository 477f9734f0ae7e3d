//! Aligns runs step by step: where their work parts, where their files meet again, and which step
//! separates the runs that passed from those that failed.
//!
//! A step is a tool call with its result, or a turn that changed files without a call. Steps are
//! compared without what varies from run to run, such as ids and times ([`noise`]). Runs part at
//! the first step where they call something else, or where the same call has another result.
//!
//! ```text
//! step 1    2    3             plan-1 and plan-3 part at step 3, both part from plan-2 at step 2
//! plan-1  a -> b -> c
//! plan-2  a -> x
//! plan-3  a -> b -> d
//! ```

mod decide;
mod noise;
mod read;
mod steps;
#[cfg(test)]
mod tests;

use std::collections::{BTreeMap, HashSet};

use turntree::object::ObjectId;

pub use decide::Decision;
pub(crate) use noise::without_noise;
pub(crate) use read::RunReader;
use steps::StepReader;

/// A step of a run.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct AlignedStep {
    /// The turn of its snapshot.
    pub turn: u64,
    /// The tool and its main argument, in one line.
    pub label: String,
    /// The digest of the call and its arguments.
    pub choice: ObjectId,
    /// The digest of the result; `None` without one.
    pub result: Option<ObjectId>,
    /// The root of the files after its turn; `None` without files.
    pub files: Option<ObjectId>,
}

/// A run to align.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct AlignedRun {
    /// Its steps since the fork.
    pub steps: Vec<AlignedStep>,
    /// The root of the files at the fork.
    pub files: Option<ObjectId>,
    /// True if it passed its checks, false if it failed one. `None` if it has none.
    pub passed: Option<bool>,
}

/// The alignment of runs. A step is the number of steps before it; a run is its position.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Alignment {
    /// The number of steps that all runs share.
    pub shared: usize,
    /// The number of steps of each run.
    pub steps: Vec<usize>,
    /// The places where runs part, each after the one that it depends on.
    pub splits: Vec<Split>,
    /// Every two runs that take part, in order.
    pub pairs: Vec<RunPair>,
    /// The step that separates passed runs from failed ones. `None` unless there are both.
    pub decision: Option<Decision>,
}

/// A step where runs part that were alike until then.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Split {
    /// The step.
    pub step: usize,
    /// True if all made the same call, and its results differ.
    pub by_result: bool,
    /// The split from which its runs come, and their choice there.
    pub parent: Option<(usize, usize)>,
    /// The choices, in the order of their first runs.
    pub choices: Vec<RunChoice>,
}

/// What some runs did at a step.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RunChoice {
    /// The step. `None` if the runs have no such step.
    pub label: Option<String>,
    /// The turn of that step in the first run.
    pub turn: Option<u64>,
    /// The runs.
    pub runs: Vec<usize>,
    /// The number of these that passed.
    pub passed: usize,
    /// The number of these that failed.
    pub failed: usize,
}

/// Two runs.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RunPair {
    /// The runs.
    pub runs: (usize, usize),
    /// The first step that differs. `None` if both are alike to their ends.
    pub parted: Option<usize>,
    /// Where the files of both were the same again.
    pub met: Option<Meeting>,
}

/// Equal files of two runs after they parted.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Meeting {
    /// The root of the files.
    pub files: ObjectId,
    /// The turns of both runs with these files.
    pub turns: (u64, u64),
    /// The number of steps of both runs up to these files.
    pub steps: (usize, usize),
}

/// Files of a run after some step.
#[derive(Debug, Clone, Copy)]
struct FilesAfter {
    files: Option<ObjectId>,
    turn: u64,
    /// The number of steps up to it.
    steps: usize,
}

/// Aligns runs. A run without steps and without an outcome takes no part: it is the branch from
/// which the others were forked. The cost grows with the steps, and with the pairs of runs times
/// their changes of files.
#[must_use]
pub fn align(runs: &[AlignedRun]) -> Alignment {
    let mut splits = Vec::new();
    let taking_part = || runs.iter().enumerate().filter(|(_, run)| run.takes_part());
    let all: Vec<usize> = taking_part().map(|(number, _)| number).collect();
    let shared = part(runs, &all, 0, None, &mut splits);
    let mut parted = BTreeMap::new();
    for split in &splits {
        for (at, choice) in split.choices.iter().enumerate() {
            let others = split.choices.iter().skip(at + 1).flat_map(|other| &other.runs);
            for (one, other) in others.flat_map(|other| choice.runs.iter().map(move |a| (a, other)))
            {
                parted.insert((*one.min(other), *one.max(other)), split.step);
            }
        }
    }
    let mut pairs = Vec::new();
    for (at, one) in taking_part() {
        for (to, other) in taking_part().filter(|(to, _)| *to > at) {
            let parted = parted.get(&(at, to)).copied();
            let met = parted.and_then(|step| meeting(one, other, step));
            pairs.push(RunPair { runs: (at, to), parted, met });
        }
    }
    let decision = decide::decide(runs, &splits);
    let steps = runs.iter().map(|run| run.steps.len()).collect();
    Alignment { shared, steps, splits, pairs, decision }
}

/// Follows runs that are alike from `step` on until they part, and the parts after that. Returns the
/// step where they part, or their common end.
fn part(
    runs: &[AlignedRun],
    group: &[usize],
    mut step: usize,
    parent: Option<(usize, usize)>,
    splits: &mut Vec<Split>,
) -> usize {
    // Runs that have parted are in the stack: a split is no deeper than the number of runs.
    loop {
        let at = |run: &usize| runs.get(*run).and_then(|run| run.steps.get(step));
        let (by_result, parts) = match grouped(group, |run| at(run).map(|step| step.choice)) {
            parts if parts.len() > 1 => (false, parts),
            _ => (true, grouped(group, |run| at(run).map(|step| step.result))),
        };
        if parts.len() > 1 {
            let choices = parts.iter().map(|part| {
                let first = part.first().and_then(at);
                choice(runs, first, part.clone())
            });
            let own = splits.len();
            splits.push(Split { step, by_result, parent, choices: choices.collect() });
            // Runs with the same call may still part by its result.
            let next = step + usize::from(by_result);
            for (number, group) in parts.into_iter().enumerate() {
                if group.len() > 1 {
                    part(runs, &group, next, Some((own, number)), splits);
                }
            }
            return step;
        }
        if group.first().and_then(at).is_none() {
            return step;
        }
        step += 1;
    }
}

/// Groups runs by a key, in the order of their first members.
fn grouped<K: PartialEq>(runs: &[usize], key: impl Fn(&usize) -> K) -> Vec<Vec<usize>> {
    let mut groups: Vec<(K, Vec<usize>)> = Vec::new();
    for run in runs {
        let key = key(run);
        match groups.iter_mut().find(|(known, _)| *known == key) {
            Some((_, group)) => group.push(*run),
            None => groups.push((key, vec![*run])),
        }
    }
    groups.into_iter().map(|(_, group)| group).collect()
}

/// What `group` did, with the outcomes of its runs.
fn choice(runs: &[AlignedRun], step: Option<&AlignedStep>, group: Vec<usize>) -> RunChoice {
    let ended = |passed: bool| {
        let outcomes = group.iter().filter_map(|run| runs.get(*run)?.passed);
        outcomes.filter(|outcome| *outcome == passed).count()
    };
    let (passed, failed) = (ended(true), ended(false));
    let (label, turn) = (step.map(|step| step.label.clone()), step.map(|step| step.turn));
    RunChoice { label, turn, runs: group, passed, failed }
}

/// The first files of `one` after `step` that `other` has too after it. Files that neither changed
/// are no meeting.
fn meeting(one: &AlignedRun, other: &AlignedRun, step: usize) -> Option<Meeting> {
    let (mine, theirs) = (one.changes_from(step), other.changes_from(step));
    let known: HashSet<ObjectId> = theirs.iter().filter_map(|change| change.files).collect();
    // Files from before the parting count for a run that did not change them, or until it did.
    let (my_base, their_base) = (one.base(step), other.base(step));
    let is_shared = |change: &&FilesAfter| {
        change.files.is_some_and(|files| known.contains(&files)) || their_base.files == change.files
    };
    let (mine, theirs) = match mine.iter().find(is_shared) {
        Some(mine) => {
            let changed = theirs.iter().find(|theirs| theirs.files == mine.files);
            (*mine, *changed.unwrap_or(&their_base))
        }
        None => (my_base, *theirs.iter().find(|theirs| theirs.files == my_base.files)?),
    };
    let (turns, steps) = ((mine.turn, theirs.turn), (mine.steps, theirs.steps));
    Some(Meeting { files: mine.files?, turns, steps })
}

impl AlignedRun {
    /// False for the branch from which the others were forked.
    fn takes_part(&self) -> bool {
        !self.steps.is_empty() || self.passed.is_some()
    }

    /// The files before a step.
    fn base(&self, step: usize) -> FilesAfter {
        let before = step.checked_sub(1).and_then(|before| self.steps.get(before));
        let (files, turn) = before.map_or((self.files, 0), |before| (before.files, before.turn));
        FilesAfter { files, turn, steps: step }
    }

    /// The changes of files from a step on.
    fn changes_from(&self, step: usize) -> Vec<FilesAfter> {
        let mut last = self.base(step).files;
        let mut changes = Vec::new();
        for (number, step) in self.steps.iter().enumerate().skip(step) {
            if step.files != last {
                last = step.files;
                if last.is_some() {
                    changes.push(FilesAfter { files: last, turn: step.turn, steps: number + 1 });
                }
            }
        }
        changes
    }
}
