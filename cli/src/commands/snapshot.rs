//! `snapshot`: puts a context on a branch; what a framework calls once a turn.

use std::io::Write;
use std::path::PathBuf;

use clap::Args;
use turntree::ErrorKind;
use turntree::context::{Builder, Context};
use turntree::object::{Memory, ObjectId, Trigger};
use turntree::repo::vfs::take_over;
use turntree::repo::{BranchName, NewPin, Repository, Snapshot as Draft, Stamp};
use turntree::workspace::workspace_metadata;
use turntree_exchange::{CHECK_PREFIX, FAILED, PASSED, apply_state};

use super::Verb;
use super::transition::{self, Request, Transitions};
use super::watching::{Due, Watching};
use crate::advice::Advice;
use crate::error::{Answer, Hint, Result};
use crate::invocation::{Invocation, input_name, read_input, stamp};
use crate::json;
use crate::output::{ID, NAME};
use crate::render::ID_DIGITS;
use crate::revision::branch_of;
use crate::workspace::{Limits, Workspace};

/// Metadata of a snapshot before a tool runs: its name, and the files that it is to change, a line each.
const TOOL: &str = "tool";
const TOUCHES: &str = "touches";

/// Take a snapshot of a context
///
/// The snapshot continues the newest one of the branch: a section that the state names is replaced,
/// null drops it, and all others carry over. The state is a JSON object whose keys are sections:
///
///   {"agents": {"main": {"messages": [{"role": "user", "content": "hi"}]}},
///    "scratchpad": {"note": {"content": "look at the tests"}}}
#[derive(Debug, Default, Args)]
#[command(after_long_help = "Examples:
  turntree snapshot -m 'before the refactoring' --workspace .
  turntree snapshot -m 'turn 7' --workspace . --time-budget 500ms --max-file-size 10MiB
  turntree snapshot -m 'turn 12' --state state.json --session nightly
  turntree snapshot --usage 7000/8192 --state state.json
  turntree snapshot --transition developer:debugger --task 'Fix the login'
  agent --dump-state | turntree snapshot -m 'turn 13' --state - --trigger turn
  turntree snapshot -m 'before the edit' --workspace . --trigger before-tool --tool fs.replace")]
pub(crate) struct Snapshot {
    /// Why it is taken, in words; --usage and --transition have words of their own
    #[arg(short, long, value_name = "TEXT", required_unless_present_any = ["usage", "transition"])]
    pub(crate) message: Option<String>,
    /// Take sections from this JSON document, or - for standard input
    #[arg(long, value_name = "FILE", value_hint = clap::ValueHint::FilePath)]
    pub(crate) state: Option<PathBuf>,
    /// Make the section files what this directory holds
    #[arg(long, value_name = "DIR", value_hint = clap::ValueHint::DirPath)]
    pub(crate) workspace: Option<PathBuf>,
    #[command(flatten)]
    pub(crate) limits: Limits,
    /// Put it on a branch of this session; main by default
    #[arg(long, value_name = "NAME")]
    pub(crate) session: Option<String>,
    /// Put it on this branch; HEAD's by default
    #[arg(long, value_name = "NAME")]
    pub(crate) branch: Option<String>,
    /// Why it is taken: manual, turn, before-tool, threshold, emergency, before-compaction,
    /// compaction, mode-change, before-restore, merge or rollback
    #[arg(long, value_name = "TRIGGER", default_value = "manual", value_parser = trigger)]
    pub(crate) trigger: Trigger,
    /// Who acts; TURNTREE_ACTOR or the user by default
    #[arg(long, value_name = "NAME")]
    pub(crate) agent: Option<String>,
    /// The model that spoke
    #[arg(long, value_name = "NAME")]
    pub(crate) model: Option<String>,
    /// The tool that is about to run, with --trigger before-tool
    #[arg(long, value_name = "NAME")]
    pub(crate) tool: Option<String>,
    /// A file that the tool is to change; may be given several times
    #[arg(long, value_name = "PATH", requires = "tool")]
    pub(crate) touches: Vec<String>,
    /// Record that a check passed or failed, as in tests=passed; 'compare' shows the newest of each
    #[arg(long, value_name = "NAME=RESULT", value_parser = check)]
    pub(crate) check: Vec<(String, &'static str)>,
    /// Pin it, so that retention never drops it
    #[arg(long)]
    pub(crate) pin: bool,
    #[command(flatten)]
    pub(crate) watching: Watching,
    #[command(flatten)]
    pub(crate) transitions: Transitions,
}

/// A snapshot that was taken.
pub(crate) struct Taken {
    id: ObjectId,
    turn: u64,
    branch: BranchName,
    /// Whether the branch begins with it, in a session that has others.
    begins: bool,
    /// The name of its pin.
    pin: Option<String>,
    workspace: Option<Workspace>,
    /// Which threshold it was taken for.
    watch: Option<json::Watched>,
}

impl Verb for Snapshot {
    fn run(&self, run: &mut Invocation) -> Result<Answer> {
        match &self.workspace {
            Some(dir) => self.limits.check(dir)?,
            None => self.limits.expect_none()?,
        }
        let state = self.state.as_deref().map(read_input).transpose()?;
        if run.would_create()? {
            self.check(state.as_deref())?;
        }
        let repo = run.open_or_create()?;
        let branch = branch_of(&repo, self.session.as_deref(), self.branch.as_deref())?;
        let stamp = stamp()?;
        if let Some(transition) = self.transitions.asked() {
            let request = Request {
                branch: &branch,
                message: self.message.as_deref(),
                agent: self.agent.as_deref(),
                model: self.model.as_deref(),
                state: state.as_deref(),
            };
            transition::take(run, &repo, &transition, &request, &stamp)?;
            return Ok(Answer::Yes);
        }
        let due = self.due(&repo, &branch, state.is_none(), &stamp)?;
        if let Some(due) = due.as_ref().filter(|due| due.level.is_none()) {
            due.keep(&repo, &branch, &stamp)?;
            return not_due(run, &repo, due, &branch);
        }
        let taken = self.take(&repo, state.as_deref(), due)?;
        if run.out.json {
            run.out.record(&taken.record())?;
            return Ok(Answer::Yes);
        }
        let Taken { id, turn, branch, begins, workspace, .. } = taken;
        let paint = run.out.paint;
        let (id, branch) = (paint.paint(ID, id.short(ID_DIGITS)), paint.paint(NAME, &branch));
        let begins = if begins { ", which begins with it" } else { "" };
        let pinned = if self.pin { ", pinned" } else { "" };
        writeln!(run.out, "{id} turn {turn} of {branch}{begins}{pinned}")?;
        if let Some(workspace) = &workspace {
            writeln!(run.out, "{}", workspace.summary())?;
        }
        Ok(Answer::Yes)
    }
}

impl Snapshot {
    /// Takes the snapshot, with the sections of `state`, for the threshold that is `due`.
    pub(crate) fn take(
        &self,
        repo: &Repository,
        state: Option<&[u8]>,
        due: Option<Due>,
    ) -> Result<Taken> {
        let stamp = stamp()?;
        let branch = branch_of(repo, self.session.as_deref(), self.branch.as_deref())?;
        let mut change = repo.begin();
        let tip = change.tip(&branch);
        let begins = tip.is_none()
            && repo.branches().iter().any(|(other, _)| other.session() == branch.session());
        let parent = match tip {
            Some(tip) => repo.context(&tip)?,
            None => Context::default(),
        };
        let mut builder = Builder::from(parent.clone());
        if let Some(state) = state {
            apply_state(&mut change, &mut builder, state)
                .map_err(|error| error.at(self.state_name()))?;
        }
        let workspace = match &self.workspace {
            None => None,
            Some(dir) => {
                Some(self.limits.capture(repo, &mut change, &parent, &mut builder, dir)?)
            }
        };
        take_over(&mut change, &mut builder)?;
        let tree = builder.write(&mut change)?;
        let message = match (&self.message, &due) {
            (Some(message), _) => message.clone(),
            (None, Some(due)) => due.words(),
            (None, None) => String::new(),
        };
        let mut draft = Draft::new(tree, &message, &stamp);
        draft.trigger = self.trigger;
        if let Some(due) = &due {
            due.apply(&mut change, &branch, &mut draft)?;
        }
        draft.metadata.extend(self.workspace.as_deref().map(workspace_metadata));
        if let Some(agent) = &self.agent {
            draft.author.agent.clone_from(agent);
        }
        draft.author.model = self.model.clone().unwrap_or_default();
        draft.metadata.extend(self.tool.clone().map(|tool| (TOOL.to_owned(), tool)));
        if !self.touches.is_empty() {
            draft.metadata.insert(TOUCHES.to_owned(), self.touches.join("\n"));
        }
        for (name, result) in &self.check {
            draft.metadata.insert(format!("{CHECK_PREFIX}{name}"), (*result).to_owned());
        }
        let id = change.snapshot(&branch, draft)?;
        let turn = change.commit(&id)?.turn;
        let new_pin = NewPin { reason: message, ..NewPin::default() };
        let pin = if self.pin { Some(change.pin(&id, new_pin, &stamp)?.name) } else { None };
        change.finish(&stamp, "snapshot").hint(
            ErrorKind::Conflict,
            Advice::anyone("another process put a snapshot on this branch meanwhile: try again"),
        )?;
        if let Some(workspace) = &workspace {
            workspace.keep(repo, &tree);
        }
        let watch = due.map(|due| due.told);
        Ok(Taken { id, turn, branch, begins, pin, workspace, watch })
    }

    /// Whether it is due, when that is asked.
    fn due(
        &self,
        repo: &Repository,
        branch: &BranchName,
        has_no_state: bool,
        stamp: &Stamp,
    ) -> Result<Option<Due>> {
        let messages = match repo.tip(branch) {
            Some(tip) => repo.context(&tip)?.message_count(repo.store())?,
            None => 0,
        };
        self.watching.look(repo, branch, messages == 0 && has_no_state, stamp)
    }

    /// What the state is called in messages.
    fn state_name(&self) -> String {
        self.state.as_deref().map_or_else(|| "state".to_owned(), input_name)
    }

    /// Fails where the snapshot would, so that a first one that fails leaves no new store behind.
    pub(crate) fn check(&self, state: Option<&[u8]>) -> Result<()> {
        let (mut sink, mut builder) = (Memory::new(), Builder::new());
        if let Some(state) = state {
            apply_state(&mut sink, &mut builder, state)
                .map_err(|error| error.at(self.state_name()))?;
        }
        Ok(())
    }
}

impl Taken {
    /// The same for programs.
    pub(crate) fn record(self) -> json::Moved {
        let workspace = self.workspace.as_ref().map(Workspace::record);
        let moved = json::Moved::new(Some((self.id, self.turn)), &self.branch);
        json::Moved { pin: self.pin, workspace, watch: self.watch, ..moved }
    }
}

/// Says why no snapshot was taken, and where the branch is.
fn not_due(
    run: &mut Invocation,
    repo: &Repository,
    due: &Due,
    branch: &BranchName,
) -> Result<Answer> {
    if run.out.json {
        let tip = repo.tip(branch);
        let tip = tip.map(|tip| Ok::<_, turntree::Error>((tip, repo.commit(&tip)?.turn)));
        let moved = json::Moved::new(tip.transpose()?, branch);
        run.out.record(&json::Moved { watch: Some(due.told.clone()), ..moved })?;
    } else {
        writeln!(run.out, "{}", due.words())?;
    }
    Ok(Answer::Yes)
}

fn check(text: &str) -> Result<(String, &'static str), turntree::Error> {
    let parts = text.split_once('=').filter(|(name, _)| !name.is_empty());
    let result = |result| [PASSED, FAILED].into_iter().find(|known| *known == result);
    let parsed = parts.and_then(|(name, text)| Some((name.to_owned(), result(text)?)));
    parsed.ok_or_else(|| {
        turntree::Error::invalid(format!("'{text}': expected NAME={PASSED} or NAME={FAILED}"))
    })
}

fn trigger(text: &str) -> Result<Trigger, turntree::Error> {
    text.parse()
}
