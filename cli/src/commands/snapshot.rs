//! `snapshot`: takes a snapshot of a context on a branch; frameworks call it once a turn.

use clap::Args;

use super::Verb;
use super::ollm::{ModeSnapshot, Modes, snapshot_of_modes, snapshot_when_due};
use crate::porcelain::change::snapshot::{NewSnapshot, Racing, SnapshotTarget};
use crate::porcelain::change::thresholds::{ContextUsage, Thresholds, parse_usage};
use crate::program::invocation::Invocation;
use crate::view::error::{Answer, Result};

/// Take a snapshot of a context
///
/// The snapshot continues the newest one of the branch, and everything that is not named is carried
/// over. --append, --append-message, --set and --unset change it: give only the additions of this
/// turn, and the conversation may be of any length. --state replaces whole sections, and null drops
/// one:
///
///   {"agents": {"main": {"messages": [{"role": "user", "content": "hi"}]}},
///    "scratchpad": {"note": {"content": "look at the tests"}}}
///
/// A scratchpad or memory that is exactly {"set": {...}}, {"remove": [...]} or both changes single
/// entries and leaves the others; an entry called set that holds an object is written by --set.
///
/// Sections are agents, files, scratchpad, memory, goals, reasoning, checkpoints, lessons and meta,
/// sections that the context already has, and any section whose name begins with x-.
#[derive(Debug, Args)]
#[command(after_long_help = "Examples:
  turntree snapshot --workspace .
  turntree snapshot -m 'before the refactoring' --workspace .
  turntree snapshot -m 'a question' --append-message user='why is it slow?' --session nightly
  turntree snapshot -m 'turn 6' --append new.jsonl --set scratchpad/todo='measure' --workspace .
  turntree snapshot -m 'turn 7' --workspace . --time-budget 500ms --max-file-size 10MiB
  turntree snapshot -m 'turn 12' --state state.json --session nightly
  agent --dump-state | turntree snapshot -m 'turn 13' --state - --trigger turn
  turntree snapshot -m 'before the edit' --workspace . --trigger before-tool --tool fs.replace")]
#[command(mut_arg("message", |text| {
    text.help("Message of the snapshot; 'snapshot' by default, if there is anything to take")
        .required_unless_present_any(["usage", "transition", "workspace", "state", "append",
            "append_message", "set", "unset"])
}))]
pub(crate) struct TakeSnapshot {
    #[command(flatten)]
    new: NewSnapshot,
    #[command(flatten)]
    racing: Racing,
    /// The old form of 'turntree ollm snapshot'
    #[arg(long, value_name = "USAGE", value_parser = parse_usage, conflicts_with_all = ["expect", "retry"])]
    usage: Option<ContextUsage>,
    #[command(flatten)]
    thresholds: Thresholds,
    /// The old form of 'turntree ollm transition'
    #[arg(long, value_name = "FROM:TO",
        conflicts_with_all = ["workspace", "usage", "check", "meta", "pin", "trigger", "tool", "touches",
            "append", "append_message", "append_to", "set", "unset", "expect", "retry"])]
    transition: Option<Modes>,
    #[command(flatten)]
    modes: ModeSnapshot,
}

impl Verb for TakeSnapshot {
    fn run(&self, run: &mut Invocation) -> Result<Answer> {
        let target = self.new.open(run)?;
        match (&self.transition, self.usage) {
            (Some(modes), _) => {
                snapshot_of_modes(run, modes, (&self.modes, false), &self.new.basics, target)
            }
            (None, Some(usage)) => {
                snapshot_when_due(run, usage, &self.thresholds, &self.new, target)
            }
            (None, None) => {
                let SnapshotTarget { repo, at, input } = target;
                self.new.take(&repo, at, &input, None, &self.racing)?.print(&mut run.out)?;
                Ok(Answer::Yes)
            }
        }
    }
}
