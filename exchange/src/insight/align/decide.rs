//! Finds the earliest step that separates passed runs from failed ones.

use std::cmp::Reverse;
use std::collections::HashMap;

use super::{AlignedRun, AlignedStep, RunChoice, Split, choice};

/// The step whose choice tells best how a run ends.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Decision {
    /// The earliest step at which a run made this choice.
    pub step: usize,
    /// The choices with their outcomes. Runs without the step are a choice without a label.
    pub choices: Vec<RunChoice>,
    /// True if no choice has both outcomes.
    pub separates: bool,
}

/// Returns the step that separates outcomes best: where runs part, or a step that some runs have and
/// others do not.
///
/// A choice is judged by the runs that share it: each is predicted from the other runs with the same
/// choice. So a step that differs in every run says nothing. Of equal choices, the earliest counts.
pub(super) fn decide(runs: &[AlignedRun], splits: &[Split]) -> Option<Decision> {
    let ended = |passed| runs.iter().any(|run| run.passed == Some(passed));
    if !ended(true) || !ended(false) {
        return None;
    }
    let parted = splits.iter().filter(|split| !split.by_result);
    let parted = parted.map(|split| (split.step, split.choices.clone()));
    let candidates = parted.chain(presences(runs)).map(|(step, choices)| {
        let separates = choices.iter().all(|choice| choice.passed == 0 || choice.failed == 0);
        let known: usize = choices.iter().map(|choice| choice.passed + choice.failed).sum();
        (rank(&choices, known, separates, step), Decision { step, choices, separates })
    });
    let informs = |choices: &[RunChoice]| {
        choices.iter().any(|choice| choice.passed > 0)
            && choices.iter().any(|choice| choice.failed > 0)
    };
    let candidates = candidates.filter(|(_, decision)| informs(&decision.choices));
    candidates.min_by_key(|(rank, _)| *rank).map(|(_, decision)| decision)
}

type Rank = (Reverse<usize>, bool, Reverse<usize>, usize, usize);

/// The order of choices: many correct predictions, separation, many known outcomes, early, few
/// choices.
fn rank(choices: &[RunChoice], known: usize, separates: bool, step: usize) -> Rank {
    let correct = choices.iter().map(|choice| {
        // Without this run, its own outcome must still prevail in its choice.
        let right = |own: usize, other: usize| if own > other + 1 { own } else { 0 };
        let RunChoice { passed, failed, .. } = *choice;
        right(passed, failed) + right(failed, passed)
    });
    (Reverse(correct.sum()), !separates, Reverse(known), step, choices.len())
}

/// For each call that some runs made and others did not, those that did and those that did not.
fn presences(runs: &[AlignedRun]) -> impl Iterator<Item = (usize, Vec<RunChoice>)> + '_ {
    let exact = firsts(runs, |step| step.choice);
    let alike = firsts(runs, |step| step.label.clone());
    exact.into_iter().chain(alike).filter(|first| first.runs.len() < runs.len()).map(|first| {
        let others = runs.iter().enumerate().filter(|(_, run)| run.takes_part());
        let others = others.map(|(run, _)| run).filter(|run| !first.runs.contains(run)).collect();
        let with = choice(runs, Some(first.of), first.runs);
        (first.step, vec![with, choice(runs, None, others)])
    })
}

/// The runs that have a step, and its earliest place.
struct First<'r> {
    step: usize,
    of: &'r AlignedStep,
    runs: Vec<usize>,
}

fn firsts<K: std::hash::Hash + Eq>(
    runs: &[AlignedRun],
    key: impl Fn(&AlignedStep) -> K,
) -> Vec<First<'_>> {
    let mut order: Vec<First<'_>> = Vec::new();
    let mut places: HashMap<K, usize> = HashMap::new();
    for (number, run) in runs.iter().enumerate() {
        for (step, of) in run.steps.iter().enumerate() {
            let place = *places.entry(key(of)).or_insert(order.len());
            match order.get_mut(place) {
                None => order.push(First { step, of, runs: vec![number] }),
                Some(first) => {
                    first.step = first.step.min(step);
                    if first.runs.last() != Some(&number) {
                        first.runs.push(number);
                    }
                }
            }
        }
    }
    order
}
