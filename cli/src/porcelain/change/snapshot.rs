//! Takes snapshots: options, branch and time, and the result.

use std::collections::BTreeMap;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use bytes::Bytes;
use clap::Args;
use turntree::context::{Builder, Context, MessageEntry, Role};
use turntree::object::{Memory, ObjectId, ObjectSink, Trigger};
use turntree::platform::canonical;
use turntree::repo::{BranchName, NewPin, Repository, Signature, SnapshotDraft};
use turntree::{Error, ErrorKind};
use turntree_exchange::agents::session_name;
use turntree_exchange::{
    CHECK_PREFIX, FAILED, GIT_BRANCH, GIT_REMOTE, PASSED, apply_edits, apply_state,
};

use super::context_edits::EditOptions;
use super::thresholds::DueCheck;
use crate::porcelain::git::head::{GitFacts, git_facts};
use crate::porcelain::read::revision::{branch_of, resolve};
use crate::porcelain::workspace::capture::{Limits, Workspace};
use crate::program::here::Here;
use crate::program::invocation::{Invocation, input_name, read_input, stamp};
use crate::program::live::client_session;
use crate::program::trust::user_store;
use crate::view::advice::Advice;
use crate::view::error::{Failure, Hint, Result};
use crate::view::json;
use crate::view::output::{ID, Output};
use crate::view::render::ID_DIGITS;

/// Metadata of a snapshot before a tool runs: the name of the tool, and the files that it will
/// change, one per line.
const TOOL: &str = "tool";
const TOUCHES: &str = "touches";

/// The prefix of metadata that turntree does not read.
const OWN_PREFIX: &str = "x-";

/// The hints if another process has committed first.
const RACE: &str =
    "another process has added a snapshot to this branch: --retry puts this one on top";
const RACE_CALL: &str =
    "another process has added a snapshot to this branch: retry = true puts this one on top";

/// The message of a snapshot without one.
const DEFAULT_MESSAGE: &str = "snapshot";

/// Options of all snapshots: message, state, branch, author.
#[derive(Debug, Default, Args)]
pub(crate) struct SnapshotBasics {
    /// Message of the snapshot
    #[arg(short, long, value_name = "TEXT")]
    pub(crate) message: Option<String>,
    /// Replace the sections that this JSON document names; - is standard input
    #[arg(long, value_name = "FILE", value_hint = clap::ValueHint::FilePath)]
    pub(crate) state: Option<PathBuf>,
    /// Put it on a branch of this session; main by default
    #[arg(long, value_name = "NAME")]
    pub(crate) session: Option<String>,
    /// Put it on this branch; HEAD's by default
    #[arg(long, value_name = "NAME")]
    pub(crate) branch: Option<String>,
    /// Name of the actor; TURNTREE_ACTOR or the user by default
    #[arg(long, value_name = "NAME", hide_short_help = true)]
    pub(crate) agent: Option<String>,
    /// Name of the model that produced the turn
    #[arg(long, value_name = "NAME", hide_short_help = true)]
    pub(crate) model: Option<String>,
}

/// Options of a snapshot of a context.
#[derive(Debug, Default, Args)]
pub(crate) struct NewSnapshot {
    #[command(flatten)]
    pub(crate) basics: SnapshotBasics,
    #[command(flatten)]
    pub(crate) edits: Box<EditOptions>,
    /// Capture the files of this directory as the section files
    #[arg(long, value_name = "DIR", value_hint = clap::ValueHint::DirPath)]
    pub(crate) workspace: Option<PathBuf>,
    #[command(flatten)]
    pub(crate) limits: Limits,
    /// Reason for it: manual, turn, before-tool, threshold, emergency, before-compaction,
    /// compaction, mode-change, before-restore, merge or rollback
    #[arg(long, value_name = "TRIGGER", default_value = "manual", value_parser = trigger, hide_short_help = true)]
    pub(crate) trigger: Trigger,
    /// The tool that is about to run, with --trigger before-tool
    #[arg(long, value_name = "NAME", hide_short_help = true)]
    pub(crate) tool: Option<String>,
    /// A file that the tool will change; may be given several times
    #[arg(long, value_name = "PATH", requires = "tool", hide_short_help = true)]
    pub(crate) touches: Vec<String>,
    /// Record that a check passed or failed, as in tests=passed; 'compare' shows the newest of each
    #[arg(long, value_name = "NAME=RESULT", value_parser = check)]
    pub(crate) check: Vec<(String, &'static str)>,
    /// Custom metadata, as in x-run=812, which 'log --meta' finds; may be given several times
    #[arg(long, value_name = "x-NAME=VALUE", value_parser = own_fact, hide_short_help = true)]
    pub(crate) meta: Vec<(String, String)>,
    /// Pin it, so that retention never drops it
    #[arg(long)]
    pub(crate) pin: bool,
}

/// What to do if another process writes to the branch.
#[derive(Debug, Default, Args)]
pub(crate) struct Racing {
    /// Fail with exit code 3 unless this is the newest snapshot of the branch
    #[arg(long, value_name = "REV", conflicts_with = "retry", hide_short_help = true)]
    pub(crate) expect: Option<String>,
    /// If another process commits first, retry on top of its snapshot; the default where messages
    /// are appended
    #[arg(long, hide_short_help = true)]
    pub(crate) retry: bool,
}

/// The branch, the actor and the time of a snapshot.
#[derive(Debug)]
pub(crate) struct At {
    pub(crate) branch: BranchName,
    pub(crate) stamp: Signature,
}

/// An open store, ready for a snapshot.
#[derive(Debug)]
pub(crate) struct SnapshotTarget {
    pub(crate) repo: Arc<Repository>,
    pub(crate) at: At,
    pub(crate) input: ContextInput,
}

/// Documents that change a context: first sections are replaced, then entries are added.
#[derive(Debug, Default)]
pub(crate) struct ContextInput {
    /// The document with the sections to replace.
    pub(crate) state: Option<Bytes>,
    /// The document of edits.
    pub(crate) edits: Option<Bytes>,
    /// The name of the state document, for messages.
    state_name: Option<String>,
}

impl ContextInput {
    /// The documents of a service call.
    pub(crate) fn of_call(state: Option<Bytes>, edits: Option<Bytes>) -> Self {
        Self { state, edits, state_name: None }
    }

    /// Returns true if the context of the snapshot has a user message.
    pub(crate) fn has_user_message(&self, repo: &Repository, branch: &BranchName) -> Result<bool> {
        let mut change = repo.begin();
        let tip = change.tip(branch);
        let context = tip.map_or_else(|| Ok(Context::default()), |tip| repo.context(&tip))?;
        let mut builder = Builder::from(context);
        self.apply(&mut change, &mut builder)?;
        let tree = builder.write(&mut change)?;
        let context = Context::open(&change, &tree)?;
        for agent in context.agents(&change)? {
            let list = context.messages(&change, &agent)?;
            for item in list.iter(&change, 0..list.len()) {
                if MessageEntry::from_item(&item?)?.role == Role::User {
                    return Ok(true);
                }
            }
        }
        Ok(false)
    }

    /// Returns true if the input appends messages, and replaces no section.
    fn only_appends(&self) -> bool {
        #[derive(serde::Deserialize)]
        struct Appended {
            append: Option<serde::de::IgnoredAny>,
        }
        let edits = self.edits.as_deref().filter(|_| self.state.is_none());
        let edits = edits.and_then(|edits| serde_json::from_slice::<Appended>(edits).ok());
        edits.is_some_and(|edits| edits.append.is_some())
    }

    /// Checks the input first, so that a failing first snapshot does not create a store.
    pub(crate) fn check(&self) -> Result<()> {
        self.apply(&mut Memory::new(), &mut Builder::new())
    }

    fn apply(&self, sink: &mut dyn ObjectSink, builder: &mut Builder) -> Result<()> {
        if let Some(state) = &self.state {
            let name = || self.state_name.clone();
            apply_state(sink, builder, state).map_err(|error| match name() {
                Some(name) => error.at(name),
                None => error,
            })?;
        }
        if let Some(edits) = &self.edits {
            apply_edits(sink, builder, edits)?;
        }
        Ok(())
    }
}

/// The result of a snapshot.
pub(crate) struct Taken {
    id: ObjectId,
    turn: u64,
    branch: BranchName,
    /// True if it begins its branch, in a session with other branches.
    begins: bool,
    /// The name of its pin.
    pin: Option<String>,
    workspace: Option<Workspace>,
    /// The threshold that triggered it.
    watch: Option<json::Watched>,
}

impl SnapshotBasics {
    /// Opens or creates the store, and reads the state. Invalid input does not create a store.
    pub(crate) fn open(
        &self,
        run: &Invocation,
        workspace: Option<&Path>,
        edits: Option<Bytes>,
    ) -> Result<SnapshotTarget> {
        let state = self.state.as_deref().map(read_input).transpose()?;
        let state_name = self.state.as_deref().map(input_name);
        let input = ContextInput { state, edits, state_name };
        if run.would_create()? {
            input.check()?;
        }
        let repo = run.open_or_create()?;
        let at = self.at(&repo, workspace)?;
        Ok(SnapshotTarget { repo, at, input })
    }

    /// Returns the branch, the actor and the time. Called once, so that the check and the commit
    /// agree. Without a session of this directory, a snapshot of a `workspace` continues the session
    /// of the workspace, or begins one that is named after it.
    pub(crate) fn at(&self, repo: &Repository, workspace: Option<&Path>) -> Result<At> {
        let is_named = self.session.is_some() || self.branch.is_some();
        let found = branch_of(repo, self.session.as_deref(), self.branch.as_deref());
        let branch = match (found, workspace.filter(|_| !is_named)) {
            (Err(Failure::Library { error, .. }), Some(dir))
                if error.kind() == ErrorKind::NotFound =>
            {
                branch_of_workspace(repo, dir)?
            }
            (Ok(found), Some(dir)) if is_begin_of_user(repo, &found)? => named_after(repo, dir)?,
            (found, _) => found?,
        };
        Ok(At { branch, stamp: stamp()? })
    }
}

/// Returns the branch of a workspace, or the main branch of a new session with its name.
fn branch_of_workspace(repo: &Repository, dir: &Path) -> Result<BranchName> {
    if let Some(here) = Here::new(dir, repo.dir()) {
        match here.branch(repo) {
            Err(error) if error.kind() == ErrorKind::NotFound => {}
            found => return Ok(found?),
        }
    }
    named_after(repo, dir)
}

/// Returns true if the snapshot is the first of the user's own store, where a session without a
/// name would be one of all directories.
fn is_begin_of_user(repo: &Repository, branch: &BranchName) -> Result<bool> {
    let is_first = repo.branches().is_empty() && *branch == repo.shared_head()?;
    let is_own = |own: PathBuf| canonical(&own).is_ok_and(|own| own == repo.store().dir());
    Ok(is_first && user_store().is_ok_and(is_own))
}

/// Returns the main branch of a new session with the name of a directory.
fn named_after(repo: &Repository, dir: &Path) -> Result<BranchName> {
    let dir = canonical(dir).unwrap_or_else(|_| dir.to_owned());
    let name = session_name(&dir);
    let is_taken = |branch: &BranchName| repo.branch_of_session(branch.session());
    let mut branch = BranchName::main(&name)?;
    for number in 2.. {
        if is_taken(&branch)?.is_none() {
            break;
        }
        branch = BranchName::main(&format!("{name}-{number}"))?;
    }
    Ok(branch)
}

impl NewSnapshot {
    /// Checks the options, then opens the store like [`SnapshotBasics::open`].
    pub(crate) fn open(&self, run: &Invocation) -> Result<SnapshotTarget> {
        match &self.workspace {
            Some(dir) => self.limits.check(dir)?,
            None => self.limits.expect_none()?,
        }
        self.basics.open(run, self.workspace.as_deref(), self.edits.document()?)
    }

    /// Takes the snapshot, with the changes of `input`, for the threshold `due`. With `retry` it
    /// tries again if another process committed first. This loop makes progress, because each retry
    /// means that another process has committed.
    pub(crate) fn take(
        &self,
        repo: &Repository,
        mut at: At,
        input: &ContextInput,
        due: Option<&DueCheck>,
        racing: &Racing,
    ) -> Result<Taken> {
        // Messages are appended to the newest snapshot, so a lost race is tried again.
        let retries = racing.retry || racing.expect.is_none() && input.only_appends();
        loop {
            let tip = repo.tip(&at.branch);
            let taken = self.take_once(repo, &at, input, due, racing.expect.as_deref());
            let Err(Failure::Library { error, .. }) = &taken else { return taken };
            if !retries || error.kind() != ErrorKind::Conflict {
                return taken;
            }
            repo.refresh()?;
            if repo.tip(&at.branch) == tip {
                return taken;
            }
            at.stamp.time = stamp()?.time;
        }
    }

    fn take_once(
        &self,
        repo: &Repository,
        at: &At,
        input: &ContextInput,
        due: Option<&DueCheck>,
        expected: Option<&str>,
    ) -> Result<Taken> {
        let At { branch, stamp } = at;
        let mut change = repo.begin();
        let tip = change.tip(branch);
        if let Some(expected) = expected {
            check_expected(repo, branch, tip, expected)?;
        }
        let is_known = !change.branches_of(branch.session()).is_empty();
        let begins = tip.is_none() && is_known;
        // A session belongs to the directory where it begins. A client's session records that
        // itself.
        let workspace = self.workspace.as_deref();
        if !is_known && client_session().is_none() && !is_of_workspace(workspace) {
            change.settle(branch);
        }
        let parent = match tip {
            Some(tip) => repo.context(&tip)?,
            None => Context::default(),
        };
        let mut builder = Builder::from(parent.clone());
        input.apply(&mut change, &mut builder)?;
        let workspace = match &self.workspace {
            None => None,
            Some(dir) => {
                Some(self.limits.capture(repo, &mut change, &parent, &mut builder, dir)?)
            }
        };
        let tree = builder.write(&mut change)?;
        let message = match (&self.basics.message, due) {
            (Some(message), _) => message.clone(),
            (None, Some(due)) => due.words(),
            (None, None) => DEFAULT_MESSAGE.to_owned(),
        };
        let mut draft = SnapshotDraft::new(tree, &message, stamp);
        draft.trigger = self.trigger;
        if let Some(due) = due {
            due.apply(&mut change, branch, &mut draft)?;
        }
        if let Some((captured, dir)) = workspace.as_ref().zip(self.workspace.as_deref()) {
            draft.metadata.extend(captured.metadata(dir));
            draft.metadata.extend(git_metadata(dir));
        }
        if let Some(agent) = &self.basics.agent {
            draft.author.agent.clone_from(agent);
        }
        draft.author.model = self.basics.model.clone().unwrap_or_default();
        draft.metadata.extend(self.tool.clone().map(|tool| (TOOL.to_owned(), tool)));
        if !self.touches.is_empty() {
            draft.metadata.insert(TOUCHES.to_owned(), self.touches.join("\n"));
        }
        for (name, result) in &self.check {
            draft.metadata.insert(format!("{CHECK_PREFIX}{name}"), (*result).to_owned());
        }
        draft.metadata.extend(self.meta.iter().cloned());
        let id = change.snapshot(branch, draft)?;
        let turn = change.read_commit(&id)?.turn;
        let new_pin = NewPin { reason: message, ..NewPin::default() };
        let pin = if self.pin { Some(change.pin(&id, new_pin, stamp)?.name) } else { None };
        change.commit(stamp, "snapshot").hint(ErrorKind::Conflict, Advice::new(RACE, RACE_CALL))?;
        if let Some(workspace) = &workspace {
            workspace.keep(repo, &tree);
        }
        let watch = due.map(|due| due.told.clone());
        Ok(Taken { id, turn, branch: branch.clone(), begins, pin, workspace, watch })
    }
}

impl Taken {
    /// Prints the result.
    pub(crate) fn print(self, out: &mut Output) -> Result<()> {
        if out.json {
            out.record(&self.record())?;
            return Ok(());
        }
        let paint = out.paint;
        let (id, branch) = (self.id.short(ID_DIGITS), out.branch(&self.branch));
        let begins = if self.begins { ", a new branch that begins with it" } else { "" };
        let pinned = if self.pin.is_some() { ", pinned" } else { "" };
        let id = paint.paint(ID, id);
        writeln!(out, "{id} turn {} of {branch}{begins}{pinned}", self.turn)?;
        if let Some(workspace) = &self.workspace {
            writeln!(out, "{}", workspace.summary())?;
        }
        Ok(())
    }

    /// Returns the JSON record.
    pub(crate) fn record(self) -> json::Moved {
        let workspace = self.workspace.as_ref().map(Workspace::record);
        let moved = json::Moved::new(Some((self.id, self.turn)), &self.branch);
        json::Moved { pin: self.pin, workspace, watch: self.watch, ..moved }
    }
}

/// The git branch and remote of a workspace, as metadata.
fn git_metadata(workspace: &Path) -> BTreeMap<String, String> {
    let whole = canonical(workspace).unwrap_or_else(|_| workspace.to_owned());
    let GitFacts { branch, remote } = git_facts(&whole);
    let branch = branch.map(|branch| (GIT_BRANCH.to_owned(), branch));
    let remote = remote.map(|remote| (GIT_REMOTE.to_owned(), remote));
    [branch, remote].into_iter().flatten().collect()
}

/// Returns true if a snapshot of `workspace` ties its session to the working directory.
fn is_of_workspace(workspace: Option<&Path>) -> bool {
    let whole = workspace.and_then(|dir| canonical(dir).ok());
    let here = std::env::current_dir().ok();
    whole.zip(here).is_some_and(|(workspace, here)| here.starts_with(workspace))
}

/// Refuses if the newest snapshot of a branch is not `expected`.
fn check_expected(
    repo: &Repository,
    branch: &BranchName,
    tip: Option<ObjectId>,
    expected: &str,
) -> Result<()> {
    if tip == Some(resolve(repo, expected)?.commit) {
        return Ok(());
    }
    let newest = match tip {
        Some(tip) => format!("{} is its newest snapshot", tip.short(ID_DIGITS)),
        None => "it has no snapshot".to_owned(),
    };
    let message = format!("branch {branch} is not at {expected}: {newest}");
    Err(Error::new(ErrorKind::Conflict, message).into())
}

fn check(text: &str) -> Result<(String, &'static str), turntree::Error> {
    let parts = text.split_once('=').filter(|(name, _)| !name.is_empty());
    let result = |result| [PASSED, FAILED].into_iter().find(|known| *known == result);
    let parsed = parts.and_then(|(name, text)| Some((name.to_owned(), result(text)?)));
    parsed.ok_or_else(|| {
        turntree::Error::invalid(format!("'{text}': expected NAME={PASSED} or NAME={FAILED}"))
    })
}

fn own_fact(text: &str) -> Result<(String, String), turntree::Error> {
    let is_own = |name: &str| name.len() > OWN_PREFIX.len() && name.starts_with(OWN_PREFIX);
    let fact = text.split_once('=').filter(|(name, _)| is_own(name));
    fact.map(|(name, value)| (name.to_owned(), value.to_owned())).ok_or_else(|| {
        turntree::Error::invalid(format!("'{text}': expected {OWN_PREFIX}NAME=VALUE"))
    })
}

fn trigger(text: &str) -> Result<Trigger, turntree::Error> {
    text.parse()
}
