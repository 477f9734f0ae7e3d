//! The JSON record of aligned strategies.

use turntree_exchange::{Alignment, RunChoice, RunPair};

use crate::view::json;

/// The JSON record of an alignment of strategies with these names. Steps count from 1.
pub(crate) fn record(names: &[&str], alignment: &Alignment) -> json::Alignment {
    let name = |run: &usize| names.get(*run).map(|name| (*name).to_owned()).unwrap_or_default();
    let choice = |choice: &RunChoice| json::RunChoice {
        label: choice.label.clone(),
        turn: choice.turn,
        runs: choice.runs.iter().map(name).collect(),
        passed: choice.passed as u64,
        failed: choice.failed as u64,
    };
    let number = |step: usize| step as u64 + 1;
    let pair = |pair: &RunPair| json::RunPair {
        runs: [name(&pair.runs.0), name(&pair.runs.1)],
        parted: pair.parted.map(number),
        met: pair.met.as_ref().map(|met| json::RunMeeting {
            files: met.files.to_string(),
            turns: [met.turns.0, met.turns.1],
            steps: [met.steps.0 as u64, met.steps.1 as u64],
        }),
    };
    json::Alignment {
        shared_steps: alignment.shared as u64,
        steps: alignment.steps.iter().map(|steps| *steps as u64).collect(),
        splits: alignment
            .splits
            .iter()
            .map(|split| json::RunSplit {
                step: number(split.step),
                by: if split.by_result { "result" } else { "call" },
                parent: split.parent.map(|(split, _)| split as u64),
                choices: split.choices.iter().map(choice).collect(),
            })
            .collect(),
        pairs: alignment.pairs.iter().map(pair).collect(),
        decision: alignment.decision.as_ref().map(|decision| json::RunDecision {
            step: number(decision.step),
            separates: decision.separates,
            choices: decision.choices.iter().map(choice).collect(),
        }),
    }
}
