//! `status`: where HEAD is.

use std::collections::BTreeSet;
use std::io::Write;
use std::path::Path;

use clap::Args;
use turntree::context::open_conflicts;
use turntree::repo::Repository;

use super::Verb;
use crate::error::{Answer, Result};
use crate::invocation::Invocation;
use crate::output::{FAINT, ID, NAME, REMOVED};
use crate::render::{ID_DIGITS, count, one_line};
use crate::{clock, json};

/// Show where HEAD is
#[derive(Debug, Args)]
#[command(after_long_help = "Examples:
  turntree status
  turntree status --json")]
pub(crate) struct Status {}

impl Verb for Status {
    fn reads_only(&self) -> bool {
        true
    }

    fn run(&self, run: &mut Invocation) -> Result<Answer> {
        let repo = run.open()?;
        let store = run.store_dir()?;
        if run.out.json {
            run.out.record(&record(&repo, &store)?)?;
            return Ok(Answer::Yes);
        }
        let json::Status { store, messages, conflicts, sessions, branches, .. } =
            record(&repo, &store)?;
        let head = repo.head()?;
        let commit = head.commit.map(|id| repo.commit(&id)).transpose()?;
        let paint = run.out.paint;
        writeln!(run.out, "HEAD is at {}", paint.paint(NAME, &head.branch))?;
        match head.commit.zip(commit) {
            None => writeln!(run.out, "nothing was snapshotted on it yet")?,
            Some((id, commit)) => writeln!(
                run.out,
                "{} turn {}, {}, {}: {}",
                paint.paint(ID, id.short(ID_DIGITS)),
                commit.turn,
                count(messages, "message"),
                clock::relative(commit.time, clock::now()?),
                one_line(&commit.message, 60),
            )?,
        }
        if conflicts > 0 {
            let open = format!(
                "{} to decide: 'turntree resolve' lists them",
                count(conflicts, "conflict")
            );
            writeln!(run.out, "{}", paint.paint(REMOVED, open))?;
        }
        let held = format!("{} of {}", count(branches, "branch"), count(sessions, "session"));
        writeln!(run.out, "{}", paint.paint(FAINT, format_args!("{held} in {store}")))?;
        Ok(Answer::Yes)
    }
}

/// Where HEAD is.
pub(crate) fn record(repo: &Repository, store: &Path) -> Result<json::Status> {
    let (head, branches) = (repo.head()?, repo.branches());
    let sessions: BTreeSet<&str> = branches.iter().map(|(name, _)| name.session()).collect();
    let commit = head.commit.map(|id| repo.commit(&id)).transpose()?;
    let (messages, conflicts) = match &head.commit {
        Some(id) => {
            let context = repo.context(id)?;
            let open = open_conflicts(repo.store(), &context)?.len() as u64;
            (context.message_count(repo.store())?, open)
        }
        None => (0, 0),
    };
    Ok(json::Status {
        store: store.display().to_string(),
        session: head.branch.session().to_owned(),
        branch: head.branch.branch().to_owned(),
        head: head.commit.map(|id| id.to_string()),
        turn: commit.as_ref().map(|commit| commit.turn),
        time: commit.as_ref().map(|commit| clock::rfc3339(commit.time)),
        messages,
        sessions: sessions.len() as u64,
        branches: branches.len() as u64,
        conflicts,
    })
}
