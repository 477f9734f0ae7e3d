//! `restore`: lays a context out as files.

use std::io::Write;
use std::path::{Path, PathBuf};

use clap::Args;
use clap_complete::ArgValueCandidates;
use turntree::ErrorKind;
use turntree::object::ObjectId;
use turntree::repo::Repository;
use turntree::workspace::{Action, RestorePlan, Restored, plan};

use super::restore_for::RestoreFor;
use crate::complete::revisions;
use crate::error::{Answer, Hint, Result};
use crate::invocation::Invocation;
use crate::json;
use crate::output::{ADDED, FAINT, Output, REMOVED};
use crate::render::{count, harmless, size};
use crate::revision::resolve;

/// Lay a context out as files in a directory
///
/// Conversations become agents/NAME/messages.jsonl, entries of other sections files below
/// scratchpad, memory, files and so on. Nothing is written before everything was looked at, and
/// nothing that is there is overwritten without --overwrite. A directory, pipe, socket or device is
/// never replaced, no link is followed below the directory, and nothing is written into a store.
///
/// Each file is written under a temporary name, synced, read back and renamed; permissions are as the
/// umask says. A name as .git or .. is not written: its first character is percent-coded (%2Egit).
#[derive(Debug, Args)]
#[command(after_long_help = "Examples:
  turntree restore turn:12 --to look
  turntree restore nightly~3 --to . --only files --dry-run
  turntree restore nightly~3 --to . --only files/src --overwrite
  turntree restore review --for swarm.json --json")]
pub(crate) struct Restore {
    /// The snapshot
    #[arg(value_name = "REV", add = ArgValueCandidates::new(revisions))]
    revision: String,
    /// The directory, which is made if need be
    #[arg(long, value_name = "DIR", value_hint = clap::ValueHint::DirPath, required_unless_present = "configuration")]
    to: Option<PathBuf>,
    /// Only sections and entries below this path; may be given several times
    #[arg(long, value_name = "PATH")]
    only: Vec<String>,
    /// Print what would be done, and do nothing
    #[arg(short = 'n', long)]
    dry_run: bool,
    /// Overwrite files that differ
    #[arg(long)]
    overwrite: bool,
    #[command(flatten)]
    into: RestoreFor,
}

impl Restore {
    pub(crate) fn run(&self, run: &mut Invocation) -> Result<Answer> {
        let repo = run.open()?;
        let id = resolve(&repo, &self.revision)?.commit;
        if let Some(configuration) = self.into.configuration() {
            return self.into.run(run, &repo, &id, configuration);
        }
        let to = self.to.as_deref().unwrap_or(Path::new("."));
        let plan = plan(repo.store(), &repo.context(&id)?, to, &self.only)?;
        let restored = if self.dry_run { Restored::default() } else { self.apply(&repo, &plan)? };
        if run.out.json {
            run.out.record(&self.record(&id, &plan, &restored))?;
        } else {
            self.write_text(&mut run.out, &plan, &restored)?;
        }
        Ok(Answer::Yes)
    }

    fn apply(&self, repo: &Repository, plan: &RestorePlan) -> Result<Restored> {
        let restored = plan.apply(repo.store(), self.overwrite);
        let differs = plan.files.iter().any(|file| file.action == Action::Overwrite);
        if differs && !self.overwrite {
            let hint = "--dry-run shows which files differ, --overwrite replaces them";
            return restored.hint(ErrorKind::InvalidInput, hint);
        }
        restored.hint(ErrorKind::Conflict, "look again with --dry-run")
    }

    fn record(&self, id: &ObjectId, plan: &RestorePlan, restored: &Restored) -> json::Restored {
        let files = plan.files.iter().map(|file| json::RestoredFile {
            path: file.path.display().to_string(),
            action: name(file.action),
        });
        json::Restored {
            commit: id.to_string(),
            target: plan.target.display().to_string(),
            dry_run: self.dry_run,
            files: files.collect(),
            written: restored.written,
            kept: restored.kept,
            bytes: restored.bytes,
        }
    }

    fn write_text(&self, out: &mut Output, plan: &RestorePlan, restored: &Restored) -> Result<()> {
        let paint = out.paint;
        for file in &plan.files {
            let style = match file.action {
                Action::Create => ADDED,
                Action::Overwrite => REMOVED,
                Action::Keep => FAINT,
            };
            let action = paint.paint(style, format!("{:<9}", name(file.action)));
            writeln!(out, "{action} {}", harmless(&file.path.display().to_string()))?;
        }
        let target = plan.target.display();
        if self.dry_run {
            let n = |action| plan.files.iter().filter(|file| file.action == action).count() as u64;
            let (create, overwrite) = (n(Action::Create), n(Action::Overwrite));
            let (create, keep) = (count(create, "file"), n(Action::Keep));
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

fn name(action: Action) -> &'static str {
    match action {
        Action::Create => "create",
        Action::Overwrite => "overwrite",
        Action::Keep => "keep",
    }
}
