//! Records of strategies side by side.

use std::collections::BTreeMap;

use schemars::JsonSchema;
use serde::Serialize;

use super::usage::SpendingRecord;

/// `compare`.
#[derive(Debug, Serialize, JsonSchema)]
pub(crate) struct Comparison {
    /// The newest snapshot that all have.
    pub(crate) fork: Option<Fork>,
    pub(crate) strategies: Vec<Strategy>,
}

/// The commit where strategies parted.
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
    /// `null` when it is not a branch.
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
    /// `null` when no message says.
    pub(crate) tokens: Option<Tokens>,
    pub(crate) usage: Option<SpendingRecord>,
    pub(crate) files_changed: u64,
    pub(crate) lines_added: u64,
    pub(crate) lines_removed: u64,
    pub(crate) elapsed_ms: i64,
    /// The result of each check: true when it passed.
    pub(crate) checks: BTreeMap<String, bool>,
    /// Runs of tests that messages tell of, by the runner; nobody recorded these.
    pub(crate) test_runs: BTreeMap<String, FoundRuns>,
    /// Own snapshots whose messages are not kept and not counted.
    pub(crate) expired_turns: u64,
}

/// Runs of one test runner that were found in a transcript.
#[derive(Debug, Serialize, JsonSchema)]
pub(crate) struct FoundRuns {
    /// Whether the newest passed.
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
