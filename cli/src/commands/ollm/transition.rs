//! `ollm transition`: takes a light snapshot for a change of an agent's mode.

use std::io::Write;
use std::str::FromStr;

use clap::Args;
use turntree::context::{Builder, Context};
use turntree::maintenance::{Policy, Scope, set_policy};
use turntree::object::Trigger;
use turntree::repo::{BranchName, Repository, SnapshotDraft};
use turntree::{Error, ErrorKind};
use turntree_exchange::formats::ollm::{
    MODES_SUFFIX, Transition, TransitionFacts, export_mode, past_transitions, state_snapshot,
};

use crate::porcelain::change::snapshot::{At, SnapshotBasics, SnapshotTarget};
use crate::program::invocation::Invocation;
use crate::view::error::{Answer, Hint, Result};
use crate::view::json;
use crate::view::output::{ID, NAME};
use crate::view::render::ID_DIGITS;

/// How long transitions are kept, unless their session has another policy.
const KEPT_MICROS: i64 = 60 * 60 * 1_000_000;

/// The modes before and after a change.
#[derive(Debug, Clone)]
struct Modes {
    from: String,
    to: String,
}

/// Take a light snapshot of a change of mode
///
/// It is added to the session SESSION.modes, and holds the last 5 messages, findings and reasoning,
/// skills, tools and the task.
#[derive(Debug, Args)]
pub(super) struct OfModes {
    /// The modes, such as planning:developer
    #[arg(value_name = "FROM:TO")]
    transition: Modes,
    /// A skill in use; those of the context by default; may be given several times
    #[arg(long, value_name = "NAME")]
    active_skill: Vec<String>,
    /// A tool in use; those of the context by default; may be given several times
    #[arg(long, value_name = "NAME")]
    active_tool: Vec<String>,
    /// The task of the agent; that of the context by default
    #[arg(long, value_name = "TEXT")]
    task: Option<String>,
    /// Print the state in which the new mode was last left, for the agent to continue
    #[arg(long)]
    restore: bool,
    #[command(flatten)]
    basics: SnapshotBasics,
}

impl FromStr for Modes {
    type Err = Error;

    fn from_str(text: &str) -> turntree::Result<Self> {
        let modes = text.split_once(':').filter(|(from, to)| !from.is_empty() && !to.is_empty());
        let modes = modes.map(|(from, to)| Self { from: from.to_owned(), to: to.to_owned() });
        modes.ok_or_else(|| {
            Error::invalid(format!("'{text}': expected FROM:TO, such as planning:developer"))
        })
    }
}

/// The state in which a mode was left: as OLLM CLI stores it, and as it adds it to a prompt.
struct LeftMode {
    document: serde_json::Value,
    text: String,
}

/// Finds the newest state in which a session has left a mode.
fn left_in(repo: &Repository, session: &str, mode: &str) -> Result<Option<LeftMode>> {
    let (past, _) = past_transitions(repo, session)?;
    let Some(left) = past.iter().rfind(|past| past.from == mode) else { return Ok(None) };
    let (context, facts) =
        (repo.context(&left.id)?, TransitionFacts::of(&left.id, &repo.commit(&left.id)?));
    let mut document = Vec::new();
    export_mode(repo, &context, &facts, &mut document)?;
    let document = serde_json::from_slice(&document)
        .map_err(|_| Error::invalid("a transition that is not JSON"))?;
    let text = state_snapshot(repo, &context)?.to_xml();
    Ok(Some(LeftMode { document, text }))
}

impl OfModes {
    fn transition(&self) -> Transition {
        let Modes { from, to } = self.transition.clone();
        let list = |names: &[String]| (!names.is_empty()).then(|| names.to_vec());
        let (skills, tools) = (list(&self.active_skill), list(&self.active_tool));
        Transition { from, to, skills, tools, task: self.task.clone() }
    }

    /// Takes the snapshot in the session of transitions that belongs to the branch's session.
    pub(super) fn run(&self, run: &mut Invocation) -> Result<Answer> {
        let (transition, basics) = (self.transition(), &self.basics);
        let target = basics.open(run, None, None)?;
        let SnapshotTarget { repo, at: At { branch: origin, stamp }, input } = target;
        let branch = BranchName::main(&format!("{}{MODES_SUFFIX}", origin.session()))?;
        let mut change = repo.begin();
        let context = match change.tip(&origin) {
            Some(tip) => repo.context(&tip)?,
            None => Context::default(),
        };
        let mut builder = Builder::new();
        transition.apply(&mut change, &mut builder, &context, input.state.as_deref())?;
        let tree = builder.write(&mut change)?;
        let title = transition.title();
        let mut draft =
            SnapshotDraft::new(tree, basics.message.as_deref().unwrap_or(&title), &stamp);
        draft.trigger = Trigger::ModeChange;
        if let Some(agent) = &basics.agent {
            draft.author.agent.clone_from(agent);
        }
        draft.author.model = basics.model.clone().unwrap_or_default();
        // Sets a policy when the session of transitions begins; a later change by the user stays.
        let scope = Scope::Session(branch.session());
        let begins =
            change.tip(&branch).is_none() && repo.refs().value(&scope.ref_name()?).is_none();
        if begins {
            let policy =
                Policy { keep_within: Some(KEPT_MICROS), strict: true, ..Policy::default() };
            set_policy(&mut change, scope, &policy)?;
        }
        let left = match self.restore {
            true => left_in(&repo, origin.session(), &self.transition.to)?,
            false => None,
        };
        let id = change.snapshot(&branch, draft)?;
        let turn = change.read_commit(&id)?.turn;
        change
            .commit(&stamp, "transition")
            .hint(ErrorKind::Conflict, "another process has added a transition: try again")?;
        if run.out.json {
            let moved = json::Moved::new(Some((id, turn)), &branch);
            if self.restore {
                let restored = left.map(|left| left.document);
                run.out.record(&json::MovedBack { moved, restored })?;
            } else {
                run.out.record(&moved)?;
            }
            return Ok(Answer::Yes);
        }
        let paint = run.out.paint;
        let (id, name) = (paint.paint(ID, id.short(ID_DIGITS)), paint.paint(NAME, &branch));
        let kept = if begins { ", where each is kept for an hour" } else { "" };
        writeln!(run.out, "{id} {title}, turn {turn} of {name}{kept}")?;
        match left {
            Some(left) => writeln!(run.out, "{}", left.text)?,
            None if self.restore => {
                writeln!(run.out, "{} has not been left yet", self.transition.to)?;
            }
            None => {}
        }
        Ok(Answer::Yes)
    }
}
