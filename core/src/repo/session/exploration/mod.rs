//! Explorations: several strategies that start from one snapshot, each tried on its own branch.
//!
//! The record of an exploration is a JSON blob behind `refs/explore/<session>/<name>`. It has the
//! plan and one entry per trial, which is one run of the command for a strategy. The record moves in
//! the same operation as the branch of a trial: so a kill between two operations leaves a trial
//! either begun or not, and either ended or not, and an undo of the end of a trial makes it one that
//! has not ended. Specified in `format-spec/store.md`.
//!
//! ```text
//! begin      record                       the plan, and the trials of the first round
//! per trial  branch + record.start        its worktree exists
//!            snapshot + record.outcome    its command and its check have ended
//! next round record                       the trials that the search adds
//! ```

mod search;

use std::time::Duration;

use serde::{Deserialize, Serialize};

use crate::error::{Error, Result};
use crate::object::{Kind, ObjectId, ObjectSink, ObjectSource, RefValue};
use crate::repo::{BranchName, Repository, Transaction, decode_versioned};
use crate::store::Expected;

/// The prefix of refs to the record of each exploration.
pub(in crate::repo) const EXPLORATIONS: &str = "refs/explore/";

/// The maximum number of strategies.
pub const MAX_STRATEGIES: usize = 256;

/// The maximum number of trials, over all rounds.
const MAX_TRIALS: usize = 4096;

const VERSION: u64 = 1;
const WHAT: &str = "record of an exploration";

/// An exploration in a session.
#[derive(Debug, Clone, PartialEq)]
pub struct Exploration {
    /// The session of its branches.
    pub session: String,
    /// Its name, unique in the session.
    pub name: String,
    /// The snapshot from which the first round starts.
    pub from: ObjectId,
    /// The branch to merge the best trial into.
    pub into: BranchName,
    /// The time when it began, in microseconds since the Unix epoch.
    pub began_micros: i64,
    /// What to try.
    pub plan: ExplorationPlan,
    /// The trials, in the order in which they were added.
    pub trials: Vec<Trial>,
}

/// The strategies of an exploration, their command and check, and the limits.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ExplorationPlan {
    /// The strategies.
    pub strategies: Vec<ExplorationStrategy>,
    /// The words of the command, with placeholders.
    pub command: Vec<String>,
    /// A line for the shell that checks a trial.
    pub check: Option<String>,
    /// How trials follow each other.
    pub search: SearchKind,
    /// The number of rounds.
    pub rounds: u32,
    /// The number of trials that the search `beam` continues.
    pub width: u32,
    /// The folder of the worktrees.
    pub folder: String,
    /// The maximum number of trials at a time.
    pub jobs: u32,
    /// The longest time of a command or a check, in milliseconds.
    pub timeout_ms: Option<u64>,
    /// What all trials together may spend.
    pub budget: Option<ExplorationBudget>,
}

/// A strategy.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ExplorationStrategy {
    /// The name, which is that of its branch.
    pub name: String,
    /// The prompt for the agent.
    #[serde(default)]
    pub prompt: String,
    /// Its own command; that of the plan if empty.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub command: Vec<String>,
}

/// How trials follow each other.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum SearchKind {
    /// One round: every strategy once.
    BestOf,
    /// Every round continues the better half of the trials on their branches.
    Halving,
    /// Every round forks the best trials again, once for each strategy.
    Beam,
}

/// What all trials of an exploration may spend.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum ExplorationBudget {
    /// Tokens that models read and wrote.
    Tokens(u64),
    /// US dollars.
    Dollars(f64),
}

/// One run of the command for a strategy.
#[derive(Debug, Clone, PartialEq)]
pub struct Trial {
    /// The position of its strategy.
    pub strategy: usize,
    /// Its round, from 1 on.
    pub round: u32,
    /// The trial that it continues or forks.
    pub parent: Option<usize>,
    /// Its branch, in the session of the exploration.
    pub branch: BranchName,
    /// The snapshot and the directory that the command starts with. `None` until it begins.
    pub start: Option<TrialStart>,
    /// `None` until it has ended.
    pub outcome: Option<TrialOutcome>,
}

/// The start of a trial.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TrialStart {
    /// The snapshot of its files.
    pub commit: ObjectId,
    /// The directory in which the command runs.
    pub dir: String,
}

/// The end of a trial.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct TrialOutcome {
    /// How the command ended.
    pub end: TrialEnd,
    /// True if the check passed; without a check, if the command succeeded.
    pub passed: bool,
    /// The number that the check printed last.
    pub score: Option<f64>,
    /// The time of command and check, in milliseconds.
    pub elapsed_ms: u64,
    /// The tokens that its models read and wrote, as far as recorded.
    pub tokens: Option<u64>,
}

/// How a command ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum TrialEnd {
    /// With this exit code.
    Exit(i32),
    /// By a signal that the exploration did not send.
    Signal,
    /// It took too long.
    Timeout,
    /// The budget was spent.
    Budget,
    /// It could not be started.
    NotStarted,
}

/// The blob, its fields in this order.
#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct StoredExploration {
    version: u64,
    from: String,
    into: String,
    began_micros: i64,
    plan: ExplorationPlan,
    trials: Vec<StoredTrial>,
}

#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct StoredTrial {
    strategy: usize,
    round: u32,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    parent: Option<usize>,
    branch: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    start: Option<StoredStart>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    outcome: Option<TrialOutcome>,
}

#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct StoredStart {
    commit: String,
    dir: String,
}

impl ExplorationPlan {
    /// The longest time of a command or a check.
    #[must_use]
    pub fn timeout(&self) -> Option<Duration> {
        self.timeout_ms.map(Duration::from_millis)
    }
}

impl Exploration {
    /// Encodes the record.
    ///
    /// # Errors
    /// `InvalidInput` for a number that JSON does not have.
    fn encode(&self) -> Result<Vec<u8>> {
        let trial = |trial: &Trial| StoredTrial {
            strategy: trial.strategy,
            round: trial.round,
            parent: trial.parent,
            branch: trial.branch.branch().to_owned(),
            start: trial.start.as_ref().map(|start| StoredStart {
                commit: start.commit.to_string(),
                dir: start.dir.clone(),
            }),
            outcome: trial.outcome.clone(),
        };
        let stored = StoredExploration {
            version: VERSION,
            from: self.from.to_string(),
            into: self.into.to_string(),
            began_micros: self.began_micros,
            plan: self.plan.clone(),
            trials: self.trials.iter().map(trial).collect(),
        };
        serde_json::to_vec(&stored).map_err(|source| Error::invalid(WHAT).with_source(source))
    }

    /// Decodes the record of the exploration `name` in `session`.
    ///
    /// # Errors
    /// `Unsupported` for a newer version, `Corrupt` for anything else that [`Exploration::encode`]
    /// would not write.
    fn decode(session: &str, name: &str, bytes: &[u8]) -> Result<Self> {
        let damaged = |_| Error::malformed(WHAT, "ids of snapshots and names of branches");
        let stored: StoredExploration = decode_versioned(WHAT, VERSION, bytes)?;
        let mut trials: Vec<Trial> = Vec::new();
        for trial in stored.trials {
            let known = trial.strategy < stored.plan.strategies.len()
                && trial.parent.is_none_or(|parent| parent < trials.len());
            if !known {
                return Err(Error::malformed(WHAT, "trials of its strategies"));
            }
            let start = trial.start.map(|start| {
                Ok::<_, Error>(TrialStart { commit: start.commit.parse()?, dir: start.dir })
            });
            trials.push(Trial {
                strategy: trial.strategy,
                round: trial.round,
                parent: trial.parent,
                branch: BranchName::new(session, &trial.branch).map_err(damaged)?,
                start: start.transpose().map_err(damaged)?,
                outcome: trial.outcome,
            });
        }
        Ok(Self {
            session: session.to_owned(),
            name: name.to_owned(),
            from: stored.from.parse().map_err(damaged)?,
            into: stored.into.parse().map_err(damaged)?,
            began_micros: stored.began_micros,
            plan: stored.plan,
            trials,
        })
    }
}

impl Repository {
    /// Returns the exploration `name` in `session`, if there is one.
    ///
    /// # Errors
    /// `Corrupt` or `Unsupported`, naming the ref.
    pub fn exploration(&self, session: &str, name: &str) -> Result<Option<Exploration>> {
        let full = ref_name(session, name);
        match self.refs().value(&full) {
            None => Ok(None),
            Some(RefValue::Symbolic(_)) => Err(Error::corrupt(full, WHAT, "a symbolic ref")),
            Some(RefValue::Object(id)) => {
                let bytes = self.store().read_as(Kind::Blob, id);
                let read = bytes.and_then(|bytes| Exploration::decode(session, name, &bytes));
                read.map(Some).map_err(|error| error.at(full))
            }
        }
    }

    /// Returns all explorations in `session`, or in all sessions, the newest first.
    ///
    /// # Errors
    /// Errors of [`Repository::exploration`].
    pub fn explorations(&self, session: Option<&str>) -> Result<Vec<Exploration>> {
        let prefix = session.map_or_else(|| EXPLORATIONS.to_owned(), |own| ref_name(own, ""));
        let refs = self.refs();
        let mut found = Vec::new();
        for (name, _) in refs.values.starting_with(&prefix) {
            let rest = name.strip_prefix(EXPLORATIONS).unwrap_or_default();
            if let Some((session, name)) = rest.split_once('/') {
                found.extend(self.exploration(session, name)?);
            }
        }
        found.sort_by_key(|exploration| std::cmp::Reverse(exploration.began_micros));
        Ok(found)
    }
}

impl Transaction<'_> {
    /// Writes the record of an exploration. It must not have changed since the transaction began.
    ///
    /// # Errors
    /// `InvalidInput` for a name that a branch could not have, and errors of writing.
    pub fn set_exploration(&mut self, exploration: &Exploration) -> Result<()> {
        BranchName::new(&exploration.session, &exploration.name)
            .map_err(|error| error.at("name of the exploration"))?;
        let name = ref_name(&exploration.session, &exploration.name);
        let expected = self.initial_value(&name).cloned().map_or(Expected::Absent, Expected::Value);
        let id = self.write(Kind::Blob, exploration.encode()?.into())?;
        self.set_ref(&name, expected, Some(RefValue::Object(id)));
        Ok(())
    }
}

fn ref_name(session: &str, name: &str) -> String {
    format!("{EXPLORATIONS}{session}/{name}")
}
