//! `undo` and `redo`: take back the last change, and make it again.

use std::io::Write;
use std::path::PathBuf;

use clap::Args;
use turntree::object::{RefChange, RefValue};
use turntree::repo::{
    LastUndo, MovedFiles, OperationEntry, Repository, Signature, UndoPlan, WORKSPACE,
};
use turntree::workspace::{
    AppliedFiles, FileChanges, PreparedRewind, RewindChanges, WorkspaceBackup, is_undo_unfinished,
    prepare_undo, prepare_undo_rest,
};
use turntree::{Error, ErrorKind};

use super::Verb;
use crate::porcelain::rewind::{capturing, checked, end, remember};
use crate::program::invocation::{Invocation, stamp};
use crate::view::error::{Answer, Failure, Hint, Result};
use crate::view::json;
use crate::view::output::{FAINT, ID, NAME, Palette};
use crate::view::render::restoration::write_files;
use crate::view::render::{ID_DIGITS, one_line};

const UNDO: &str = "undo";
const REDO: &str = "redo";

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
        let repo = run.open()?;
        let entry = match &self.operation {
            Some(name) => repo.find_operation(name).hint(
                ErrorKind::NotFound,
                "'turntree op log' shows the operations that are kept",
            )?,
            None => {
                if let Some(answer) = self.options.finish(run, &repo, UNDO)? {
                    return Ok(answer);
                }
                self.options.newest(&repo, UNDO, Repository::undoable)?
            }
        };
        self.options.take_back(run, &repo, entry, UNDO)
    }
}

impl Verb for Redo {
    fn run(&self, run: &mut Invocation) -> Result<Answer> {
        let repo = run.open()?;
        if let Some(answer) = self.options.finish(run, &repo, REDO)? {
            return Ok(answer);
        }
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

    /// Finishes an undo or redo that was interrupted while it wrote files, if the last one was.
    fn finish(
        &self,
        run: &mut Invocation,
        repo: &Repository,
        verb: &str,
    ) -> Result<Option<Answer>> {
        let stamp = stamp()?;
        let is_mine = |last: &LastUndo| {
            let operation = &last.entry.operation;
            last.is_redo == (verb == REDO) && (self.any_actor || operation.actor == stamp.actor)
        };
        let Some(last) = repo.last_undo()?.filter(|last| is_mine(last) && !self.no_files) else {
            return Ok(None);
        };
        let known = repo.commit(&last.target)?.metadata.remove(WORKSPACE).map(PathBuf::from);
        let dir =
            self.workspace.clone().or(known).and_then(|dir| checked(&dir, self.allow_broad).ok());
        let Some(dir) = dir.filter(|dir| matches!(is_undo_unfinished(repo, &last, dir), Ok(true)))
        else {
            return Ok(None);
        };
        let subject = repo.undo_subject(&last.entry)?;
        let (number, what) = (subject.operation.sequence, &subject.operation.reason);
        let reason = format!("finish {verb} {number}: {what}");
        let (prepared, cache) = capturing(repo, Some(&dir), |options| {
            prepare_undo_rest(repo, &last, &dir, options, &stamp, &reason)
        })?;
        let taken = Taken::by(prepared, self.dry_run, &stamp, &reason)?;
        remember(repo, cache.as_ref(), taken.before.as_ref());
        let undone = last.undone;
        let state = format!("the workspace before operation {}", undone.operation.sequence);
        let plan = UndoPlan { undone, changes: Vec::new(), moved: Some(last.moved) };
        self.show(run, &plan, &taken, &state, &reason)?;
        end(taken.files.as_ref(), taken.arranged.as_ref()).map(Some)
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
        // What is made again is better named than the undo of it.
        let undone = &plan.undone;
        let subject = if verb == REDO { repo.undo_subject(undone)? } else { undone.clone() };
        let (number, stamp) = (subject.operation.sequence, stamp()?);
        let reason = format!("{verb} {number}: {}", what(repo, &subject)?);
        let about = about(repo, &plan, verb);
        let taken = match plan.moved.as_ref().filter(|_| !self.no_files) {
            Some(moved) => self.with_files(repo, &plan, moved, &stamp, &reason)?,
            None if self.dry_run => Taken::default(),
            None => {
                let operation = Some(repo.undo(&plan, &stamp, &reason)?.sequence);
                Taken { operation, ..Taken::default() }
            }
        };
        let state = format!("the workspace before operation {}", undone.operation.sequence);
        self.show(run, &plan, &taken, &state, &format!("{reason}{about}"))?;
        end(taken.files.as_ref(), taken.arranged.as_ref())
    }

    /// Takes back an operation that has moved files of a workspace.
    fn with_files(
        &self,
        repo: &Repository,
        plan: &UndoPlan,
        moved: &MovedFiles,
        stamp: &Signature,
        reason: &str,
    ) -> Result<Taken> {
        let known = repo.commit(&moved.before)?.metadata.remove(WORKSPACE).map(PathBuf::from);
        let hint = "--workspace names where it is now, --no-files takes back the branch alone";
        let dir = self.workspace.clone().or(known);
        let dir = dir
            .as_deref()
            .map(|dir| checked(dir, self.allow_broad))
            .transpose()
            .hint(ErrorKind::NotFound, hint)?;
        let prepared = capturing(repo, dir.as_deref(), |options| {
            prepare_undo(repo, plan, moved, dir.as_deref(), options, stamp, reason)
        });
        let (prepared, cache) = prepared.hint(ErrorKind::InvalidInput, hint)?;
        let taken = Taken::by(prepared, self.dry_run, stamp, reason)?;
        remember(repo, cache.as_ref(), taken.before.as_ref());
        Ok(taken)
    }

    fn show(
        &self,
        run: &mut Invocation,
        plan: &UndoPlan,
        taken: &Taken,
        state: &str,
        reason: &str,
    ) -> Result<()> {
        let UndoPlan { undone, changes, .. } = plan;
        let Taken { operation, before, files, arranged } = taken;
        let (files, arranged) = (files.as_ref(), arranged.as_ref());
        if run.out.json {
            let before = before.as_ref().map(|kept| kept.commit.to_string());
            run.out.record(&json::Undo {
                undone: undone.operation.sequence,
                id: undone.id.to_string(),
                reason: undone.operation.reason.clone(),
                changes: changes.iter().map(json::ChangedRef::from).collect(),
                operation: *operation,
                workspace: files.map(|it| json::WorkspaceChanges::new(it, state, before, arranged)),
            })?;
            return Ok(());
        }
        let would = if self.dry_run { "would " } else { "" };
        let paint = run.out.paint;
        writeln!(run.out, "{would}{}", one_line(reason, run.out.width.left(would.len())))?;
        for change in changes {
            writeln!(run.out, "{}", line(paint, change))?;
        }
        if let Some(files) = files {
            write_files(&mut run.out, files, state, arranged)?;
        }
        Ok(())
    }
}

/// Describes an operation: its reason, or all of its adoption.
fn what(repo: &Repository, entry: &OperationEntry) -> Result<String> {
    let together = repo.adoption_of(entry)?;
    Ok(adopted(&together).unwrap_or_else(|| entry.operation.reason.clone()))
}

/// Describes the operations of an adoption, newest first, if they are several.
pub(crate) fn adopted(together: &[OperationEntry]) -> Option<String> {
    let [last, .., first] = together else { return None };
    let (first, last) = (first.operation.sequence, last.operation.sequence);
    Some(format!("adopt {} sessions, operations {first} to {last}", together.len()))
}

/// The message of the snapshot that goes with an undo, or comes back with a redo, for people.
fn about(repo: &Repository, plan: &UndoPlan, verb: &str) -> String {
    let side = |change: &RefChange| {
        if verb == REDO { change.new.clone() } else { change.old.clone() }
    };
    let mut branches = plan.changes.iter().filter(|change| change.name.starts_with("refs/heads/"));
    let message = match (branches.next().and_then(side), branches.next()) {
        (Some(RefValue::Object(id)), None) => repo.commit(&id).ok(),
        _ => None,
    };
    let message = message.map(|commit| format!(": turn {}, {}", commit.turn, commit.message));
    message.unwrap_or_default()
}

/// The operation that was taken back, or would be.
#[derive(Default)]
struct Taken {
    operation: Option<u64>,
    /// The reason that the workspace stays as it was.
    before: Option<WorkspaceBackup>,
    files: Option<FileChanges>,
    arranged: Option<AppliedFiles>,
}

impl Taken {
    /// The outcome of a plan, or what it would do.
    fn by(
        prepared: PreparedRewind<'_>,
        dry_run: bool,
        stamp: &Signature,
        reason: &str,
    ) -> Result<Self> {
        if dry_run {
            let files = prepared.plan().files.clone();
            return Ok(Self { files, ..Self::default() });
        }
        let done = prepared.apply(stamp, reason)?;
        let RewindChanges { before, files, .. } = done.plan;
        let operation = Some(done.committed.sequence);
        Ok(Self { operation, before, files, arranged: done.arranged })
    }
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
