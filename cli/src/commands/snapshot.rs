//! `snapshot`: puts a context on a branch; what a framework calls once a turn.

use clap::Args;

use super::Verb;
use super::ollm::{ModeSnapshot, Modes, snapshot_of_modes, snapshot_when_due};
use crate::porcelain::snapshot::{NewSnapshot, SnapshotTarget};
use crate::porcelain::thresholds::{ContextUsage, Thresholds, parse_usage};
use crate::program::invocation::Invocation;
use crate::view::error::{Answer, Result};

/// Take a snapshot of a context
///
/// The snapshot continues the newest one of the branch: a section that the state names is replaced,
/// null drops it, and all others carry over. The state is a JSON object whose keys are sections:
///
///   {"agents": {"main": {"messages": [{"role": "user", "content": "hi"}]}},
///    "scratchpad": {"note": {"content": "look at the tests"}}}
#[derive(Debug, Args)]
#[command(after_long_help = "Examples:
  turntree snapshot -m 'before the refactoring' --workspace .
  turntree snapshot -m 'turn 7' --workspace . --time-budget 500ms --max-file-size 10MiB
  turntree snapshot -m 'turn 12' --state state.json --session nightly
  agent --dump-state | turntree snapshot -m 'turn 13' --state - --trigger turn
  turntree snapshot -m 'before the edit' --workspace . --trigger before-tool --tool fs.replace")]
pub(crate) struct TakeSnapshot {
    #[command(flatten)]
    new: NewSnapshot,
    /// The old spelling of 'turntree ollm snapshot'
    #[arg(long, value_name = "USAGE", value_parser = parse_usage)]
    usage: Option<ContextUsage>,
    #[command(flatten)]
    thresholds: Thresholds,
    /// The old spelling of 'turntree ollm transition'
    #[arg(long, value_name = "FROM:TO",
        conflicts_with_all = ["workspace", "usage", "check", "pin", "trigger", "tool", "touches"])]
    transition: Option<Modes>,
    #[command(flatten)]
    modes: ModeSnapshot,
}

impl Verb for TakeSnapshot {
    fn run(&self, run: &mut Invocation) -> Result<Answer> {
        let target = self.new.open(run)?;
        match (&self.transition, self.usage) {
            (Some(modes), _) => {
                snapshot_of_modes(run, modes, &self.modes, &self.new.basics, target)
            }
            (None, Some(usage)) => {
                snapshot_when_due(run, usage, &self.thresholds, &self.new, target)
            }
            (None, None) => {
                let SnapshotTarget { repo, at, state } = target;
                self.new.take(&repo, at, state.as_deref(), None)?.print(&mut run.out)?;
                Ok(Answer::Yes)
            }
        }
    }
}
