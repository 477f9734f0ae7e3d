//! Plans an exploration from options and a file of strategies, and begins it.

use std::collections::BTreeSet;
use std::ffi::OsString;
use std::fs;
use std::num::NonZero;
use std::path::{Path, PathBuf};
use std::thread::available_parallelism;
use std::time::Duration;

use serde::Deserialize;
use turntree::object::ObjectId;
use turntree::repo::{
    BranchName, Exploration, ExplorationBudget, ExplorationPlan, ExplorationStrategy,
    MAX_STRATEGIES, Repository, SearchKind,
};
use turntree::{Error, ErrorKind};

use super::trial::free_folder;
use crate::hook::program::on_path;
use crate::porcelain::read::branches::ForkStart;
use crate::porcelain::workspace::worktree::{plan_worktrees, project_of};
use crate::program::invocation::{input_name, read_input, stamp};
use crate::view::error::{Failure, Hint, Result};

/// The name of an exploration without one.
const NAME: &str = "explore";

/// The trials that the search `beam` continues, and its rounds.
const WIDTH: u32 = 2;
const BEAM_ROUNDS: u32 = 2;

/// The options of a new exploration.
#[derive(Debug)]
pub(crate) struct PlanOptions<'a> {
    pub(crate) name: Option<&'a str>,
    pub(crate) from: &'a str,
    pub(crate) strategies: &'a [(String, String)],
    pub(crate) file: Option<&'a Path>,
    pub(crate) check: Option<&'a str>,
    pub(crate) search: SearchKind,
    pub(crate) rounds: Option<u32>,
    pub(crate) width: Option<u32>,
    pub(crate) folder: Option<&'a Path>,
    pub(crate) command: &'a [OsString],
    pub(crate) overrides: Overrides,
}

/// Options that may change when an exploration is continued.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Overrides {
    pub(crate) jobs: Option<u32>,
    pub(crate) timeout: Option<Duration>,
    pub(crate) budget: Option<ExplorationBudget>,
}

/// A file of strategies.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct StrategiesFile {
    strategy: Vec<ExplorationStrategy>,
}

impl Overrides {
    /// Replaces the settings of a plan that are given.
    pub(crate) fn apply(&self, plan: &mut ExplorationPlan) {
        if let Some(jobs) = self.jobs {
            plan.jobs = jobs;
        }
        if let Some(timeout) = self.timeout {
            plan.timeout_ms = Some(u64::try_from(timeout.as_millis()).unwrap_or(u64::MAX));
        }
        if self.budget.is_some() {
            plan.budget = self.budget;
        }
    }
}

impl PlanOptions<'_> {
    fn strategies(&self) -> Result<Vec<ExplorationStrategy>> {
        let mut strategies = match self.file {
            Some(path) => read_strategies(path)?,
            None => Vec::new(),
        };
        strategies.extend(self.strategies.iter().map(|(name, prompt)| ExplorationStrategy {
            name: name.clone(),
            prompt: prompt.clone(),
            command: Vec::new(),
        }));
        if strategies.is_empty() {
            let error = Error::invalid("an exploration needs at least one strategy");
            let hint = "--strategy NAME=PROMPT adds one, --file reads a list of them";
            return Err(Failure::hinted(error, hint));
        }
        if strategies.len() > MAX_STRATEGIES {
            let found = strategies.len() as u64;
            return Err(Error::limit("strategies", MAX_STRATEGIES as u64, found).into());
        }
        let mut names = BTreeSet::new();
        for strategy in &strategies {
            if strategy.name.contains('/') {
                let error = format!("'{}' cannot name a strategy: it has a '/'", strategy.name);
                return Err(Error::invalid(error).into());
            }
            if !names.insert(strategy.name.to_lowercase()) {
                let twice = format!("strategy {} is named twice", strategy.name);
                return Err(Failure::hinted(Error::invalid(twice), "choose another name"));
            }
        }
        Ok(strategies)
    }
}

/// Plans an exploration, checks it, and records it. Nothing runs yet.
///
/// # Errors
/// `InvalidInput` for strategies that cannot be branches, and for a command that is not found.
pub(crate) fn begin(repo: &Repository, options: &PlanOptions<'_>) -> Result<Exploration> {
    let strategies = options.strategies()?;
    let command = words(options.command)?;
    for strategy in &strategies {
        let own = if strategy.command.is_empty() { &command } else { &strategy.command };
        check_command(own)?;
    }
    let names: Vec<&str> = strategies.iter().map(|strategy| &*strategy.name).collect();
    let start = ForkStart::of(repo, options.from, None, &names)?;
    let Some(session) = start.branches.first().map(|branch| branch.session().to_owned()) else {
        return Err(Error::invalid("an exploration needs at least one strategy").into());
    };
    let name = free_name(repo, &session, options.name)?;
    let folder = match options.folder {
        Some(folder) => std::path::absolute(folder)
            .map_err(|error| Error::io(format!("find {}", folder.display()), error))?,
        None => default_folder(repo, &start.commit, &name)?,
    };
    let count = u32::try_from(strategies.len()).unwrap_or(u32::MAX);
    let (rounds, width) = match options.search {
        SearchKind::BestOf if options.rounds.is_some_and(|rounds| rounds > 1) => {
            let error = Error::invalid("the search best-of has one round");
            return Err(Failure::hinted(error, "--search halving or beam has several"));
        }
        SearchKind::BestOf => (1, 1),
        SearchKind::Halving => {
            (options.rounds.unwrap_or_else(|| count.next_power_of_two().ilog2().max(1)), 1)
        }
        SearchKind::Beam => (options.rounds.unwrap_or(BEAM_ROUNDS), options.width.unwrap_or(WIDTH)),
    };
    let processors = available_parallelism().map_or(1, NonZero::get);
    let jobs = u32::try_from(processors).unwrap_or(u32::MAX).min(count).max(1);
    let mut plan = ExplorationPlan {
        strategies,
        command,
        check: options.check.map(str::to_owned),
        search: options.search,
        rounds,
        width,
        folder: utf8(&folder)?,
        jobs,
        timeout_ms: None,
        budget: None,
    };
    options.overrides.apply(&mut plan);
    let head = repo.head()?.branch;
    let into = if head.session() == session { head } else { BranchName::main(&session)? };
    // A folder that cannot be made or have worktrees is found before anything is recorded.
    fs::create_dir_all(&folder)
        .map_err(|error| Error::io(format!("make {}", folder.display()), error))?;
    let place = |branch: &BranchName| Ok((branch.clone(), free_folder(&folder, branch.branch())?));
    let wanted = start.branches.iter().map(place).collect::<Result<Vec<_>>>();
    if let Err(failure) = wanted.and_then(|wanted| plan_worktrees(repo, &start.commit, wanted)) {
        // Only an empty folder can be removed.
        let _ = fs::remove_dir(&folder);
        return Err(failure);
    }
    let stamp = stamp()?;
    let mut exploration = Exploration {
        session,
        name,
        from: start.commit,
        into,
        began_micros: stamp.time.micros,
        plan,
        trials: Vec::new(),
    };
    exploration.first_round()?;
    let mut change = repo.begin();
    change.set_exploration(&exploration)?;
    change.commit(&stamp, &format!("explore {}", exploration.name))?;
    Ok(exploration)
}

fn read_strategies(path: &Path) -> Result<Vec<ExplorationStrategy>> {
    let file = input_name(path);
    let bytes = read_input(path)?;
    let refused = |error: &dyn std::fmt::Display| Error::invalid(format!("{file}: {error}"));
    let read: StrategiesFile = match path.extension().is_some_and(|end| end == "json") {
        true => serde_json::from_slice(&bytes).map_err(|error| refused(&error))?,
        false => {
            let text = std::str::from_utf8(&bytes).map_err(|error| refused(&error))?;
            basic_toml::from_str(text).map_err(|error| refused(&error))?
        }
    };
    Ok(read.strategy)
}

fn words(command: &[OsString]) -> Result<Vec<String>> {
    let word = |word: &OsString| {
        let text = word.to_str().map(str::to_owned);
        text.ok_or_else(|| Error::invalid("a word of the command is not UTF-8").into())
    };
    command.iter().map(word).collect()
}

/// Refuses a command whose program is not found, before anything is created.
fn check_command(command: &[String]) -> Result<()> {
    let Some(program) = command.first().filter(|program| !program.is_empty()) else {
        let error = Error::invalid("an exploration needs a command that runs a strategy");
        return Err(Failure::hinted(error, "it comes after --, as in -- claude -p {prompt}"));
    };
    let path = Path::new(program);
    let is_found = match path.is_absolute() {
        true => path.is_file(),
        // A relative path is one of the worktree.
        false => path.components().count() > 1 || program.contains('{') || on_path(path).is_some(),
    };
    match is_found {
        true => Ok(()),
        false => Err(Error::not_found(format!("there is no program '{program}'")))
            .hint(ErrorKind::NotFound, "install it, or name it with its path"),
    }
}

fn free_name(repo: &Repository, session: &str, wanted: Option<&str>) -> Result<String> {
    let is_taken = |name: &str| Ok::<_, Error>(repo.exploration(session, name)?.is_some());
    if let Some(name) = wanted {
        BranchName::new(session, name).map_err(|error| error.at("--name"))?;
        if name.contains('/') {
            let error = format!("'{name}' cannot name an exploration: it has a '/'");
            return Err(Error::invalid(error).into());
        }
        if is_taken(name)? {
            let error = Error::invalid(format!("exploration {name} exists already"));
            let hint = format!("choose another name, or 'turntree explore continue {name}'");
            return Err(Failure::hinted(error, hint));
        }
        return Ok(name.to_owned());
    }
    let mut name = NAME.to_owned();
    for number in 2_u32.. {
        if !is_taken(&name)? {
            break;
        }
        name = format!("{NAME}-{number}");
    }
    Ok(name)
}

/// The folder next to the project, named after both.
fn default_folder(repo: &Repository, from: &ObjectId, name: &str) -> Result<PathBuf> {
    let project = project_of(repo, from)?;
    let place =
        project.as_deref().and_then(|project| Some((project.parent()?, project.file_name()?)));
    let Some((parent, project)) = place else {
        let error = Error::invalid("the snapshot names no project to put worktrees next to");
        return Err(Failure::hinted(error, "--folder DIR names the folder of the worktrees"));
    };
    Ok(parent.join(format!("{}-{name}", project.to_string_lossy())))
}

fn utf8(path: &Path) -> Result<String> {
    let text = path.to_str().map(str::to_owned);
    text.ok_or_else(|| Error::invalid(format!("{} is not UTF-8", path.display())).into())
}
