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
