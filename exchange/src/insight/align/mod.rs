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
    /// The places where runs part, each after the one that it depends on.
    pub splits: Vec<Split>,
    /// Every two runs, in order.
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
}

/// Aligns runs. The cost grows with the steps, and with the pairs of runs times their changes of
/// files.
#[must_use]
pub fn align(runs: &[AlignedRun]) -> Alignment {
    let mut splits = Vec::new();
    let all: Vec<usize> = (0..runs.len()).collect();
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
    for (at, one) in runs.iter().enumerate() {
        for (to, other) in runs.iter().enumerate().skip(at + 1) {
            let parted = parted.get(&(at, to)).copied();
            let met = parted.and_then(|step| meeting(one, other, step));
            pairs.push(RunPair { runs: (at, to), parted, met });
        }
    }
    let decision = decide::decide(runs, &splits);
    Alignment { shared, splits, pairs, decision }
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
    let known: HashSet<ObjectId> = theirs.iter().map(|(files, _)| *files).collect();
    // Files from before the parting count for a run that did not change them, or until it did.
    let (my_base, their_base) = (one.base(step), other.base(step));
    let found =
        mine.iter().find(|(files, _)| known.contains(files) || their_base.0 == Some(*files));
    let turn_of = |of: &[(ObjectId, u64)], base: (Option<ObjectId>, u64), wanted: &ObjectId| {
        let changed = of.iter().find(|(files, _)| files == wanted);
        changed.map(|(_, turn)| *turn).or((base.0 == Some(*wanted)).then_some(base.1))
    };
    if let Some((files, turn)) = found {
        let theirs = turn_of(&theirs, their_base, files)?;
        return Some(Meeting { files: *files, turns: (*turn, theirs) });
    }
    let (files, turn) = theirs.iter().find(|(files, _)| my_base.0 == Some(*files))?;
    Some(Meeting { files: *files, turns: (my_base.1, *turn) })
}

impl AlignedRun {
    /// The files before a step, and the turn of the step before.
    fn base(&self, step: usize) -> (Option<ObjectId>, u64) {
        let before = step.checked_sub(1).and_then(|before| self.steps.get(before));
        before.map_or((self.files, 0), |before| (before.files, before.turn))
    }

    /// The changes of files from a step on, with their turns.
    fn changes_from(&self, step: usize) -> Vec<(ObjectId, u64)> {
        let mut last = self.base(step).0;
        let mut changes = Vec::new();
        for step in self.steps.iter().skip(step) {
            if step.files != last {
                changes.extend(step.files.map(|files| (files, step.turn)));
                last = step.files;
            }
        }
        changes
    }
}
