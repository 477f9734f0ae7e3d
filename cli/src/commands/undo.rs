//! `undo` and `redo`: take back the last change, and make it again.

use std::io::Write;

use clap::Args;
use turntree::object::{RefChange, RefValue};
use turntree::repo::{OperationEntry, Repository, UndoPlan};
use turntree::{Error, ErrorKind};

use crate::error::{Answer, Failure, Hint, Result};
use crate::invocation::{Invocation, stamp};
use crate::json;
use crate::output::{FAINT, ID, NAME, Palette};
use crate::render::{ID_DIGITS, one_line};

const UNDO: &str = "undo";
const REDO: &str = "redo";

/// Characters of a reason on a line.
const REASON_WIDTH: usize = 60;

/// Take back the last change
///
/// Every command that changed a branch, a tag, a pin, a policy or HEAD is one operation, and this takes
/// back the newest one of yours that is not taken back yet: each ref gets the value that it had. Files
/// in a workspace stay as they are. Nothing is lost: 'turntree redo' makes it again. When a later
/// operation has changed the same ref, nothing happens and the exit code is 3.
#[derive(Debug, Args)]
#[command(after_long_help = "Examples:
  turntree undo
  turntree undo --dry-run
  turntree undo 41
  turntree undo --any-actor --json")]
pub(crate) struct Undo {
    /// This operation instead, by the number or id that 'turntree op log' shows
    #[arg(value_name = "OP", conflicts_with = "any_actor")]
    operation: Option<String>,
    #[command(flatten)]
    options: Options,
}

/// Make again what was undone
///
/// Takes back the newest undo of yours that is in force.
#[derive(Debug, Args)]
#[command(after_long_help = "Examples:
  turntree redo
  turntree redo --dry-run")]
pub(crate) struct Redo {
    #[command(flatten)]
    options: Options,
}

#[derive(Debug, Args)]
struct Options {
    /// The newest one of anybody, and not only yours
    #[arg(long)]
    any_actor: bool,
    /// Only show what would change
    #[arg(long)]
    dry_run: bool,
}

impl Undo {
    pub(crate) fn run(&self, run: &mut Invocation) -> Result<Answer> {
        let repo = run.open()?;
        let entry = match &self.operation {
            Some(name) => repo.find_operation(name).hint(
                ErrorKind::NotFound,
                "'turntree op log' shows the operations that are kept",
            )?,
            None => self.options.newest(&repo, UNDO, Repository::undoable)?,
        };
        self.options.take_back(run, &repo, entry, UNDO)
    }
}

impl Redo {
    pub(crate) fn run(&self, run: &mut Invocation) -> Result<Answer> {
        let repo = run.open()?;
        let entry = self.options.newest(&repo, REDO, Repository::redoable)?;
        self.options.take_back(run, &repo, entry, REDO)
    }
}

impl Options {
    fn newest(
        &self,
        repo: &Repository,
        verb: &str,
        find: impl Fn(&Repository, Option<&str>) -> turntree::Result<Option<OperationEntry>>,
    ) -> Result<OperationEntry> {
        let actor = stamp()?.actor;
        let own = if self.any_actor { None } else { Some(actor.as_str()) };
        if let Some(entry) = find(repo, own)? {
            return Ok(entry);
        }
        let whose = if self.any_actor { String::new() } else { format!(" of {actor}") };
        let error = Error::not_found(format!("there is no operation{whose} to {verb}"));
        Err(Failure::hinted(error, "'turntree op log' shows who did what"))
    }

    fn take_back(
        &self,
        run: &mut Invocation,
        repo: &Repository,
        entry: OperationEntry,
        verb: &str,
    ) -> Result<Answer> {
        let plan = repo.plan_undo(entry).hint(
            ErrorKind::Conflict,
            "undo the later one first, or 'turntree fork' from the old value",
        )?;
        let UndoPlan { undone, changes } = &plan;
        // What is made again is better named than the undo of it.
        let subject = if verb == REDO { repo.undo_subject(undone)? } else { undone.clone() };
        let (number, reason) = (subject.operation.sequence, &subject.operation.reason);
        let done = match self.dry_run {
            true => None,
            false => {
                let committed =
                    repo.undo(&plan, &stamp()?, &format!("{verb} {number}: {reason}"))?;
                Some(committed.sequence)
            }
        };
        if run.out.json {
            run.out.record(&json::Undo {
                undone: undone.operation.sequence,
                id: undone.id.to_string(),
                reason: undone.operation.reason.clone(),
                changes: changes.iter().map(json::Change::from).collect(),
                operation: done,
            })?;
            return Ok(Answer::Yes);
        }
        let would = if self.dry_run { "would " } else { "" };
        let paint = run.out.paint;
        writeln!(run.out, "{would}{verb} {number}: {}", one_line(reason, REASON_WIDTH))?;
        for change in changes {
            writeln!(run.out, "{}", line(paint, change))?;
        }
        Ok(Answer::Yes)
    }
}

/// How a ref changes, for people.
pub(crate) fn line(paint: Palette, change: &RefChange) -> String {
    let value = |value: &Option<RefValue>| match value {
        None => paint.paint(FAINT, "nothing").to_string(),
        Some(RefValue::Object(id)) => paint.paint(ID, id.short(ID_DIGITS)).to_string(),
        Some(RefValue::Symbolic(target)) => {
            let name = target.strip_prefix("refs/heads/").unwrap_or(target);
            paint.paint(NAME, name).to_string()
        }
    };
    let name = change.name.strip_prefix("refs/").unwrap_or(&change.name);
    format!("  {} {} -> {}", paint.paint(NAME, name), value(&change.old), value(&change.new))
}
