//! Explorations as they are: found by name, with the state, the spending and the last step of each trial.

mod spent;

use turntree::repo::{
    BranchName, Exploration, Repository, SearchKind, Trial, TrialEnd, TrialOutcome,
};
use turntree::workspace::Claim;
use turntree::{Error, ErrorKind};

pub(crate) use self::spent::{Amount, Spent};
use crate::view::error::{Failure, Result};
use crate::view::render::one_line;
use crate::view::{clock, json};

/// The most characters of the message of a step.
const MESSAGE_CHARS: usize = 120;

/// The exploration called `name`, or the newest one of all sessions.
///
/// # Errors
/// `NotFound` if there is none, `Ambiguous` if several sessions have one of this name.
pub(crate) fn named(repo: &Repository, name: Option<&str>) -> Result<Exploration> {
    let mut found = repo.explorations(None)?;
    if let Some(name) = name {
        found.retain(|exploration| {
            exploration.name == name
                || format!("{}/{}", exploration.session, exploration.name) == name
        });
        if let [one, other, ..] = &*found {
            let both = format!("{}/{name} and {}/{name}", one.session, other.session);
            let error = Error::new(ErrorKind::Ambiguous, format!("'{name}' is {both}"));
            return Err(Failure::hinted(error, "name it with its session, as SESSION/NAME"));
        }
    }
    let hint = "'turntree explore --strategy NAME=PROMPT -- COMMAND' begins one";
    found.into_iter().next().ok_or_else(|| {
        let what = name.map_or_else(
            || "there is no exploration".to_owned(),
            |name| format!("there is no exploration {name}"),
        );
        Failure::hinted(Error::not_found(what), hint)
    })
}

/// The JSON record of an exploration.
///
/// # Errors
/// Errors of reading the branches.
pub(crate) fn record(
    repo: &Repository,
    exploration: &Exploration,
    spent: &mut Spent,
) -> Result<json::Exploration> {
    let is_driven = is_driven(repo, exploration);
    let plan = &exploration.plan;
    let Amount { tokens, dollars } = spent.total(repo, exploration)?;
    let mut trial = |place: usize, trial: &Trial| {
        let later = exploration.trials.get(place + 1..).unwrap_or_default();
        // What later trials did on its branch is not its own.
        let is_newest = later.iter().all(|other| other.branch != trial.branch);
        let start = trial.start.as_ref().filter(|_| is_newest);
        let amount =
            start.map(|start| spent.of_branch(repo, &trial.branch, start.commit)).transpose()?;
        let tip = repo.tip(&trial.branch).filter(|_| start.is_some());
        let step = tip.map(|tip| repo.commit(&tip)).transpose()?;
        let outcome = trial.outcome.as_ref();
        let strategy = plan.strategies.get(trial.strategy);
        Ok(json::ExplorationTrial {
            strategy: strategy.map(|strategy| strategy.name.clone()).unwrap_or_default(),
            branch: trial.branch.branch().to_owned(),
            round: trial.round,
            state: state_of(repo, trial, is_driven),
            start: trial.start.as_ref().map(|start| start.commit.to_string()),
            worktree: trial.start.as_ref().map(|start| start.dir.clone()),
            end: outcome.map(|outcome| end_name(outcome.end)),
            exit: outcome.and_then(exit_code),
            score: outcome.and_then(|outcome| outcome.score),
            elapsed_ms: outcome.map(|outcome| outcome.elapsed_ms),
            tokens: match outcome {
                Some(outcome) => outcome.tokens,
                None => amount.and_then(|amount| amount.tokens),
            },
            cost_usd: amount.and_then(|amount| amount.dollars),
            step: step.map(|commit| json::ExplorationStep {
                turn: commit.turn,
                message: one_line(&commit.message, MESSAGE_CHARS),
                time: clock::rfc3339(commit.time),
            }),
        })
    };
    let trials = exploration.trials.iter().enumerate().map(|(place, it)| trial(place, it));
    let trials = trials.collect::<Result<Vec<_>>>()?;
    let branch =
        |place: usize| exploration.trials.get(place).map(|it| it.branch.branch().to_owned());
    Ok(json::Exploration {
        name: exploration.name.clone(),
        session: exploration.session.clone(),
        state: match (exploration.is_over(), is_driven) {
            (_, true) => "running",
            (true, false) => "over",
            (false, false) => "interrupted",
        },
        from: exploration.from.to_string(),
        into: exploration.into.to_string(),
        search: match plan.search {
            SearchKind::BestOf => "best-of",
            SearchKind::Halving => "halving",
            SearchKind::Beam => "beam",
        },
        rounds: plan.rounds,
        round: exploration.round(),
        trials,
        ranked: exploration.ranked().into_iter().filter_map(branch).collect(),
        best: exploration.best().and_then(branch),
        tokens,
        cost_usd: dollars,
    })
}

/// The state of a trial: `waiting`, `running`, `checking`, `interrupted`, `passed` or `failed`.
pub(crate) fn state_of(repo: &Repository, trial: &Trial, is_driven: bool) -> &'static str {
    match (&trial.outcome, &trial.start) {
        (Some(outcome), _) if outcome.passed => "passed",
        (Some(_), _) => "failed",
        (None, Some(_)) if is_driven => {
            match Claim::ask(repo.dir(), &checking_name(&trial.branch)) {
                Ok(None) => "checking",
                _ => "running",
            }
        }
        (None, Some(_)) => "interrupted",
        (None, None) => "waiting",
    }
}

fn end_name(end: TrialEnd) -> &'static str {
    match end {
        TrialEnd::Exit(_) => "exit",
        TrialEnd::Signal => "signal",
        TrialEnd::Timeout => "timeout",
        TrialEnd::Budget => "budget",
        TrialEnd::NotStarted => "not-started",
    }
}

fn exit_code(outcome: &TrialOutcome) -> Option<i32> {
    match outcome.end {
        TrialEnd::Exit(code) => Some(code),
        _ => None,
    }
}

/// Returns true if a process drives the exploration.
pub(crate) fn is_driven(repo: &Repository, exploration: &Exploration) -> bool {
    matches!(Claim::ask(repo.dir(), &driver_name(exploration)), Ok(None))
}

/// The name of the lock of the process that drives an exploration.
pub(crate) fn driver_name(exploration: &Exploration) -> String {
    format!("exploration {}/{}", exploration.session, exploration.name)
}

/// The name of the lock that is held while the check of a trial on this branch runs.
pub(crate) fn checking_name(branch: &BranchName) -> String {
    format!("check of {branch}")
}
