//! `status`: where HEAD is.

use std::io::Write;
use std::time::Duration;

use clap::Args;

use super::Verb;
use crate::porcelain::status::status;
use crate::porcelain::unsaved::{UnsavedChanges, known_workspace};
use crate::program::invocation::Invocation;
use crate::view::error::{Answer, Result};
use crate::view::output::{FAINT, ID, NAME, Output, REMOVED};
use crate::view::render::{ID_DIGITS, count, harmless, one_line};
use crate::view::{clock, json};

/// The longest that a status looks at the files of a workspace.
const PATIENCE: Duration = Duration::from_secs(2);

/// Show the branch that commands act on here, its newest snapshot and its open conflicts
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
        let unsaved = match known_workspace(&repo)? {
            Some(_) => Some(UnsavedChanges::look(&repo, Some(PATIENCE))?),
            None => None,
        };
        if run.out.json {
            let mut status = status(&repo, &store)?;
            status.workspace = unsaved.map(|unsaved| json::UnsavedFiles {
                dir: unsaved.dir.display().to_string(),
                differing: unsaved.files(),
                unfinished: unsaved.unfinished,
            });
            run.out.record(&status)?;
            return Ok(Answer::Yes);
        }
        let json::Status { store, messages, conflicts, sessions, branches, .. } =
            status(&repo, &store)?;
        let head = repo.head()?;
        let commit = head.commit.map(|id| repo.commit(&id)).transpose()?;
        let paint = run.out.paint;
        writeln!(run.out, "HEAD is at {}", paint.paint(NAME, &head.branch))?;
        match head.commit.zip(commit) {
            None => writeln!(
                run.out,
                "no snapshots yet: 'turntree snapshot' or 'turntree import FILE'"
            )?,
            Some((id, commit)) => {
                let age = clock::relative(commit.time, clock::now()?);
                let about = format!("turn {}, {}, {age}:", commit.turn, count(messages, "message"));
                let left = run.out.width.left(ID_DIGITS + about.len() + 2);
                let (id, message) = (id.short(ID_DIGITS), one_line(&commit.message, left));
                writeln!(run.out, "{} {about} {message}", paint.paint(ID, id))?;
            }
        }
        if let Some(unsaved) = unsaved {
            write_unsaved(&mut run.out, &unsaved)?;
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

/// Says how many files of the workspace the newest snapshot does not have as they are.
fn write_unsaved(out: &mut Output, unsaved: &UnsavedChanges<'_>) -> Result<()> {
    let (files, dir) = (unsaved.files(), harmless(&unsaved.dir.display().to_string()));
    let at_least = if unsaved.unfinished { "at least " } else { "" };
    match files {
        0 if !unsaved.unfinished => writeln!(out, "{dir} is as in this snapshot")?,
        _ => {
            let files = count(files, "file");
            let differ = if files == "1 file" { "differs" } else { "differ" };
            writeln!(out, "{at_least}{files} of {dir} {differ}: 'turntree diff' shows what")?;
        }
    }
    Ok(())
}
