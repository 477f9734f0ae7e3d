//! `restore`: restores a snapshot, or writes its context as files to another directory.

use std::io::Write;
use std::path::{Path, PathBuf};

use clap::Args;
use clap_complete::ArgValueCompleter;
use turntree::ErrorKind;
use turntree::object::ObjectId;
use turntree::repo::{BranchName, HEAD, Repository};
use turntree::workspace::{CheckoutReport, FileAction, FilesPlan, plan_checkout};

use super::Verb;
use crate::porcelain::broad_directory::expect_narrow;
use crate::porcelain::read::place::part;
use crate::porcelain::read::revision::snapshot_and_parts;
use crate::porcelain::workspace::rewind::{
    RestoreRequest, RewindPlace, session_directory_here, unknown_workspace,
};
use crate::program::complete::{entries, paths};
use crate::program::invocation::Invocation;
use crate::view::error::{Answer, Hint, Result};
use crate::view::json;
use crate::view::output::{ADDED, FAINT, Output, REMOVED};
use crate::view::render::{count, harmless, size};

/// Restore a snapshot: its context on the branch, its files in the workspace
///
/// Adds a snapshot with the context of REV to the branch. The workspace is saved first, so that
/// 'turntree undo' restores it. Then each file that differs is written under a temporary name,
/// made durable and renamed, and files that REV does not have are deleted. Files that are ignored, too large or otherwise not captured are never touched. A file that changes during the
/// restore is left alone, and the exit code is 3. Run the same restore again to finish one that was
/// interrupted.
///
/// With --to, the context is written as files to another directory: conversations become
/// agents/NAME/messages.jsonl, entries of other sections files below scratchpad, memory, files and
/// so on. Existing files are overwritten only with --overwrite. In names such as .git or .. the
/// first character is percent-coded (%2Egit).
///
/// The home directory, directories above it, and / are refused without --allow-broad.
///
/// A restore never replaces a directory, pipe, socket or device, follows no link below the
/// directory, and never writes into a store. Permissions follow the umask.
#[derive(Debug, Args)]
#[command(after_long_help = "Examples:
  turntree restore turn:12 --dry-run
  turntree restore src/main.rs
  turntree restore turn:12:files/src/main.rs
  turntree restore nightly~3 --only files/src --only scratchpad
  turntree restore HEAD --workspace ../copy
  turntree restore turn:12 --to look
  turntree restore nightly~3 --to . --only files --dry-run")]
pub(crate) struct Restore {
    /// The snapshot; with a path, only the entries there, as with --only; or a file, which is
    /// restored from the newest snapshot
    #[arg(value_name = "REV[:PATH]", add = ArgValueCompleter::new(entries))]
    revision: String,
    /// Write it to this directory, which is created if needed; branch and workspace do not change
    #[arg(
        long,
        value_name = "DIR",
        value_hint = clap::ValueHint::DirPath,
        conflicts_with_all = ["workspace", "session", "branch"]
    )]
    to: Option<PathBuf>,
    /// Restore only this: files, conversation, another section, or a path; may be given several
    /// times
    #[arg(long, value_name = "PART", add = ArgValueCompleter::new(paths))]
    only: Vec<String>,
    #[command(flatten)]
    place: RewindPlace,
    /// Print the changes without making them
    #[arg(short = 'n', long)]
    dry_run: bool,
    /// Overwrite files that differ
    #[arg(long, requires = "to")]
    overwrite: bool,
}

impl Verb for Restore {
    fn reads_only(&self) -> bool {
        self.to.is_some()
    }

    fn run(&self, run: &mut Invocation) -> Result<Answer> {
        let repo = run.open()?;
        let (mut revisions, paths) = part(&repo, std::slice::from_ref(&self.revision))?;
        let revision = revisions.pop().unwrap_or_else(|| HEAD.to_owned());
        let (id, only) = snapshot_and_parts(&repo, &revision, &[&*paths, &*self.only].concat())?;
        match &self.to {
            Some(to) => self.lay_out(run, &repo, id, to, &only),
            None => self.bring_back(run, &repo, id, &only),
        }
    }
}

impl Restore {
    fn bring_back(
        &self,
        run: &mut Invocation,
        repo: &Repository,
        from: ObjectId,
        only: &[String],
    ) -> Result<Answer> {
        let request = RestoreRequest {
            branch: self.place.branch(repo)?,
            from,
            only,
            keep_lessons: false,
            dry_run: self.dry_run,
        };
        let directory = |branch: &BranchName| match self.place.directory(repo, branch)? {
            None if !only.is_empty() => session_directory_here(repo, branch),
            known => Ok(known),
        };
        request.bring_back(repo, directory, unknown_workspace)?.run(run, repo)
    }

    fn lay_out(
        &self,
        run: &mut Invocation,
        repo: &Repository,
        id: ObjectId,
        to: &Path,
        only: &[String],
    ) -> Result<Answer> {
        expect_narrow(to, self.place.allow_broad)?;
        let plan = plan_checkout(repo, &repo.context(&id)?, to, only)?;
        let restored =
            if self.dry_run { CheckoutReport::default() } else { self.apply(repo, &plan)? };
        if run.out.json {
            run.out.record(&self.record(&id, &plan, &restored))?;
        } else {
            self.write_text(&mut run.out, &plan, &restored)?;
        }
        Ok(Answer::Yes)
    }

    fn apply(&self, repo: &Repository, plan: &FilesPlan) -> Result<CheckoutReport> {
        let restored = plan.apply(repo, self.overwrite);
        let differs = plan.files.iter().any(|file| file.action == FileAction::Overwrite);
        if differs && !self.overwrite {
            let hint = "--dry-run shows which files differ, --overwrite replaces them";
            return restored.hint(ErrorKind::InvalidInput, hint);
        }
        restored.hint(ErrorKind::Conflict, "check again with --dry-run")
    }

    fn record(&self, id: &ObjectId, plan: &FilesPlan, restored: &CheckoutReport) -> json::Restored {
        let files = plan.files.iter().map(|file| json::RestoredFile {
            path: file.path.display().to_string(),
            action: name(file.action),
        });
        json::Restored {
            at: json::CommitId::new(id.to_string()),
            target: plan.target.display().to_string(),
            dry_run: self.dry_run,
            files: files.collect(),
            written: restored.written,
            kept: restored.kept,
            bytes: restored.bytes,
        }
    }

    fn write_text(
        &self,
        out: &mut Output,
        plan: &FilesPlan,
        restored: &CheckoutReport,
    ) -> Result<()> {
        let paint = out.paint;
        for file in &plan.files {
            let style = match file.action {
                FileAction::Create => ADDED,
                FileAction::Overwrite => REMOVED,
                FileAction::Keep => FAINT,
            };
            let action = paint.paint(style, format!("{:<9}", name(file.action)));
            writeln!(out, "{action} {}", harmless(&file.path.display().to_string()))?;
        }
        let target = plan.target.display();
        if self.dry_run {
            let n = |action| plan.files.iter().filter(|file| file.action == action).count() as u64;
            let (create, overwrite) = (n(FileAction::Create), n(FileAction::Overwrite));
            let (create, keep) = (count(create, "file"), n(FileAction::Keep));
            writeln!(
                out,
                "would create {create}, overwrite {overwrite} and keep {keep} in {target}; nothing was done"
            )?;
            return Ok(());
        }
        let (written, bytes) = (count(restored.written, "file"), size(restored.bytes));
        writeln!(out, "wrote {written} ({bytes}) to {target}, kept {}", restored.kept)?;
        Ok(())
    }
}

fn name(action: FileAction) -> &'static str {
    match action {
        FileAction::Create => "create",
        FileAction::Overwrite => "overwrite",
        FileAction::Keep => "keep",
    }
}
