//! `snapshot --transition`: a light snapshot when an agent changes its mode.

use std::io::Write;

use clap::Args;
use turntree::context::{Builder, Context};
use turntree::maintenance::{Policy, Scope, set_policy};
use turntree::object::Trigger;
use turntree::repo::{BranchName, Repository, Snapshot as Draft, Stamp};
use turntree::{Error, ErrorKind};
use turntree_exchange::formats::ollm::{MODES_SUFFIX, Transition};

use crate::error::{Hint, Result};
use crate::invocation::Invocation;
use crate::json;
use crate::output::{ID, NAME};
use crate::render::ID_DIGITS;

/// How long transitions are kept, unless a policy of their session says otherwise.
const KEPT_MICROS: i64 = 60 * 60 * 1_000_000;

/// Options of a transition.
#[derive(Debug, Default, Args)]
pub(crate) struct Transitions {
    /// Take a light snapshot of a change of mode, on the session SESSION.modes: the last 5 messages,
    /// findings and reasoning, skills, tools and the task
    #[arg(long, value_name = "FROM:TO", value_parser = modes,
        conflicts_with_all = ["workspace", "usage", "check", "pin", "trigger", "tool", "touches"])]
    transition: Option<Modes>,
    /// A skill in use, for --transition; those of the context by default
    #[arg(long, value_name = "NAME", requires = "transition")]
    active_skill: Vec<String>,
    /// A tool in use, for --transition; those of the context by default
    #[arg(long, value_name = "NAME", requires = "transition")]
    active_tool: Vec<String>,
    /// What the agent works on, for --transition; that of the context by default
    #[arg(long, value_name = "TEXT", requires = "transition")]
    task: Option<String>,
}

#[derive(Debug, Clone)]
struct Modes {
    from: String,
    to: String,
}

/// What a transition is made of besides.
pub(super) struct Request<'a> {
    /// Where the conversation is.
    pub(super) branch: &'a BranchName,
    pub(super) message: Option<&'a str>,
    pub(super) agent: Option<&'a str>,
    pub(super) model: Option<&'a str>,
    /// A state document that comes on top.
    pub(super) state: Option<&'a [u8]>,
}

impl Transitions {
    /// The transition that is asked for.
    pub(super) fn asked(&self) -> Option<Transition> {
        let Modes { from, to } = self.transition.clone()?;
        let list = |names: &[String]| (!names.is_empty()).then(|| names.to_vec());
        let (skills, tools) = (list(&self.active_skill), list(&self.active_tool));
        Some(Transition { from, to, skills, tools, task: self.task.clone() })
    }
}

/// Takes the snapshot.
pub(super) fn take(
    run: &mut Invocation,
    repo: &Repository,
    transition: &Transition,
    request: &Request<'_>,
    stamp: &Stamp,
) -> Result<()> {
    let branch = BranchName::main(&format!("{}{MODES_SUFFIX}", request.branch.session()))?;
    let mut change = repo.begin();
    let context = match change.tip(request.branch) {
        Some(tip) => repo.context(&tip)?,
        None => Context::default(),
    };
    let mut builder = Builder::new();
    transition.apply(&mut change, &mut builder, &context, request.state)?;
    let tree = builder.write(&mut change)?;
    let title = transition.title();
    let mut draft = Draft::new(tree, request.message.unwrap_or(&title), stamp);
    draft.trigger = Trigger::ModeChange;
    if let Some(agent) = request.agent {
        agent.clone_into(&mut draft.author.agent);
    }
    draft.author.model = request.model.unwrap_or_default().to_owned();
    // The session of transitions begins with a policy; what somebody does to that later stands.
    let scope = Scope::Session(branch.session());
    let begins = change.tip(&branch).is_none() && repo.refs().value(&scope.ref_name()?).is_none();
    if begins {
        let policy = Policy { keep_within: Some(KEPT_MICROS), ..Policy::default() };
        set_policy(&mut change, scope, &policy)?;
    }
    let id = change.snapshot(&branch, draft)?;
    let turn = change.commit(&id)?.turn;
    change
        .finish(stamp, "transition")
        .hint(ErrorKind::Conflict, "another process put a transition there meanwhile: try again")?;
    if run.out.json {
        run.out.record(&json::Moved::new(Some((id, turn)), &branch))?;
        return Ok(());
    }
    let paint = run.out.paint;
    let (id, name) = (paint.paint(ID, id.short(ID_DIGITS)), paint.paint(NAME, &branch));
    let kept = if begins { ", where each is kept for an hour" } else { "" };
    writeln!(run.out, "{id} {title}, turn {turn} of {name}{kept}")?;
    Ok(())
}

fn modes(text: &str) -> turntree::Result<Modes> {
    let modes = text.split_once(':').filter(|(from, to)| !from.is_empty() && !to.is_empty());
    let modes = modes.map(|(from, to)| Modes { from: from.to_owned(), to: to.to_owned() });
    modes.ok_or_else(|| {
        Error::invalid(format!("'{text}': expected FROM:TO, such as planning:developer"))
    })
}
