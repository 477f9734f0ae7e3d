//! Records of explorations.

use schemars::JsonSchema;
use serde::Serialize;

/// `explore`, `explore continue` and `explore status`.
#[derive(Debug, Serialize, JsonSchema)]
pub(crate) struct Exploration {
    pub(crate) name: String,
    pub(crate) session: String,
    /// `running`, `over` or `interrupted`.
    pub(crate) state: &'static str,
    /// The snapshot where it began.
    pub(crate) from: String,
    /// The branch that `keep` merges into.
    pub(crate) into: String,
    /// `best-of`, `halving` or `beam`.
    pub(crate) search: &'static str,
    pub(crate) rounds: u32,
    /// The current round.
    pub(crate) round: u32,
    pub(crate) trials: Vec<ExplorationTrial>,
    /// The branches of ended trials, the best first.
    pub(crate) ranked: Vec<String>,
    /// The branch of the best trial that passed.
    pub(crate) best: Option<String>,
    /// The tokens of all trials, as far as recorded.
    pub(crate) tokens: Option<u64>,
    /// Their cost in US dollars, as far as known.
    pub(crate) cost_usd: Option<f64>,
}

/// One run of the command for a strategy.
#[derive(Debug, Serialize, JsonSchema)]
pub(crate) struct ExplorationTrial {
    pub(crate) strategy: String,
    pub(crate) branch: String,
    pub(crate) round: u32,
    /// `waiting`, `running`, `checking`, `interrupted`, `passed` or `failed`.
    pub(crate) state: &'static str,
    /// The snapshot of its start.
    pub(crate) start: Option<String>,
    pub(crate) worktree: Option<String>,
    /// `exit`, `signal`, `timeout`, `budget` or `not-started`.
    pub(crate) end: Option<&'static str>,
    /// The exit code of the command.
    pub(crate) exit: Option<i32>,
    pub(crate) score: Option<f64>,
    pub(crate) elapsed_ms: Option<u64>,
    /// As far as recorded; of a running trial, so far.
    pub(crate) tokens: Option<u64>,
    /// In US dollars, as far as known; null for a trial that a later one continues on its branch.
    pub(crate) cost_usd: Option<f64>,
    /// The newest snapshot of the branch; null for a trial that a later one continues.
    pub(crate) step: Option<ExplorationStep>,
}

/// What was done last on the branch of a trial.
#[derive(Debug, Serialize, JsonSchema)]
pub(crate) struct ExplorationStep {
    pub(crate) turn: u64,
    pub(crate) message: String,
    pub(crate) time: String,
}
