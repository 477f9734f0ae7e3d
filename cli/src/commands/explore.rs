//! `explore`: tries strategies side by side, and keeps the best one.

use std::ffi::OsString;
use std::io::Write;
use std::path::PathBuf;

use clap::{Args, Subcommand, ValueEnum};
use clap_complete::ArgValueCompleter;
use turntree::Error;
use turntree::repo::{Exploration, HEAD, Repository, SearchKind};

use super::Verb;
use crate::explore::{Driven, LimitOptions, PlanOptions, begin, drive, keep, named_trial, write};
use crate::platform::end_by;
use crate::porcelain::read::explorations::{Spent, named, record};
use crate::porcelain::read::prices::Prices;
use crate::program::complete::revisions;
use crate::program::invocation::Invocation;
use crate::view::error::{Answer, Result};
use crate::view::output::warn;

/// Try strategies side by side, and keep the best one
///
/// Runs a command for each strategy, as many at a time as --jobs allows: on a branch of its own, in a
/// worktree with the files of the snapshot. In the words of the command, {prompt}, {name}, {dir},
/// {branch}, {round} and {session} are replaced; no shell reads them. {session} is the id of a new
/// session of the agent that continues the conversation of the branch, as 'turntree resume' writes it.
/// The environment of the command has TURNTREE_STORE, TURNTREE_BRANCH, TURNTREE_STRATEGY,
/// TURNTREE_PROMPT, TURNTREE_EXPLORATION and TURNTREE_ROUND, so agents with hooks record on the branch.
/// Its output goes to a log beside the worktree.
///
/// When a command has ended, the files are captured and --check decides: exit code 0 means passed, and
/// a number at the end of its last line is the score. Processes that a command left running have 3
/// seconds to end, and are then killed. The table lists those that passed first, then by score.
///
/// Every step is recorded in the store: after Ctrl-C or a kill, 'explore continue' runs what has not
/// ended. A trial that was interrupted is rolled back to its start, and what it did stays in the
/// history of its branch. The exit code is 1 if no strategy passed.
#[derive(Debug, Args)]
#[command(args_conflicts_with_subcommands = true, subcommand_negates_reqs = true)]
#[command(after_long_help = "Examples:
  turntree explore --strategy 'cache=add a cache' --strategy 'pool=use a pool' \\
      --check 'cargo test' --keep best -- claude -p '{prompt}'
  turntree explore --file strategies.toml --from turn:42 --jobs 4 --timeout 20m \\
      --budget '$5' --check ./score.sh -- codex exec resume '{session}' '{prompt}'
  turntree explore --file strategies.toml --search halving --check ./score.sh -- ./agent.sh
  turntree explore status
  turntree explore continue --budget '$10'
  turntree explore keep

strategies.toml:
  [[strategy]]
  name = \"cache\"
  prompt = \"add a cache in front of the pool\"

  [[strategy]]
  name = \"other-model\"
  prompt = \"find the slow query\"
  command = [\"codex\", \"exec\", \"{prompt}\"]")]
pub(crate) struct Explore {
    #[command(subcommand)]
    action: Option<ExploreCommand>,
    #[command(flatten)]
    start: StartExploring,
}

#[derive(Debug, Subcommand)]
enum ExploreCommand {
    Status(Status),
    Continue(Continue),
    Keep(Keep),
}

#[derive(Debug, Args)]
struct StartExploring {
    /// A strategy: the name of its branch, and the prompt for the agent; may be given several times
    #[arg(long, value_name = "NAME=PROMPT", value_parser = strategy)]
    strategy: Vec<(String, String)>,
    /// Read strategies from a file: TOML, or JSON if its name ends with .json
    #[arg(long, value_name = "FILE", value_hint = clap::ValueHint::FilePath)]
    file: Option<PathBuf>,
    /// The snapshot to begin at; HEAD by default
    #[arg(long, value_name = "REV", add = ArgValueCompleter::new(revisions))]
    from: Option<String>,
    /// A line for the shell that checks a strategy in its worktree
    #[arg(long, value_name = "LINE")]
    check: Option<String>,
    /// How strategies follow each other
    #[arg(long, value_name = "KIND", value_enum, default_value_t)]
    search: Search,
    /// The number of rounds of --search halving or beam
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=64), hide_short_help = true)]
    rounds: Option<u32>,
    /// The number of strategies that --search beam continues
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=64), hide_short_help = true)]
    width: Option<u32>,
    /// Name of the exploration; explore by default
    #[arg(long, value_name = "NAME", hide_short_help = true)]
    name: Option<String>,
    /// Folder of the worktrees; by default next to the project, named after it and the exploration
    #[arg(long, value_name = "DIR", value_hint = clap::ValueHint::DirPath, hide_short_help = true)]
    folder: Option<PathBuf>,
    #[command(flatten)]
    limits: LimitOptions,
    #[command(flatten)]
    end: EndOptions,
    /// The command that runs a strategy
    #[arg(last = true, value_name = "COMMAND", required = true)]
    command: Vec<OsString>,
}

/// What follows when all strategies have ended.
#[derive(Debug, Args)]
struct EndOptions {
    /// Merge a strategy when all have ended
    #[arg(long, value_name = "WHICH", value_enum)]
    keep: Option<Which>,
}

/// The strategy to merge.
#[derive(Debug, Clone, Copy, ValueEnum)]
enum Which {
    /// The best one that passed
    Best,
}

/// How strategies follow each other.
#[derive(Debug, Clone, Copy, Default, ValueEnum)]
enum Search {
    /// Each runs once
    #[default]
    BestOf,
    /// Each round continues the better half
    Halving,
    /// Each round forks the best ones again, once for each strategy
    Beam,
}

/// Show an exploration: what runs, what has ended, and the ranked outcomes
#[derive(Debug, Args)]
struct Status {
    /// Its name; the newest by default
    #[arg(value_name = "NAME")]
    name: Option<String>,
}

/// Run what has not ended: after Ctrl-C, a kill, or a spent budget
#[derive(Debug, Args)]
struct Continue {
    /// Its name; the newest by default
    #[arg(value_name = "NAME")]
    name: Option<String>,
    #[command(flatten)]
    limits: LimitOptions,
    #[command(flatten)]
    end: EndOptions,
}

/// Merge a strategy with its files, and remove the worktrees whose files are in a snapshot
///
/// The branch from which the exploration was begun gets the merge, with its files. All branches
/// stay. 'turntree undo' reverts the merge.
#[derive(Debug, Args)]
struct Keep {
    /// The exploration; the newest by default
    #[arg(value_name = "NAME")]
    name: Option<String>,
    /// The strategy; the best one that passed by default
    #[arg(value_name = "STRATEGY")]
    strategy: Option<String>,
}

impl Verb for Explore {
    fn reads_only(&self) -> bool {
        matches!(self.action, Some(ExploreCommand::Status(_)))
    }

    fn run(&self, run: &mut Invocation) -> Result<Answer> {
        let repo = run.open()?;
        match &self.action {
            None => self.start.run(run, &repo),
            Some(ExploreCommand::Status(status)) => {
                let exploration = named(&repo, status.name.as_deref())?;
                show(run, &repo, &exploration)?;
                Ok(Answer::Yes)
            }
            Some(ExploreCommand::Continue(on)) => {
                let mut exploration = named(&repo, on.name.as_deref())?;
                on.limits.overrides().apply(&mut exploration.plan);
                explore(run, &repo, &mut exploration, on.end.keep)
            }
            Some(ExploreCommand::Keep(which)) => {
                let exploration = named(&repo, which.name.as_deref())?;
                let trial = named_trial(&exploration, which.strategy.as_deref())?;
                keep(run, &repo, &exploration, trial)
            }
        }
    }
}

impl StartExploring {
    fn run(&self, run: &mut Invocation, repo: &Repository) -> Result<Answer> {
        let options = PlanOptions {
            name: self.name.as_deref(),
            from: self.from.as_deref().unwrap_or(HEAD),
            strategies: &self.strategy,
            file: self.file.as_deref(),
            check: self.check.as_deref(),
            search: match self.search {
                Search::BestOf => SearchKind::BestOf,
                Search::Halving => SearchKind::Halving,
                Search::Beam => SearchKind::Beam,
            },
            rounds: self.rounds,
            width: self.width,
            folder: self.folder.as_deref(),
            command: &self.command,
            overrides: self.limits.overrides(),
        };
        let mut exploration = begin(repo, &options)?;
        explore(run, repo, &mut exploration, self.end.keep)
    }
}

/// Runs what has not ended, shows the outcomes, and merges the strategy to keep.
fn explore(
    run: &mut Invocation,
    repo: &Repository,
    exploration: &mut Exploration,
    which: Option<Which>,
) -> Result<Answer> {
    let name = exploration.name.clone();
    match drive(run, repo, exploration)? {
        Driven::Over => {}
        Driven::Spent => {
            warn(&format!(
                "the budget is spent: 'turntree explore continue {name}' with a larger --budget runs \
                 the rest"
            ));
        }
        Driven::Interrupted(signal) => {
            warn(&format!("interrupted: 'turntree explore continue {name}' continues from here"));
            run.out.flush()?;
            end_by(signal).map_err(|error| Error::io("end", error))?;
        }
    }
    show(run, repo, exploration)?;
    if let (Some(Which::Best), true) = (which, exploration.is_over()) {
        let Ok(trial) = named_trial(exploration, None) else { return Ok(Answer::No) };
        return keep(run, repo, exploration, trial);
    }
    Ok(if exploration.best().is_some() { Answer::Yes } else { Answer::No })
}

fn show(run: &mut Invocation, repo: &Repository, exploration: &Exploration) -> Result<()> {
    if !run.out.json {
        return write(&mut run.out, repo, exploration);
    }
    let mut spent = Spent::new(Prices::of(None)?.table);
    Ok(run.out.record(&record(repo, exploration, &mut spent)?)?)
}

fn strategy(text: &str) -> Result<(String, String), Error> {
    let parts = text.split_once('=').filter(|(name, _)| !name.is_empty());
    let parts = parts.map(|(name, prompt)| (name.to_owned(), prompt.to_owned()));
    parts.ok_or_else(|| Error::invalid(format!("'{text}': expected NAME=PROMPT")))
}
