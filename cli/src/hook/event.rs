//! Handles one hook event within its deadline. Errors go to the log.

use std::io::{self, Read, Write};
use std::panic;
use std::path::PathBuf;
use std::time::{Duration, Instant};

use turntree::repo::{BranchName, Repository, Signature};
use turntree::workspace::Claim;
use turntree_exchange::RollbackIntent;
use turntree_exchange::agents::hook::{Dialect, EventKind, HookEvent, MAX_EVENT_BYTES};
use turntree_exchange::agents::session_name;

use super::advice::{READ_BACK, circle, learned, shorten, told_beside};
use super::back::{BACK_TIME, asked_back, refusal, stopped};
use super::contributions::brought;
use super::effects::left_behind;
use super::files::{HookFiles, given_patience};
use super::running::RunningCalls;
use super::steps::Taken;
use super::turn::{HookTurn, kind_of};
use super::watch::{Rest, Watch};
use super::{calls, ending, running};
use crate::porcelain::workspace::project::project_of;
use crate::program::fault::place;
use crate::program::here::worktree_around;
use crate::program::invocation::{Invocation, has_own_branch, stamp};
use crate::program::live::note_end;
use crate::program::moved_project::note_project;
use crate::view::error::{Exit, Failure, Result};

/// The time limit for reading an event.
const READING: Duration = Duration::from_millis(1500);

/// The time limit of a background process.
const BACKGROUND: Duration = Duration::from_secs(300);

/// The lock of the background process; one runs at a time.
const CLAIM: &str = "hook-background";

/// Options for handling events.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Behaviour {
    pub(crate) dialect: Option<Dialect>,
    /// Offload tool outputs with more characters than this.
    pub(crate) offload: Option<u64>,
    /// Warn when the agent is in a loop.
    pub(crate) spiral: bool,
    /// In a loop, stop the agent and ask the user.
    pub(crate) pauses: bool,
    /// Show lessons to the agent.
    pub(crate) lessons: bool,
    /// Roll back when a prompt asks for it.
    pub(crate) rollback: bool,
    /// Capture the workspace.
    pub(crate) workspace: bool,
    /// The process runs in the background; no client waits for it.
    pub(crate) background: bool,
}

/// Handles an event from standard input. Never fails: an error of the store must not stop an agent.
pub(crate) fn take(run: &mut Invocation, behaviour: Behaviour) {
    let reading = READING + given_patience();
    let watch = Watch::begin(if behaviour.background { BACKGROUND } else { reading });
    if let Ok(dir) = run.store_dir() {
        watch.arm(&dir, None);
    }
    let noted = watch.clone();
    // The message of a panic may contain session content, so only its location is logged.
    panic::set_hook(Box::new(move |info| {
        noted.note(&format!("panic at {}", place(info.location())));
        noted.say_last_word();
        std::process::exit(Exit::Success as i32);
    }));
    match heard(run, behaviour, &watch) {
        Ok(Some(answer)) => {
            // A client that has closed the pipe needs no answer.
            let _ = writeln!(io::stdout(), "{answer}");
        }
        Ok(None) => {}
        Err(failure) => note(&watch, &failure),
    }
    watch.end();
}

/// Reads an event, and returns the answer. A rollback prompt never reaches the agent, whatever the
/// result.
fn heard(run: &mut Invocation, behaviour: Behaviour, watch: &Watch) -> Result<Option<String>> {
    let began = Instant::now();
    let mut bytes = Vec::new();
    let read = io::stdin().take(MAX_EVENT_BYTES as u64 + 1).read_to_end(&mut bytes);
    read.map_err(|error| turntree::Error::io("read the event", error))?;
    let event = HookEvent::parse(&bytes, behaviour.dialect)?;
    drop(bytes);
    if event.moment == EventKind::Other {
        return Ok(None);
    }
    let back = asked_back(&event).filter(|_| behaviour.rollback && !behaviour.background);
    let time = match back {
        Some(_) => BACK_TIME,
        None if behaviour.background => BACKGROUND,
        None => time_for(event.moment) + given_patience(),
    };
    watch.expect(event.dialect.name(), event.name, began + time);
    if back.is_none() {
        return answer(run, behaviour, &event, back, watch);
    }
    watch.say_at_end(stopped(&event));
    let answered = answer(run, behaviour, &event, back, watch);
    Ok(answered.unwrap_or_else(|failure| {
        note(watch, &failure);
        refusal(&event, &failure)
    }))
}

/// Logs an error.
fn note(watch: &Watch, failure: &Failure) {
    if let Failure::Library { error, .. } = failure {
        watch.note(&kind_of(error));
    }
}

fn answer(
    run: &mut Invocation,
    behaviour: Behaviour,
    event: &HookEvent,
    back: Option<RollbackIntent>,
    watch: &Watch,
) -> Result<Option<String>> {
    let stamp = Signature { actor: format!("hook/{}", event.dialect.name()), ..stamp()? };
    let is_settled = behaviour.background && ending::is_end(event.moment);
    let settled = is_settled.then_some(stamp.time);
    let Some(_claim) = claim(run, event, behaviour, watch)? else { return Ok(None) };
    watch.doing("open the store");
    run.keep_quiet();
    // A background process creates no store, because the user may have deleted it.
    let repo = if behaviour.background { run.open()? } else { run.open_or_create()? };
    let dir = repo.dir().to_owned();
    // A rollback is not handed to a background process: its answer would be lost.
    let own = has_own_branch().then(|| repo.head()).transpose()?.map(|head| head.branch);
    watch.arm(&dir, rest(event, behaviour, own.clone()).filter(|_| back.is_none()));
    if !behaviour.background {
        calls::note(&repo, event)?;
    }

    let worktree = worktree_of(&repo, event);
    let onto = own.or_else(|| worktree.as_ref().and_then(|(_, branch)| branch.clone()));
    let (looks, has_time) = (behaviour.workspace, behaviour.background);
    let root = worktree.map(|(dir, _)| dir);
    let running = RunningCalls::read(&repo, event);
    let project = match &root {
        Some(_) => None,
        None => event.cwd.as_deref().map(|cwd| project_of(&dir, cwd)),
    };
    if event.moment == EventKind::Start {
        note_project(&repo);
    }
    let files = HookFiles::new(event, looks, has_time, onto.is_some(), (root, project));
    let turn = HookTurn {
        repo: &repo,
        event,
        files: &files,
        stamp: stamp.clone(),
        onto,
        watch,
        settled,
        back,
        running,
        lessons: behaviour.lessons && !behaviour.background,
    };
    if event.moment == EventKind::BeforeTool && !behaviour.background {
        running::note(&repo, event, stamp.time);
    }
    if back.is_some() {
        return Ok(turn.go_back());
    }
    let Some(Taken { branch, tip, beside }) = turn.take()? else { return Ok(None) };
    if !files.is_unfinished() {
        turn.note_ends();
    }
    if event.moment == EventKind::End {
        note_end(&repo, branch.session(), stamp.time)?;
    }
    if files.is_unfinished() || ending::is_end(event.moment) {
        watch.hand_over();
    }
    // At a session start and in the background the answer is not shown, so a later event warns the
    // user.
    let listens = event.moment != EventKind::Start && !behaviour.background;
    let beside = beside.filter(|_| listens);
    let beside = beside.and_then(|beside| told_beside(&repo, &branch, &beside));
    if beside.is_some() {
        watch.doing("continue after a rollback");
        watch.note("the client continues with rolled-back turns: they become a branch");
    }
    if behaviour.background {
        if let Some(tip) = tip.filter(|_| event.moment == EventKind::End) {
            ending::check(&repo, &tip, watch)?;
        }
        return Ok(None);
    }
    watch.doing("offload a long output");
    let output = match behaviour.offload {
        Some(threshold) => shorten(&repo, event, threshold, &stamp)?,
        None => None,
    };
    watch.doing("detect a spiral");
    // Before a tool call an agent can be stopped, but not advised.
    let looks = behaviour.pauses || event.moment != EventKind::BeforeTool;
    let circle = match tip.filter(|_| behaviour.spiral && looks) {
        Some(tip) => circle(&repo, event, &tip)?,
        None => None,
    };
    let circle = match circle {
        Some(circle) if behaviour.pauses && event.stop("").is_some() => {
            let stopped =
                circle.stop(&repo, event, &branch, behaviour.rollback, beside.as_deref())?;
            if stopped.is_some() {
                return Ok(stopped);
            }
            None
        }
        circle => circle.filter(|_| event.moment != EventKind::BeforeTool).map(|it| it.warning()),
    };
    watch.doing("add lessons");
    let learned = match tip.filter(|_| behaviour.lessons) {
        Some(tip) => learned(&repo, event, &tip)?,
        None => None,
    };
    watch.doing("find effects of rolled-back turns");
    let left = match tip {
        Some(tip) => left_behind(&repo, event, &tip)?,
        None => None,
    };
    watch.doing("find merges into the branch");
    let brought = match tip {
        Some(tip) => brought(&repo, event, &tip)?,
        None => None,
    };
    let advice = [left, brought, learned, circle, output.is_some().then(|| READ_BACK.to_owned())];
    let advice = advice.into_iter().flatten();
    let advice = advice.collect::<Vec<_>>().join("\n");
    Ok(event.answer((!advice.is_empty()).then_some(&advice), output, beside.as_deref()))
}

/// Returns the worktree that an agent works in, and the branch for its turns there. A session that
/// the store already has, for example a resumed one, stays on its own branches.
fn worktree_of(repo: &Repository, event: &HookEvent) -> Option<(PathBuf, Option<BranchName>)> {
    let (dir, branch) = worktree_around(repo, event.cwd.as_deref()?)?;
    let path = event.transcript.clone().or_else(|| event.session.as_deref().map(PathBuf::from))?;
    let session = session_name(&path);
    let is_own = repo.branches().iter().any(|(known, _)| known.session() == session);
    Some((dir, (!is_own).then_some(branch)))
}

/// Returns the time limit of an event that an agent waits for.
fn time_for(moment: EventKind) -> Duration {
    match moment {
        EventKind::Start | EventKind::BeforeCompaction | EventKind::End => Duration::from_secs(5),
        EventKind::BeforeTool | EventKind::Stop | EventKind::AgentEnd => Duration::from_secs(3),
        EventKind::Prompt | EventKind::AfterTool | EventKind::Other => READING,
    }
}

/// Returns the work to repeat in a background process.
fn rest(event: &HookEvent, behaviour: Behaviour, onto: Option<BranchName>) -> Option<Rest> {
    if behaviour.background {
        return None;
    }
    let workspace = if behaviour.workspace { "auto" } else { "off" };
    let arguments =
        ["hook", "--background", "--dialect", event.dialect.name(), "--workspace", workspace];
    Some(Rest { arguments: arguments.map(str::to_owned).into(), event: event.brief(), onto })
}

/// Returns the claim to work. A process that an agent waits for needs none; background processes
/// work one at a time. At the end of a turn or session, waits first until the client has written
/// its last records.
#[expect(clippy::option_option, reason = "whether, and then what is held meanwhile")]
fn claim(
    run: &Invocation,
    event: &HookEvent,
    behaviour: Behaviour,
    watch: &Watch,
) -> Result<Option<Option<Claim>>> {
    if !behaviour.background {
        return Ok(Some(None));
    }
    let dir = run.store_dir()?;
    match event.transcript.as_deref().filter(|_| ending::is_end(event.moment)) {
        Some(transcript) => {
            watch.doing("wait for the end of the transcript");
            Ok(ending::settle(&dir, transcript, event.name).map(Some))
        }
        None => Ok(Claim::take(&dir, CLAIM).map(Some)),
    }
}
