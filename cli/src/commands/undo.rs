//! `undo` and `redo`: take back the last change, and make it again.

use std::io::Write;
use std::path::PathBuf;

use clap::Args;
use turntree::object::{RefChange, RefValue};
use turntree::repo::{Repository, UndoPlan, is_place, is_worktree};

use super::Verb;
use crate::porcelain::rewind::{checked, end};
use crate::porcelain::undoing::{UndoDirection, UndoRequest, Undone};
use crate::program::invocation::Invocation;
use crate::view::error::{Answer, Result};
use crate::view::output::{FAINT, ID, NAME, Palette};
use crate::view::render::restoration::{write_files, write_unknown};
use crate::view::render::{ID_DIGITS, harmless, one_line};

/// Take back the last change
///
/// Every command that changes a branch, a tag, a pin, a policy or HEAD is one operation. This takes
/// back your newest operation that is not taken back yet: each ref gets its earlier value. After a
/// restore or a rollback the files of the workspace become what they were before it, including
/// those of no snapshot; the next undo finishes one that was interrupted. Nothing is lost: the
/// present state is saved, and 'turntree redo' restores it. When a later operation has changed the
/// same ref, nothing is changed and the exit code is 3.
#[derive(Debug, Args)]
#[command(after_long_help = "Examples:
  turntree undo
  turntree undo --dry-run
  turntree undo 41 --no-files
  turntree undo --any-actor --json")]
pub(crate) struct Undo {
    /// This operation instead, by the number or id that 'turntree op log' shows
    #[arg(value_name = "OP", conflicts_with = "any_actor")]
    operation: Option<String>,
    #[command(flatten)]
    options: Options,
}

/// Redo the last undone operation
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
    /// Leave the files of the workspace as they are
    #[arg(long)]
    no_files: bool,
    /// The workspace, when it is elsewhere now
    #[arg(long, value_name = "DIR", value_hint = clap::ValueHint::DirPath, conflicts_with = "no_files")]
    workspace: Option<PathBuf>,
    /// Take even the home directory, a directory above it, or / for a workspace
    #[arg(long)]
    allow_broad: bool,
}

impl Verb for Undo {
    fn run(&self, run: &mut Invocation) -> Result<Answer> {
        self.options.run(run, UndoDirection::Undo, self.operation.as_deref())
    }
}

impl Verb for Redo {
    fn run(&self, run: &mut Invocation) -> Result<Answer> {
        self.options.run(run, UndoDirection::Redo, None)
    }
}

impl Options {
    fn run(
        &self,
        run: &mut Invocation,
        direction: UndoDirection,
        operation: Option<&str>,
    ) -> Result<Answer> {
        let repo = run.open()?;
        let request = UndoRequest {
            direction,
            operation,
            any_actor: self.any_actor,
            no_files: self.no_files,
        };
        let directory = |known: Option<PathBuf>| {
            let dir = self.workspace.clone().or(known);
            dir.as_deref().map(|dir| checked(dir, self.allow_broad)).transpose()
        };
        let planned = request.look(&repo, &directory)?;
        let about = about(&repo, planned.plan(), direction);
        let undone = if self.dry_run { planned.shown() } else { planned.apply(&repo)? };
        let back = match direction {
            UndoDirection::Undo => "redo",
            UndoDirection::Redo => "undo",
        };
        self.show(run, &repo, &undone, &about, back)?;
        end(undone.files.as_ref(), undone.arranged.as_ref())
    }

    fn show(
        &self,
        run: &mut Invocation,
        repo: &Repository,
        undone: &Undone,
        about: &str,
        back: &str,
    ) -> Result<()> {
        if run.out.json {
            run.out.record(&undone.record())?;
            return Ok(());
        }
        let would = if self.dry_run { "would " } else { "" };
        let paint = run.out.paint;
        let reason = format!("{}{about}", undone.reason);
        writeln!(run.out, "{would}{}", one_line(&reason, run.out.width.left(would.len())))?;
        // Places go with HEAD, and their names tell people nothing.
        for change in undone.plan.changes.iter().filter(|change| !is_place(&change.name)) {
            writeln!(run.out, "{}", line(paint, change))?;
        }
        for dir in kept_worktrees(repo, &undone.plan) {
            let dir = harmless(&dir.display().to_string());
            writeln!(run.out, "{dir} stays as it is")?;
        }
        if let Some(files) = &undone.files {
            write_files(&mut run.out, files, &undone.state, undone.arranged.as_ref())?;
        }
        let (files, arranged) = (undone.files.as_ref(), undone.arranged.as_ref());
        write_unknown(&mut run.out, files, arranged, back)?;
        Ok(())
    }
}

/// The message of the snapshot that goes with an undo, or comes back with a redo, for people.
fn about(repo: &Repository, plan: &UndoPlan, direction: UndoDirection) -> String {
    let side = |change: &RefChange| match direction {
        UndoDirection::Redo => change.new.clone(),
        UndoDirection::Undo => change.old.clone(),
    };
    let mut branches = plan.changes.iter().filter(|change| change.name.starts_with("refs/heads/"));
    let message = match (branches.next().and_then(side), branches.next()) {
        (Some(RefValue::Object(id)), None) => repo.commit(&id).ok(),
        _ => None,
    };
    let message = message.map(|commit| format!(": turn {}, {}", commit.turn, commit.message));
    message.unwrap_or_default()
}

/// The directories of worktrees whose branches an undo removes.
fn kept_worktrees(repo: &Repository, plan: &UndoPlan) -> Vec<PathBuf> {
    let gone =
        plan.changes.iter().filter(|change| is_worktree(&change.name) && change.new.is_none());
    let tip = |change: &RefChange| {
        let Some(RefValue::Symbolic(branch)) = &change.old else { return None };
        let branch = plan.changes.iter().find(|change| change.name == *branch)?;
        let Some(RefValue::Object(tip)) = branch.old else { return None };
        repo.workspace_of(&tip).ok().flatten().map(PathBuf::from)
    };
    gone.filter_map(tip).filter(|dir| dir.is_dir()).collect()
}

/// Describes the change of a ref for people.
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
