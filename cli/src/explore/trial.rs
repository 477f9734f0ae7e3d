//! Begins and ends trials. Each does so in one operation that moves its branch and the record.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::thread::sleep;
use std::time::{Duration, Instant};

use turntree::context::{Builder, Context, Selection};
use turntree::object::ObjectId;
use turntree::repo::{
    Exploration, Repository, SearchKind, SnapshotDraft, Transaction, Trial, TrialOutcome,
    TrialStart,
};
use turntree::workspace::RewindRequest;
use turntree::{Error, ErrorKind};
use turntree_exchange::agents::resuming_agent;
use turntree_exchange::{CHECK_PREFIX, FAILED, PASSED};

use super::child::{CheckOutput, Child, FOR_HOOKS, log_to};
use super::lock::DriverLock;
use crate::hook::recording::is_recording;
use crate::hook::worktree::carry_settings;
use crate::platform::shell_command;
use crate::porcelain::workspace::agent_session::AgentSession;
use crate::porcelain::workspace::capture::{Limits, Workspace};
use crate::porcelain::workspace::rewind::RewindRun;
use crate::porcelain::workspace::worktree::{MadeWorktrees, plan_worktrees};
use crate::program::invocation::stamp;
use crate::view::error::{Failure, Result};
use crate::view::output::warn;

/// The name of the check in snapshots and in `compare`.
const CHECK: &str = "check";

/// Metadata of the last snapshot of a trial: the exploration, and the score.
const OF: &str = "x-explore";
const SCORE: &str = "x-score";

/// The message of a rollback to the start of a trial.
const AGAIN: &str = "starts again: the trial was interrupted";

/// The placeholder of the id of the agent's session.
const SESSION: &str = "{session}";

/// The maximum number of retries after concurrent commits.
const MAX_ATTEMPTS: usize = 100;

/// The interval between two looks whether hooks of an interrupted trial still record.
const STEP: Duration = Duration::from_millis(20);

/// The most directories of one name to try.
const MAX_FOLDERS: u32 = 1000;

/// Begins a trial, or begins it again: its worktree has the files of its start.
pub(super) fn begin(
    repo: &Repository,
    exploration: &mut Exploration,
    place: usize,
) -> Result<TrialStart> {
    let trial = at(exploration, place)?.clone();
    if let Some(start) = &trial.start {
        begin_again(repo, &trial, start)?;
        return Ok(start.clone());
    }
    let parent = trial.parent.map(|parent| at(exploration, parent).cloned()).transpose()?;
    if let (SearchKind::Halving, Some(parent)) = (exploration.plan.search, &parent) {
        return go_on(repo, exploration, place, parent);
    }
    let from = match &parent {
        Some(parent) => tip(repo, parent)?,
        None => exploration.from,
    };
    let folder = PathBuf::from(&exploration.plan.folder);
    fs::create_dir_all(&folder)
        .map_err(|error| Error::io(format!("make {}", folder.display()), error))?;
    if repo.tip(&trial.branch).is_some() {
        let error = Error::invalid(format!("branch {} exists already", trial.branch));
        let hint = "'turntree branch --rename OLD NEW' gives it another name; then continue";
        return Err(Failure::hinted(error, hint));
    }
    let dir = free_folder(&folder, trial.branch.branch())?;
    let planned = plan_worktrees(repo, &from, vec![(trial.branch.clone(), dir)])?;
    let mut worktrees = MadeWorktrees::default();
    for planned in planned {
        worktrees.make(repo, &from, planned)?;
    }
    let mut change = repo.begin();
    worktrees.stage(repo, &mut change, &from)?;
    let commit = change.tip(&trial.branch).unwrap_or(from);
    let Some(dir) = worktrees.first().map(|made| made.workspace.clone()) else {
        return Err(Error::invalid("a trial has no worktree").into());
    };
    let start = TrialStart { commit, dir: utf8(&dir)? };
    set_start(exploration, place, start.clone());
    change.set_exploration(exploration)?;
    let reason = format!("explore {}: {} begins", exploration.name, trial.branch);
    change.commit(&stamp()?, &reason)?;
    worktrees.keep(repo).iter().for_each(carry_settings);
    Ok(start)
}

/// Begins a later round on the branch and in the worktree of `parent`.
fn go_on(
    repo: &Repository,
    exploration: &mut Exploration,
    place: usize,
    parent: &Trial,
) -> Result<TrialStart> {
    let Some(dir) = parent.start.as_ref().map(|start| start.dir.clone()) else {
        return Err(Error::invalid(format!("{} has not begun", parent.branch)).into());
    };
    let start = TrialStart { commit: tip(repo, parent)?, dir };
    set_start(exploration, place, start.clone());
    let mut change = repo.begin();
    change.set_exploration(exploration)?;
    let reason = format!("explore {}: {} continues", exploration.name, parent.branch);
    change.commit(&stamp()?, &reason)?;
    Ok(start)
}

/// Rolls an interrupted trial back to its start. Its turns and its files stay in the history of its
/// branch.
fn begin_again(repo: &Repository, trial: &Trial, start: &TrialStart) -> Result<()> {
    let dir = PathBuf::from(&start.dir);
    if !dir.is_dir() {
        let error =
            Error::not_found(format!("the worktree of {} is missing: {}", trial.branch, start.dir));
        return Err(Failure::hinted(error, "create the directory again, then continue"));
    }
    let began = Instant::now();
    while is_recording(repo.dir(), &trial.branch) && began.elapsed() < FOR_HOOKS {
        sleep(STEP);
    }
    repo.refresh()?;
    let restore = RewindRequest {
        branch: trial.branch.clone(),
        from: start.commit,
        only: Selection::default(),
        workspace: Some(dir),
        is_rollback: true,
        keep_lessons: false,
        audit: false,
        message: AGAIN.to_owned(),
    };
    let rewind = RewindRun::new(restore, "explore", false, None);
    let looked = rewind.look(repo)?;
    if tip(repo, trial)? == start.commit && !looked.plan().changes_anything() {
        return Ok(());
    }
    let done = rewind.apply(repo, looked)?;
    if let Some((path, error)) = done.arranged.as_ref().and_then(|arranged| arranged.worst()) {
        let place = Path::new(&start.dir).join(path);
        let message = format!("{} was not restored: {error}", place.display());
        return Err(Error::new(ErrorKind::Conflict, message).into());
    }
    Ok(())
}

/// Starts the command of a trial. If its words name a session, the branch is first written out as one
/// of the agent.
///
/// # Errors
/// `Io` if its program cannot be run; errors of writing the session.
pub(super) fn start_command(
    repo: &Repository,
    exploration: &Exploration,
    place: usize,
    store: &Path,
    lock: &DriverLock,
) -> Result<Child> {
    let trial = at(exploration, place)?;
    let strategy = exploration.plan.strategies.get(trial.strategy);
    let own = strategy.map(|strategy| &strategy.command).filter(|command| !command.is_empty());
    let words = own.unwrap_or(&exploration.plan.command);
    let mut facts = Facts::of(exploration, trial);
    if words.iter().any(|word| word.contains(SESSION)) {
        facts.session = write_session(repo, trial, words, facts.dir)?;
    }
    let mut words = words.iter().map(|word| facts.fill(word));
    let program = words.next().unwrap_or_default();
    let mut command = Command::new(&program);
    command.args(words);
    facts.prepare(&mut command, store);
    let failed = |error| Error::io(format!("run '{program}'"), error);
    command.stdin(lock.input().map_err(failed)?);
    log_to(&mut command, &log_of(facts.dir)).map_err(failed)?;
    Ok(Child::start(&mut command, exploration.plan.timeout()).map_err(failed)?)
}

/// Writes the branch of a trial out as a session of the agent that `words` run, or of the agent of the
/// branch, and returns its id. The turns of that session continue the branch.
fn write_session(repo: &Repository, trial: &Trial, words: &[String], dir: &str) -> Result<String> {
    let program = words.first().and_then(|program| Path::new(program).file_stem()?.to_str());
    let agent = program.and_then(resuming_agent);
    let onto = Some(trial.branch.clone());
    let session = AgentSession::plan(repo, (tip(repo, trial)?, None), agent, onto, dir.into())?;
    session.write(repo, &mut MadeWorktrees::default())?;
    session.prepare()?;
    Ok(session.id)
}

/// Starts the check of a trial, if the exploration has one.
pub(super) fn start_check(
    exploration: &Exploration,
    place: usize,
    store: &Path,
    lock: &DriverLock,
) -> Result<Option<(Child, CheckOutput)>> {
    let Some(line) = &exploration.plan.check else { return Ok(None) };
    let facts = Facts::of(exploration, at(exploration, place)?);
    let mut command = shell_command(line);
    facts.prepare(&mut command, store);
    let failed = |error| Error::io("run the check", error);
    command.stdin(lock.input().map_err(failed)?);
    log_to(&mut command, &log_of(facts.dir)).map_err(failed)?;
    let output = CheckOutput::of(&mut command).map_err(failed)?;
    let child = Child::start(&mut command, exploration.plan.timeout()).map_err(failed)?;
    Ok(Some((child, output)))
}

/// Ends a trial: stores the files of its worktree with the outcome of its check.
pub(super) fn end(
    repo: &Repository,
    exploration: &mut Exploration,
    place: usize,
    outcome: &TrialOutcome,
) -> Result<()> {
    if let Some(trial) = exploration.trials.get_mut(place) {
        trial.outcome = Some(outcome.clone());
    }
    let trial = at(exploration, place)?.clone();
    let verdict = if outcome.passed { PASSED } else { FAILED };
    for attempt in 1.. {
        repo.refresh()?;
        let mut change = repo.begin();
        let captured = match (change.tip(&trial.branch), &trial.start) {
            (Some(tip), Some(start)) => {
                let dir = Path::new(&start.dir);
                let mut metadata = vec![(OF.to_owned(), exploration.name.clone())];
                metadata.extend(outcome.score.map(|score| (SCORE.to_owned(), score.to_string())));
                if exploration.plan.check.is_some() {
                    metadata.push((format!("{CHECK_PREFIX}{CHECK}"), verdict.to_owned()));
                }
                Some(snapshot(repo, &mut change, &trial, (&tip, dir), metadata)?)
            }
            // Without a branch there is nothing to store.
            _ => None,
        };
        change.set_exploration(exploration)?;
        let reason = format!("explore {}: {} {verdict}", exploration.name, trial.branch);
        match change.commit(&stamp()?, &reason) {
            Ok(_) => {
                if let Some((Some(workspace), tree)) = captured {
                    workspace.keep(repo, &tree);
                }
                return Ok(());
            }
            // A hook of the agent may have added a turn.
            Err(error) if error.kind() == ErrorKind::Conflict && attempt < MAX_ATTEMPTS => {}
            Err(error) => return Err(error.into()),
        }
    }
    Ok(())
}

/// Adds the last snapshot of a trial, with the files of its directory if they can be captured.
fn snapshot(
    repo: &Repository,
    change: &mut Transaction<'_>,
    trial: &Trial,
    (tip, dir): (&ObjectId, &Path),
    metadata: Vec<(String, String)>,
) -> Result<(Option<Workspace>, ObjectId)> {
    let context = Context::open(change, &change.read_commit(tip)?.tree)?;
    let mut builder = Builder::from(context.clone());
    let captured = match Limits::default().capture(repo, change, &context, &mut builder, dir) {
        Ok(captured) => Some(captured),
        Err(failure) => {
            // The worktree stays as it is: it is only removed if a snapshot has its files.
            warn(&format!("{}: its files were not captured: {}", trial.branch, failure.message()));
            builder = Builder::from(context);
            None
        }
    };
    let tree = builder.write(change)?;
    let mut draft = SnapshotDraft::new(tree, "the end of its trial", &stamp()?);
    draft.metadata.extend(metadata);
    draft.metadata.extend(captured.iter().flat_map(|captured| captured.metadata(dir)));
    change.snapshot(&trial.branch, draft)?;
    Ok((captured, tree))
}

/// The log of the commands that run in a worktree: a file beside it.
pub(super) fn log_of(dir: &str) -> PathBuf {
    PathBuf::from(format!("{}.log", dir.trim_end_matches(['/', '\\'])))
}

/// The facts of a trial that its command gets in words and variables.
struct Facts<'e> {
    exploration: &'e Exploration,
    trial: &'e Trial,
    name: &'e str,
    prompt: &'e str,
    dir: &'e str,
    /// The id of the session of the agent, if one was written.
    session: String,
}

impl<'e> Facts<'e> {
    fn of(exploration: &'e Exploration, trial: &'e Trial) -> Self {
        let strategy = exploration.plan.strategies.get(trial.strategy);
        let (name, prompt) = strategy.map_or(("", ""), |it| (&*it.name, &*it.prompt));
        let dir = trial.start.as_ref().map_or("", |start| &*start.dir);
        Self { exploration, trial, name, prompt, dir, session: String::new() }
    }

    /// Replaces the placeholders of a word, each once, so that a prompt cannot add any.
    fn fill(&self, word: &str) -> String {
        let (branch, round) = (self.trial.branch.to_string(), self.trial.round.to_string());
        let known = [
            ("{prompt}", self.prompt),
            ("{name}", self.name),
            ("{dir}", self.dir),
            ("{branch}", &*branch),
            ("{round}", &*round),
            (SESSION, &*self.session),
        ];
        let (mut filled, mut rest) = (String::new(), word);
        while let Some((before, after)) = rest.split_once('{') {
            filled += before;
            let placeholder = rest.get(before.len()..).unwrap_or_default();
            match known.iter().find(|(name, _)| placeholder.starts_with(name)) {
                Some((name, value)) => {
                    filled += value;
                    rest = placeholder.get(name.len()..).unwrap_or_default();
                }
                None => {
                    filled.push('{');
                    rest = after;
                }
            }
        }
        filled + rest
    }

    /// Sets the directory and the environment of a command.
    fn prepare(&self, command: &mut Command, store: &Path) {
        command.current_dir(self.dir);
        command.env("TURNTREE_STORE", store).env("TURNTREE_BRANCH", self.trial.branch.to_string());
        command.env("TURNTREE_EXPLORATION", &self.exploration.name);
        command.env("TURNTREE_STRATEGY", self.name).env("TURNTREE_PROMPT", self.prompt);
        command.env("TURNTREE_ROUND", self.trial.round.to_string());
    }
}

/// A trial of an exploration.
pub(super) fn at(exploration: &Exploration, place: usize) -> Result<&Trial> {
    let trial = exploration.trials.get(place);
    trial.ok_or_else(|| Error::invalid("the exploration has no such trial").into())
}

fn set_start(exploration: &mut Exploration, place: usize, start: TrialStart) {
    if let Some(trial) = exploration.trials.get_mut(place) {
        trial.start = Some(start);
    }
}

fn tip(repo: &Repository, trial: &Trial) -> Result<ObjectId> {
    repo.tip(&trial.branch).ok_or_else(|| {
        let error = Error::not_found(format!("branch {} was deleted", trial.branch));
        Failure::hinted(error, "'turntree undo' brings it back")
    })
}

/// A directory that does not exist yet. One that a kill has left behind stays as it is.
pub(super) fn free_folder(folder: &Path, name: &str) -> Result<PathBuf> {
    let names = (1..MAX_FOLDERS).map(|number| match number {
        1 => folder.join(name),
        number => folder.join(format!("{name}-{number}")),
    });
    let mut free = names.filter(|dir| fs::symlink_metadata(dir).is_err());
    free.next().ok_or_else(|| {
        let full = format!("{} has too many directories called {name}", folder.display());
        Error::invalid(full).into()
    })
}

fn utf8(path: &Path) -> Result<String> {
    let text = path.to_str().map(str::to_owned);
    text.ok_or_else(|| Error::invalid(format!("{} is not UTF-8", path.display())).into())
}

#[cfg(test)]
mod tests {
    use turntree::object::{Kind, ObjectId};
    use turntree::repo::{BranchName, ExplorationPlan, ExplorationStrategy, SearchKind};

    use super::*;

    #[test]
    fn placeholders_are_filled_once_and_other_braces_stay() {
        let branch = BranchName::new("s", "a").unwrap();
        let mut exploration = Exploration {
            session: "s".to_owned(),
            name: "explore".to_owned(),
            from: ObjectId::of(Kind::Blob, b""),
            into: branch,
            began_micros: 0,
            plan: ExplorationPlan {
                strategies: vec![ExplorationStrategy {
                    name: "a".to_owned(),
                    prompt: "say {name} $HOME; rm".to_owned(),
                    command: Vec::new(),
                }],
                command: Vec::new(),
                check: None,
                search: SearchKind::BestOf,
                rounds: 1,
                width: 1,
                folder: String::new(),
                jobs: 1,
                timeout_ms: None,
                budget: None,
            },
            trials: Vec::new(),
        };
        exploration.first_round().unwrap();
        let facts = Facts::of(&exploration, &exploration.trials[0]);
        assert_eq!(facts.fill("--p={prompt}|{round}"), "--p=say {name} $HOME; rm|1");
        assert_eq!(facts.fill("{\"a\":\"{name}\",{x}} {branch"), "{\"a\":\"a\",{x}} {branch");
    }
}
