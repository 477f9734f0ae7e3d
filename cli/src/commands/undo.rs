//! `undo` and `redo`: revert the last operation, and redo it.

use std::path::PathBuf;

use clap::Args;
use turntree::repo::Repository;

use super::Verb;
use crate::porcelain::change::undo::{UndoDirection, UndoRequest, Undone, about};
use crate::porcelain::workspace::rewind::{checked, end, own_directory};
use crate::program::invocation::Invocation;
use crate::view::error::{Answer, Result};
use crate::view::render::restoration::write_unknown;

/// Undo the last change
///
/// Every command that changes a branch, a tag, a pin, a policy or HEAD is one operation. This
/// reverts your newest operation that is still in force: each ref gets its earlier value. After a
/// restore or a rollback, the files of the workspace are restored to their earlier state, including
/// files that are in no snapshot; the next undo finishes an interrupted one. Nothing is lost: the
/// current state is saved, and 'turntree redo' restores it. If a later operation has changed the
/// same ref, nothing changes and the exit code is 3.
#[derive(Debug, Args)]
#[command(after_long_help = "Examples:
  turntree undo
  turntree undo --dry-run
  turntree undo 41 --no-files
  turntree undo --any-actor --json")]
pub(crate) struct Undo {
    /// This operation instead, by the number or id shown by 'turntree op log'
    #[arg(value_name = "OP", conflicts_with = "any_actor")]
    operation: Option<String>,
    #[command(flatten)]
    options: Options,
}

/// Redo the last undone operation
///
/// Reverts your newest undo that is in force.
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
    /// The newest operation of any actor, not only yours
    #[arg(long)]
    any_actor: bool,
    /// Only print the changes
    #[arg(long)]
    dry_run: bool,
    /// Do not change the files of the workspace
    #[arg(long)]
    no_files: bool,
    /// The workspace, if it has moved
    #[arg(long, value_name = "DIR", value_hint = clap::ValueHint::DirPath, conflicts_with = "no_files")]
    workspace: Option<PathBuf>,
    /// Allow the home directory, a directory above it, or / as the workspace
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
            if let Some(dir) = &self.workspace {
                return checked(dir, self.allow_broad).map(Some);
            }
            known.map(|dir| own_directory(&repo, &dir, self.allow_broad)).transpose()
        };
        let planned = request.look(&repo, &directory)?;
        let about = about(&repo, planned.plan(), direction);
        let undone = if self.dry_run { planned.shown() } else { planned.apply(&repo)? };
        let back = match direction {
            UndoDirection::Undo => "redo",
            UndoDirection::Redo => "undo",
        };
        show(run, &repo, &undone, &about, back)?;
        end(undone.files.as_ref(), undone.arranged.as_ref())
    }
}

fn show(
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
    let (paint, width) = (run.out.paint, run.out.width);
    undone.write(&mut run.out, (paint, width), repo, about)?;
    let (files, arranged) = (undone.files.as_ref(), undone.arranged.as_ref());
    write_unknown(&mut run.out, files, arranged, back)?;
    Ok(())
}
