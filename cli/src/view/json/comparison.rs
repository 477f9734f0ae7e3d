//! Records of compared strategies.

use std::collections::BTreeMap;

use schemars::JsonSchema;
use serde::Serialize;

use super::usage::SpendingRecord;

/// `compare`.
#[derive(Debug, Serialize, JsonSchema)]
pub(crate) struct Comparison {
    /// The newest snapshot common to all.
    pub(crate) fork: Option<Fork>,
    pub(crate) strategies: Vec<Strategy>,
    /// With `--align`; operations for programs do not align.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(skip)]
    pub(crate) alignment: Option<Alignment>,
}

/// Strategies step by step. A step is a tool call with its result; steps count from 1 after the
/// fork.
#[derive(Debug, Serialize)]
pub(crate) struct Alignment {
    /// The steps that all share.
    pub(crate) shared_steps: u64,
    /// The steps of each strategy, in order.
    pub(crate) steps: Vec<u64>,
    pub(crate) splits: Vec<RunSplit>,
    /// Every two strategies.
    pub(crate) pairs: Vec<RunPair>,
    /// `null` unless some passed and some failed.
    pub(crate) decision: Option<RunDecision>,
}

/// A step where strategies part.
#[derive(Debug, Serialize)]
pub(crate) struct RunSplit {
    pub(crate) step: u64,
    /// `call`, or `result` if the same call had other results.
    pub(crate) by: &'static str,
    /// The position of the split from which they come.
    pub(crate) parent: Option<u64>,
    pub(crate) choices: Vec<RunChoice>,
}

/// What some strategies did at a step.
#[derive(Debug, Serialize)]
pub(crate) struct RunChoice {
    /// `null` if they have no such step.
    pub(crate) label: Option<String>,
    pub(crate) turn: Option<u64>,
    pub(crate) runs: Vec<String>,
    pub(crate) passed: u64,
    pub(crate) failed: u64,
}

/// Two strategies.
#[derive(Debug, Serialize)]
pub(crate) struct RunPair {
    pub(crate) runs: [String; 2],
    /// The first step that differs; `null` if none does.
    pub(crate) parted: Option<u64>,
    pub(crate) met: Option<RunMeeting>,
}

/// Turns of two strategies with the same files, after they parted.
#[derive(Debug, Serialize)]
pub(crate) struct RunMeeting {
    pub(crate) files: String,
    pub(crate) turns: [u64; 2],
    /// The steps of both up to these files.
    pub(crate) steps: [u64; 2],
}

/// The step whose choice tells best how a strategy ends.
#[derive(Debug, Serialize)]
pub(crate) struct RunDecision {
    pub(crate) step: u64,
    /// True if no choice has both outcomes.
    pub(crate) separates: bool,
    pub(crate) choices: Vec<RunChoice>,
}

/// The fork point of the strategies.
#[derive(Debug, Serialize, JsonSchema)]
pub(crate) struct Fork {
    pub(crate) id: String,
    pub(crate) turn: u64,
}

/// The work of one strategy since then.
#[derive(Debug, Serialize, JsonSchema)]
pub(crate) struct Strategy {
    /// Its name in the arguments; the branch, without arguments.
    pub(crate) name: String,
    /// `null` if it is not a branch.
    pub(crate) session: Option<String>,
    pub(crate) branch: Option<String>,
    /// The newest snapshot.
    pub(crate) id: String,
    pub(crate) turn: u64,
    /// Its own snapshots.
    pub(crate) turns: u64,
    pub(crate) messages: u64,
    pub(crate) tool_calls: u64,
    pub(crate) tool_errors: u64,
    /// `null` if never reported.
    pub(crate) tokens: Option<Tokens>,
    pub(crate) usage: Option<SpendingRecord>,
    pub(crate) files_changed: u64,
    pub(crate) lines_added: u64,
    pub(crate) lines_removed: u64,
    pub(crate) elapsed_ms: i64,
    /// The result of each check: true if it passed.
    pub(crate) checks: BTreeMap<String, bool>,
    /// Test runs found in messages, by runner; not recorded as checks.
    pub(crate) test_runs: BTreeMap<String, FoundRuns>,
    /// Own snapshots whose messages were dropped and not counted.
    pub(crate) expired_turns: u64,
}

/// Runs of a test runner found in a transcript.
#[derive(Debug, Serialize, JsonSchema)]
pub(crate) struct FoundRuns {
    /// True if the newest passed.
    pub(crate) passed: bool,
    /// The turn with its output.
    pub(crate) turn: u64,
    pub(crate) runs: u64,
    pub(crate) failed: u64,
}

/// Tokens that a model read and wrote.
#[derive(Debug, Serialize, JsonSchema)]
pub(crate) struct Tokens {
    pub(crate) input: u64,
    pub(crate) output: u64,
}
