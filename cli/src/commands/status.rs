//! `status`: shows the position of HEAD.

use std::io::Write;

use clap::Args;

use super::Verb;
use crate::porcelain::read::secrets::about_mode;
use crate::porcelain::workspace::status::{secret_mode, status};
use crate::program::invocation::{Invocation, Way};
use crate::view::error::{Answer, Result};
use crate::view::output::{FAINT, ID, Output, REMOVED};
use crate::view::render::{ID_DIGITS, count, harmless, one_line, size};
use crate::view::{clock, json};

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
        let location = run.locate()?;
        if run.out.json {
            run.out.record(&status(&repo, &location)?)?;
            return Ok(Answer::Yes);
        }
        let json::Status {
            store,
            messages,
            conflicts,
            sessions,
            branches,
            workspace,
            unpushed,
            maintenance,
            untrusted,
            ..
        } = status(&repo, &location)?;
        let head = repo.head()?;
        let commit = head.commit.map(|id| repo.commit(&id)).transpose()?;
        let paint = run.out.paint;
        writeln!(run.out, "HEAD is at {}", run.out.branch(&head.branch))?;
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
        if let Some(unsaved) = workspace {
            write_unsaved(&mut run.out, &unsaved)?;
        }
        if conflicts > 0 {
            let open = format!(
                "{} to decide: 'turntree resolve' lists them",
                count(conflicts, "conflict")
            );
            writeln!(run.out, "{}", paint.paint(REMOVED, open))?;
        }
        for json::Unpushed { remote, branches } in unpushed {
            writeln!(run.out, "{} not pushed to {remote}", count(branches, "branch"))?;
        }
        if let Some(mode) = secret_mode(&repo) {
            writeln!(run.out, "{}", paint.paint(FAINT, about_mode(mode)))?;
        }
        if let Some(maintenance) = maintenance {
            write_maintenance(&mut run.out, &maintenance)?;
        }
        if let Some(doubt) = untrusted {
            let what = match location.way {
                Way::Meant => "nothing is pushed automatically",
                Way::Found | Way::Pointer(_) => "it is read-only, and hooks use your own store",
            };
            let doubt = harmless(&doubt);
            let said =
                format!("the store is not trusted, since {doubt}: {what}, until 'turntree trust'");
            writeln!(run.out, "{}", paint.paint(REMOVED, said))?;
        }
        let held = format!("{} of {}", count(branches, "branch"), count(sessions, "session"));
        writeln!(run.out, "{}", paint.paint(FAINT, format_args!("{held} in {store}")))?;
        Ok(Answer::Yes)
    }
}

/// Reports the last maintenance, its result, and why it waits or failed.
fn write_maintenance(out: &mut Output, maintenance: &json::Maintenance) -> Result<()> {
    let json::Maintenance { began, outcome, reason, written_bytes, expired_turns, waits, .. } =
        maintenance;
    let age = clock::relative(*began, clock::now()?);
    let mut did = match *outcome {
        "done" => format!("maintenance wrote packs of {}, {age}", size(*written_bytes)),
        "nothing" => format!("maintenance had nothing to do, {age}"),
        "begun" => format!("maintenance began {age}, and its outcome is unknown"),
        _ => format!("maintenance failed, {age}"),
    };
    if *expired_turns > 0 {
        did = format!("{did}, {} expired", count(*expired_turns, "turn"));
    }
    for more in [reason, waits].into_iter().flatten() {
        did = format!("{did}; {}", harmless(more));
    }
    let style = if *outcome == "failed" { REMOVED } else { FAINT };
    writeln!(out, "{}", out.paint.paint(style, did))?;
    Ok(())
}

/// Reports the number of workspace files that differ from the newest snapshot.
fn write_unsaved(out: &mut Output, unsaved: &json::UnsavedFiles) -> Result<()> {
    let (files, dir) = (unsaved.differing, harmless(&unsaved.dir));
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
