//! `swarm`: checks reads, rebuilds states from event logs, and restores snapshots of SwarmSDK.

mod events;
mod reads;
mod restore;

use std::path::PathBuf;

use clap::{Args, Subcommand};
use clap_complete::ArgValueCompleter;

use self::events::Events;
use self::reads::Reads;
pub(super) use self::restore::IntoConfiguration;
use super::Verb;
use crate::porcelain::read::revision::resolve;
use crate::program::complete::revisions;
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

/// Fit a snapshot into a current configuration; the exit code is 1 if it does not fit
///
/// Prints which agents are restored, and where the configuration differs from that of the snapshot.
/// The store does not change.
#[derive(Debug, Args)]
struct SwarmRestore {
    /// The snapshot
    #[arg(value_name = "REV", add = ArgValueCompleter::new(revisions))]
    revision: String,
    /// The configuration, {"agents": {NAME: {"system_prompt": TEXT}}}, or - for standard input
    #[arg(value_name = "CONFIG", value_hint = clap::ValueHint::FilePath)]
    configuration: PathBuf,
    #[command(flatten)]
    into: IntoConfiguration,
}

impl Verb for Swarm {
    fn reads_only(&self) -> bool {
        matches!(self.action, SwarmCommand::Reads(_) | SwarmCommand::Restore(_))
    }

    fn run(&self, run: &mut Invocation) -> Result<Answer> {
        match &self.action {
            SwarmCommand::Reads(reads) => reads.run(run),
            SwarmCommand::Events(events) => events.run(run),
            SwarmCommand::Restore(SwarmRestore { revision, configuration, into }) => {
                let repo = run.open()?;
                let id = resolve(&repo, revision)?.commit;
                into.run(run, &repo, &id, configuration)
            }
        }
    }
}

/// The old form of 'turntree swarm reads'
#[derive(Debug, Args)]
pub(crate) struct OldReads {
    #[command(subcommand)]
    action: OldReadsAction,
}

#[derive(Debug, Subcommand)]
enum OldReadsAction {
    Check(Reads),
}

impl Verb for OldReads {
    fn reads_only(&self) -> bool {
        true
    }

    fn run(&self, run: &mut Invocation) -> Result<Answer> {
        let OldReadsAction::Check(reads) = &self.action;
        reads.run(run)
    }
}

/// The old form of 'turntree swarm events'
#[derive(Debug, Args)]
pub(crate) struct OldEvents {
    #[command(subcommand)]
    action: OldEventsAction,
}

#[derive(Debug, Subcommand)]
enum OldEventsAction {
    Reconstruct(Events),
}

impl Verb for OldEvents {
    fn run(&self, run: &mut Invocation) -> Result<Answer> {
        let OldEventsAction::Reconstruct(events) = &self.action;
        events.run(run)
    }
}
