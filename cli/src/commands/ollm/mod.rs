//! `ollm`: takes snapshots like OLLM CLI, by context usage and for changes of mode.

mod modes;
mod snapshot;
mod transition;

use clap::{Args, Subcommand};

use self::modes::ShowModes;
use self::snapshot::WhenDue;
use self::transition::OfModes;
use super::Verb;
use crate::program::invocation::Invocation;
use crate::view::error::{Answer, Result};

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

impl Verb for Ollm {
    fn reads_only(&self) -> bool {
        matches!(self.action, OllmCommand::Modes(_))
    }

    fn run(&self, run: &mut Invocation) -> Result<Answer> {
        match &self.action {
            OllmCommand::Snapshot(snapshot) => snapshot.run(run),
            OllmCommand::Transition(transition) => transition.run(run),
            OllmCommand::Modes(modes) => modes.run(run),
        }
    }
}
