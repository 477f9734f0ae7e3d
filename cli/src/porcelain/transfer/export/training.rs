//! Exports for training and evaluation: their options, the branches that they are made of, and how
//! each of these ended.

use std::collections::BTreeMap;

use clap::{Args, ValueEnum};
use clap_complete::ArgValueCompleter;
use turntree::object::ObjectId;
use turntree::repo::{BranchName, Repository, Trial};
use turntree_exchange::render::{
    LeftOut, NothingFound, RewardKind, RunOutcome, Training, TrainingFormat, TrainingLine,
    TrainingOptions,
};

use super::ExportFormat;
use crate::porcelain::read::comparison::{Line, lines_of};
use crate::porcelain::read::explorations::named;
use crate::program::complete::revisions;
use crate::view::error::Result;
use crate::view::render::count;

/// The options of exports for training and evaluation.
#[derive(Debug, Clone, Default, Args)]
pub(crate) struct TrainingChoice {
    /// Export the branches of an exploration instead of REV, for sft, dpo, grpo, verifiers and inspect
    #[arg(long, value_name = "NAME", hide_short_help = true)]
    pub(super) exploration: Option<String>,
    /// The reward, for the same formats: 1 or 0 by the checks, or the score that a check printed
    #[arg(long, value_enum, hide_short_help = true)]
    pub(super) reward: Option<Reward>,
    /// Only branches whose checks passed, for sft, verifiers and inspect
    #[arg(long, hide_short_help = true)]
    pub(super) passed: bool,
    /// The snapshot where the task begins, for environment; by default that of its trial, otherwise
    /// the first one with files
    #[arg(long, value_name = "REV", hide_short_help = true, add = ArgValueCompleter::new(revisions))]
    pub(super) from: Option<String>,
    /// A line for the shell that checks the files, for environment; by default that of the exploration
    #[arg(long, value_name = "LINE", hide_short_help = true)]
    pub(super) check: Option<String>,
}

/// Which outcome becomes the reward.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(super) enum Reward {
    /// 1 if all checks passed, 0 if one failed
    Check,
    /// The number that the check printed
    Score,
}

impl ExportFormat {
    /// The format of a training export, if it is one.
    pub(super) const fn training(self) -> Option<TrainingFormat> {
        match self {
            Self::Sft => Some(TrainingFormat::Sft),
            Self::Dpo => Some(TrainingFormat::Dpo),
            Self::Grpo => Some(TrainingFormat::Grpo),
            Self::Verifiers => Some(TrainingFormat::Verifiers),
            Self::Inspect => Some(TrainingFormat::Inspect),
            _ => None,
        }
    }
}

/// The revisions of an export, each one branch or snapshot, and how they ended.
pub(super) struct Runs {
    pub(super) revisions: Vec<String>,
    pub(super) outcomes: Vec<RunOutcome>,
}

impl Runs {
    /// The branches of revisions or of an exploration; a session has all of its branches.
    ///
    /// # Errors
    /// `NotFound` for a revision or an exploration that does not exist.
    pub(super) fn of(
        repo: &Repository,
        words: &[String],
        exploration: Option<&str>,
    ) -> Result<Self> {
        let mut lines: Vec<Line> = Vec::new();
        for word in words {
            match repo.has_session(word) {
                true => lines.extend(lines_of(repo, word)),
                false => lines.push(Line::named(repo, word)?),
            }
        }
        if let Some(name) = exploration {
            for trial in named(repo, Some(name))?.trials {
                let Some(tip) = repo.tip(&trial.branch) else { continue };
                let name = trial.branch.to_string();
                lines.push(Line { name, branch: Some(trial.branch), tip });
            }
        }
        let mut known = Vec::new();
        lines.retain(|line| {
            let key = (line.branch.clone(), line.tip);
            let is_new = !known.contains(&key);
            known.push(key);
            is_new
        });
        let outcomes = outcomes(repo, &lines)?;
        let name = |line: Line| match line.branch {
            Some(branch) => branch.to_string(),
            None => line.tip.to_string(),
        };
        Ok(Self { revisions: lines.into_iter().map(name).collect(), outcomes })
    }
}

/// How lines ended: as the newest exploration recorded it, otherwise by the checks in their turns.
fn outcomes(repo: &Repository, lines: &[Line]) -> Result<Vec<RunOutcome>> {
    let mut sessions: BTreeMap<String, Vec<usize>> = BTreeMap::new();
    for (place, line) in lines.iter().enumerate() {
        sessions.entry(repo.commit(&line.tip)?.session).or_default().push(place);
    }
    let mut outcomes = vec![RunOutcome::default(); lines.len()];
    for (session, places) in sessions {
        let tips: Vec<ObjectId> =
            places.iter().filter_map(|place| Some(lines.get(*place)?.tip)).collect();
        let recorded = RunOutcome::recorded(repo, &tips)?;
        let explorations = repo.explorations(Some(&session))?;
        for (place, recorded) in places.into_iter().zip(recorded) {
            let branch = lines.get(place).and_then(|line| line.branch.as_ref());
            // The newest exploration comes first, and the last trial of a branch counts.
            let trial = explorations.iter().find_map(|exploration| {
                let trials = exploration.trials.iter().rev();
                trials.into_iter().find(|trial| Some(&trial.branch) == branch)
            });
            let outcome = trial.map_or(recorded, outcome_of);
            if let Some(own) = outcomes.get_mut(place) {
                *own = outcome;
            }
        }
    }
    Ok(outcomes)
}

fn outcome_of(trial: &Trial) -> RunOutcome {
    let outcome = trial.outcome.as_ref();
    RunOutcome {
        passed: outcome.map(|outcome| outcome.passed),
        score: outcome.and_then(|outcome| outcome.score),
    }
}

impl TrainingChoice {
    /// Reads the conversations of runs.
    ///
    /// # Errors
    /// Errors of reading; `NotFound` for a revision that does not exist.
    pub(super) fn prepare(
        &self,
        repo: &Repository,
        runs: &[(&Line, RunOutcome)],
        agent: Option<&str>,
    ) -> Result<Training> {
        let lines = runs.iter().map(|(line, outcome)| {
            Ok(TrainingLine {
                name: line.name.clone(),
                session: repo.commit(&line.tip)?.session,
                tip: line.tip,
                outcome: *outcome,
            })
        });
        let options = TrainingOptions {
            reward: match self.reward {
                Some(Reward::Score) => RewardKind::Score,
                Some(Reward::Check) | None => RewardKind::Check,
            },
            passed_only: self.passed,
            agent: agent.map(str::to_owned),
        };
        Ok(Training::of(repo, lines.collect::<Result<_>>()?, options)?)
    }
}

/// Describes what an export could not contain, in one line per reason.
pub(super) fn told(left: LeftOut) -> Vec<String> {
    let LeftOut { without_reward, prompts_differ, empty } = left;
    let mut told = Vec::new();
    let why = empty.map(|empty| match empty {
        NothingFound::NonePassed => "no branch passed its checks",
        NothingFound::NoMessages => "no branch has a message",
        NothingFound::NoFork => "the branches do not part, and dpo and grpo compare continuations",
    });
    told.extend(why.map(|why| format!("the export is empty: {why}")));
    if without_reward > 0 {
        let left = count(without_reward as u64, "continuation");
        told.push(format!("{left} left out: no check of theirs is recorded"));
    }
    if prompts_differ > 0 {
        let left = count(prompts_differ as u64, "fork");
        told.push(format!("{left} left out, where prompts differ and not answers: grpo has them"));
    }
    told
}

/// The first and the last trial of a branch in its newest exploration, with the limit, the check and
/// the prompt.
pub(super) struct TrialFacts {
    pub(super) start: Option<ObjectId>,
    pub(super) prompt: Option<String>,
    pub(super) check: Option<String>,
    pub(super) check_seconds: Option<f64>,
}

impl TrialFacts {
    /// The facts of a branch that an exploration made.
    ///
    /// # Errors
    /// Errors of reading the record.
    pub(super) fn of(repo: &Repository, branch: Option<&BranchName>) -> Result<Self> {
        let none = Self { start: None, prompt: None, check: None, check_seconds: None };
        let Some(branch) = branch else { return Ok(none) };
        for exploration in repo.explorations(Some(branch.session()))? {
            let Some(trial) = exploration.trials.iter().find(|trial| trial.branch == *branch)
            else {
                continue;
            };
            let strategy = exploration.plan.strategies.get(trial.strategy);
            let prompt = strategy.map(|strategy| strategy.prompt.clone());
            return Ok(Self {
                start: trial.start.as_ref().map(|start| start.commit),
                prompt: prompt.filter(|prompt| !prompt.is_empty()),
                check: exploration.plan.check.clone(),
                check_seconds: exploration.plan.timeout().map(|limit| limit.as_secs_f64()),
            });
        }
        Ok(none)
    }
}
