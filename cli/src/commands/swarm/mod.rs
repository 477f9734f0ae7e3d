//! `swarm`: checks reads, rebuilds states from event logs, and restores snapshots of SwarmSDK.

mod events;
mod reads;
mod restore;

use clap::{Args, Subcommand};

use self::events::Events;
use self::reads::Reads;
use self::restore::SwarmRestore;
use super::Verb;
use crate::program::invocation::Invocation;
use crate::view::error::{Answer, Result};

/// Check reads, rebuild states and restore snapshots of SwarmSDK
///
/// 'turntree import' reads its snapshots and event logs, and 'turntree export --format
/// swarm-snapshot' writes snapshots.
#[derive(Debug, Args)]
#[command(after_long_help = "Examples:
  turntree swarm reads HEAD --workspace .
  turntree swarm reads review --workspace /srv/app --agent lead --json
  turntree swarm events swarm.jsonl --until 2026-03-02T09:00:06Z --json
  turntree swarm events since.jsonl --base snapshot.json > now.json
  turntree swarm restore review swarm.json --json")]
pub(crate) struct Swarm {
    #[command(subcommand)]
    action: SwarmCommand,
}

#[derive(Debug, Subcommand)]
enum SwarmCommand {
    Reads(Reads),
    Events(Events),
    Restore(SwarmRestore),
}

impl Verb for Swarm {
    fn reads_only(&self) -> bool {
        matches!(self.action, SwarmCommand::Reads(_) | SwarmCommand::Restore(_))
    }

    fn run(&self, run: &mut Invocation) -> Result<Answer> {
        match &self.action {
            SwarmCommand::Reads(reads) => reads.run(run),
            SwarmCommand::Events(events) => events.run(run),
            SwarmCommand::Restore(restore) => restore.run(run),
        }
    }
}
