//! `swarm reads`: lists files that agents have read and must reread.

use std::io::Write;
use std::path::PathBuf;

use clap::Args;
use clap_complete::ArgValueCompleter;
use turntree::Error;
use turntree_exchange::check_reads;

use crate::porcelain::read::revision::resolve;
use crate::program::complete::revisions;
use crate::program::invocation::Invocation;
use crate::view::error::{Answer, Result};
use crate::view::json;
use crate::view::output::{NAME, REMOVED};
use crate::view::render::{count, harmless};

/// List files that must be reread; the exit code is 1 if there are any
///
/// A snapshot of a swarm records the SHA-256 of every file that an agent has read. A file must be
/// reread if it has changed, was deleted, cannot be read, or was converted: of a document such as a
/// PDF the agent has read a text that only its framework can produce.
#[derive(Debug, Args)]
pub(super) struct Reads {
    /// The snapshot
    #[arg(value_name = "REV", add = ArgValueCompleter::new(revisions))]
    revision: String,
    /// The directory with the current files; paths inside the recorded directory are looked up in
    /// it
    #[arg(long, value_name = "DIR", value_hint = clap::ValueHint::DirPath)]
    workspace: PathBuf,
    /// Check only the files that this agent has read
    #[arg(long, value_name = "NAME")]
    agent: Option<String>,
}

impl Reads {
    pub(super) fn run(&self, run: &mut Invocation) -> Result<Answer> {
        let repo = run.open()?;
        let id = resolve(&repo, &self.revision)?.commit;
        if !self.workspace.is_dir() {
            let missing = format!("{} is not a directory", self.workspace.display());
            return Err(Error::not_found(missing).into());
        }
        let context = repo.context(&id)?;
        let found = check_reads(&repo, &context, &self.workspace, self.agent.as_deref())?;
        let answer = if found.stale.is_empty() { Answer::Yes } else { Answer::No };
        if run.out.json {
            let stale = found.stale.iter().map(|stale| json::StaleRead {
                agent: stale.agent.clone(),
                path: stale.path.clone(),
                reason: stale.reason.name(),
            });
            let (at, stale) = (json::CommitId::new(id.to_string()), stale.collect());
            run.out.record(&json::Reads { at, checked: found.checked, stale })?;
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
