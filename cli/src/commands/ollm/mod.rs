//! `ollm`: takes snapshots like OLLM CLI, by context usage and for changes of mode.

mod modes;
mod snapshot;
mod transition;

use clap::{Args, Subcommand};

use self::modes::ShowModes;
use super::Verb;
use crate::porcelain::change::snapshot::{NewSnapshot, SnapshotBasics};
use crate::porcelain::change::thresholds::{ContextUsage, Thresholds, parse_usage};
use crate::program::invocation::Invocation;
use crate::view::error::{Answer, Result};

pub(crate) use self::snapshot::snapshot_when_due;
pub(crate) use self::transition::{ModeSnapshot, Modes, snapshot_of_modes};

/// Take snapshots like OLLM CLI
///
/// 'turntree import' reads its sessions, and 'turntree export' writes its files with --format
/// ollm-context, ollm-mode, ollm-intent or ollm-state.
#[derive(Debug, Args)]
#[command(after_long_help = "Examples:
  turntree ollm snapshot 7000/8192 --state state.json
  turntree ollm transition developer:debugger --task 'Fix the login'
  turntree ollm transition debugger:developer --restore
  turntree ollm modes --replay")]
pub(crate) struct Ollm {
    #[command(subcommand)]
    action: OllmCommand,
}

#[derive(Debug, Subcommand)]
enum OllmCommand {
    Snapshot(WhenDue),
    Transition(OfModes),
    Modes(ShowModes),
}

/// Take a snapshot if usage of the context has crossed a threshold
///
/// The thresholds are 0.85, 0.95 and 1: a snapshot is taken if usage has crossed one from below
/// since the last call. Otherwise none is taken, and the reason is printed.
#[derive(Debug, Args)]
struct WhenDue {
    /// Usage of the context: a share such as 0.87, or tokens such as 7000/8192
    #[arg(value_name = "USAGE", value_parser = parse_usage)]
    usage: ContextUsage,
    #[command(flatten)]
    thresholds: Thresholds,
    #[command(flatten)]
    new: NewSnapshot,
}

/// Take a light snapshot of a change of mode
///
/// It is added to the session SESSION.modes, and holds the last 5 messages, findings and reasoning,
/// skills, tools and the task.
#[derive(Debug, Args)]
struct OfModes {
    /// The modes, such as planning:developer
    #[arg(value_name = "FROM:TO")]
    transition: Modes,
    #[command(flatten)]
    modes: ModeSnapshot,
    /// Print the state in which the new mode was last left, for the agent to continue
    #[arg(long)]
    restore: bool,
    #[command(flatten)]
    basics: SnapshotBasics,
}

impl Verb for Ollm {
    fn reads_only(&self) -> bool {
        matches!(self.action, OllmCommand::Modes(_))
    }

    fn run(&self, run: &mut Invocation) -> Result<Answer> {
        match &self.action {
            OllmCommand::Snapshot(WhenDue { usage, thresholds, new }) => {
                let target = new.open(run)?;
                snapshot_when_due(run, *usage, thresholds, new, target)
            }
            OllmCommand::Modes(modes) => modes.run(run),
            OllmCommand::Transition(OfModes { transition, modes, restore, basics }) => {
                let target = basics.open(run, None, None)?;
                snapshot_of_modes(run, transition, (modes, *restore), basics, target)
            }
        }
    }
}
