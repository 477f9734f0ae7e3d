//! `reads`: what agents have read, and must read again.

use std::io::Write;
use std::path::PathBuf;

use clap::{Args, Subcommand};
use clap_complete::ArgValueCandidates;
use turntree::Error;
use turntree_exchange::check_reads;

use super::Verb;
use crate::complete::revisions;
use crate::error::{Answer, Result};
use crate::invocation::Invocation;
use crate::json;
use crate::output::{NAME, REMOVED};
use crate::render::{count, harmless};
use crate::revision::resolve;

/// Check recorded reads against the current files
///
/// A snapshot records the SHA-256 of every file that an agent has read, where the framework tells it.
#[derive(Debug, Args)]
#[command(after_long_help = "Examples:
  turntree reads check HEAD --workspace .
  turntree reads check review --workspace /srv/app --agent lead --json")]
pub(crate) struct Reads {
    #[command(subcommand)]
    action: Action,
}

#[derive(Debug, Subcommand)]
enum Action {
    Check(Check),
}

/// List files that must be read again; the exit code is 1 when there are any
///
/// A file is changed, gone, unreadable, or converted: of a document as a PDF the agent has read a
/// text that only its framework can make again.
#[derive(Debug, Args)]
struct Check {
    /// The snapshot
    #[arg(value_name = "REV", add = ArgValueCandidates::new(revisions))]
    revision: String,
    /// The directory of today; recorded paths inside the session's own are looked for in it
    #[arg(long, value_name = "DIR", value_hint = clap::ValueHint::DirPath)]
    workspace: PathBuf,
    /// Only what this agent has read
    #[arg(long, value_name = "NAME")]
    agent: Option<String>,
}

impl Verb for Reads {
    fn reads_only(&self) -> bool {
        true
    }

    fn run(&self, run: &mut Invocation) -> Result<Answer> {
        match &self.action {
            Action::Check(check) => check.run(run),
        }
    }
}

impl Check {
    fn run(&self, run: &mut Invocation) -> Result<Answer> {
        let repo = run.open()?;
        let id = resolve(&repo, &self.revision)?.commit;
        if !self.workspace.is_dir() {
            let missing = format!("{} is not a directory", self.workspace.display());
            return Err(Error::not_found(missing).into());
        }
        let context = repo.context(&id)?;
        let found = check_reads(repo.store(), &context, &self.workspace, self.agent.as_deref())?;
        let answer = if found.stale.is_empty() { Answer::Yes } else { Answer::No };
        if run.out.json {
            let stale = found.stale.iter().map(|stale| json::StaleRead {
                agent: stale.agent.clone(),
                path: stale.path.clone(),
                reason: stale.reason.name(),
            });
            let (commit, stale) = (id.to_string(), stale.collect());
            run.out.record(&json::Reads { commit, checked: found.checked, stale })?;
            return Ok(answer);
        }
        let paint = run.out.paint;
        for stale in &found.stale {
            let reason = paint.paint(REMOVED, format!("{:<10}", stale.reason.name()));
            let agent = paint.paint(NAME, harmless(&stale.agent));
            writeln!(run.out, "{reason} {}  read by {agent}", harmless(&stale.path))?;
        }
        let stale = found.stale.len();
        writeln!(run.out, "{stale} of {} must be read again", count(found.checked, "file"))?;
        Ok(answer)
    }
}
