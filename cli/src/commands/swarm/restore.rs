//! `swarm restore`: fits a snapshot into a current configuration.

use std::io::Write;
use std::path::PathBuf;

use clap::Args;
use clap_complete::ArgValueCompleter;
use turntree::workspace::save;
use turntree_exchange::formats::swarm::{Configuration, RestoreResult, restore_swarm};

use crate::porcelain::change::compat::Compat;
use crate::porcelain::read::revision::resolve;
use crate::program::complete::revisions;
use crate::program::invocation::{Invocation, input_name, read_input};
use crate::view::error::{Answer, Failure, Result};
use crate::view::output::{Output, warn};
use crate::view::render::harmless;

const CONVERT: &str =
    "'turntree export REV --format swarm-snapshot --snapshot-version 2.1.0' converts it";

/// Fit a snapshot into a current configuration; the exit code is 1 if it does not fit
///
/// Prints which agents are restored, and where the configuration differs from that of the snapshot.
/// The store does not change.
#[derive(Debug, Args)]
pub(super) struct SwarmRestore {
    /// The snapshot
    #[arg(value_name = "REV", add = ArgValueCompleter::new(revisions))]
    revision: String,
    /// The configuration, {"agents": {NAME: {"system_prompt": TEXT}}}, or - for standard input
    #[arg(value_name = "CONFIG", value_hint = clap::ValueHint::FilePath)]
    configuration: PathBuf,
    /// Use the recorded system prompts instead of the configuration's
    #[arg(long)]
    preserve_system_prompts: bool,
    /// Write the snapshot to continue from to this file, as JSON
    #[arg(short, long, value_name = "FILE", value_hint = clap::ValueHint::FilePath)]
    output: Option<PathBuf>,
    /// Reproduce SwarmSDK's known bugs
    #[arg(long, value_enum)]
    compat: Option<Compat>,
}

impl SwarmRestore {
    pub(super) fn run(&self, run: &mut Invocation) -> Result<Answer> {
        let repo = run.open()?;
        let id = resolve(&repo, &self.revision)?.commit;
        let name = input_name(&self.configuration);
        let configured = Configuration::parse(&read_input(&self.configuration)?);
        let configured = configured.map_err(|error| error.at(&name))?;
        let context = repo.context(&id)?;
        let (preserve, compat) = (self.preserve_system_prompts, Compat::of(self.compat));
        let restored = restore_swarm(&repo, &context, &configured, preserve, compat);
        let restored = match restored {
            Err(error) if error.message().starts_with("Unsupported") => {
                return Err(Failure::hinted(error, CONVERT));
            }
            restored => restored?,
        };
        if let Some(path) = &self.output {
            save(path, false, |out| restored.write(out))?;
        }
        let result = &restored.result;
        if run.out.json {
            run.out.record(result)?;
        } else {
            print(&mut run.out, result)?;
        }
        Ok(if result.success { Answer::Yes } else { Answer::No })
    }
}

fn print(out: &mut Output, result: &RestoreResult) -> Result<()> {
    for warning in &result.warnings {
        warn(&harmless(&warning.message));
    }
    writeln!(out, "{}", result.summary)?;
    if result.configuration_differs {
        writeln!(out, "the configuration differs from that of the snapshot")?;
    }
    for agent in &result.changed_prompts {
        writeln!(out, "  changed system prompt: {}", harmless(agent))?;
    }
    Ok(())
}
