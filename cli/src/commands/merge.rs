//! `merge`: merges another branch into this one.

use std::path::PathBuf;

use clap::Args;
use clap_complete::ArgValueCompleter;

use super::Verb;
use crate::porcelain::change::merge::{
    MergeOptions, MergeOutcome, answer, expect_related, merge, snapshot_of,
};
use crate::porcelain::change::merge_files::{MergeWithFiles, write_stale};
use crate::program::complete::revisions;
use crate::program::invocation::Invocation;
use crate::view::error::{Answer, Result};

/// Merge a branch, or any snapshot, into HEAD's branch
///
/// Both sides are compared with their newest common snapshot, section by section: maps by keys,
/// JSON by fields, text by lines, and the executable bit of a file separately from its content. A
/// change on only one side is taken.
///
/// A merge never stops half way. An entry that both sides changed differently is a conflict: its
/// three versions are kept in the section conflicts, 'turntree resolve' lists and resolves them,
/// and the exit code is 1. Branches without a common snapshot, such as those of two sessions, are
/// merged only with --unrelated.
///
/// With --with-files the merged files are written to the workspace, as with 'turntree restore': the
/// workspace is saved first, and 'turntree undo' reverts both. Unsaved changes of the workspace
/// become a snapshot before the merge, so they are merged and not overwritten.
#[derive(Debug, Args)]
#[command(after_long_help = "Examples:
  turntree merge plan-b
  turntree merge plan-3 --with-files
  turntree merge plan-b --only scratchpad --only memory --only files
  turntree merge plan-b --messages summary --summary 'plan b found the leak in the pool'
  turntree merge plan-b --into main --dry-run")]
pub(crate) struct Merge {
    /// The branch or revision to merge
    #[arg(value_name = "REV", add = ArgValueCompleter::new(revisions))]
    revision: String,
    #[command(flatten)]
    how: MergeOptions,
    /// Also write the merged files to the workspace
    #[arg(long)]
    with_files: bool,
    /// The workspace; by default that of the newest snapshot with files
    #[arg(long, value_name = "DIR", value_hint = clap::ValueHint::DirPath, requires = "with_files")]
    workspace: Option<PathBuf>,
    /// Allow the home directory, a directory above it, or / as the workspace
    #[arg(long, requires = "with_files")]
    allow_broad: bool,
    /// Merge even without a common snapshot: everything of theirs counts as new
    #[arg(long)]
    unrelated: bool,
}

impl Verb for Merge {
    fn run(&self, run: &mut Invocation) -> Result<Answer> {
        let repo = run.open()?;
        if !self.unrelated {
            expect_related(&repo, &self.revision, &self.how)?;
        }
        if self.with_files {
            let (theirs, label) = snapshot_of(&repo, &self.revision)?;
            let request = self.how.request(&repo, theirs, label)?;
            let merge = MergeWithFiles {
                request: &request,
                workspace: self.workspace.as_deref(),
                allow_broad: self.allow_broad,
                dry_run: self.how.dry_run,
                removes_worktree: false,
            };
            let (ended, staged) = merge.run(&mut run.out, &repo)?;
            return Ok(if ended == Answer::Yes { answer([&staged]) } else { ended });
        }
        let (request, staged, turn) = merge(&repo, &self.revision, &self.how)?;
        let shown =
            MergeOutcome { staged: &staged, request: &request, turn, dry_run: self.how.dry_run };
        if run.out.json {
            run.out.record(&shown.record())?;
        } else {
            shown.write(&mut run.out, "merged")?;
            if !self.how.dry_run {
                write_stale(&mut run.out, &repo, &request, &staged)?;
            }
        }
        Ok(answer([&staged]))
    }
}
