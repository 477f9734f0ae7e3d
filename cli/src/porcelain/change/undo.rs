//! Undo and redo: the operation to revert, the plan with the workspace files, and the result.

use std::io::Write;
use std::path::PathBuf;

use turntree::object::{RefChange, RefValue};
use turntree::repo::{
    LastUndo, MovedFiles, OperationEntry, Repository, Signature, UndoPlan, WORKSPACE, is_place,
    is_worktree,
};
use turntree::workspace::{
    AppliedFiles, FileChanges, PreparedRewind, RewindChanges, StatCache, WorkspaceBackup,
    is_undo_unfinished, prepare_undo, prepare_undo_rest,
};
use turntree::{Error, ErrorKind};

use crate::porcelain::workspace::plans;
use crate::porcelain::workspace::rewind::{capturing, remember};
use crate::program::invocation::stamp;
use crate::view::advice::Advice;
use crate::view::error::{Failure, Hint, Result};
use crate::view::json;
use crate::view::output::{Palette, Width};
use crate::view::render::changed_ref::line;
use crate::view::render::restoration::write_files;
use crate::view::render::{harmless, one_line};
use crate::view::short_names::ShortNames;

/// Undo or redo.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum UndoDirection {
    Undo,
    Redo,
}

impl UndoDirection {
    fn verb(self) -> &'static str {
        match self {
            Self::Undo => "undo",
            Self::Redo => "redo",
        }
    }
}

/// The operation to undo or redo.
pub(crate) struct UndoRequest<'a> {
    pub(crate) direction: UndoDirection,
    /// The number or id of an operation; by default the newest one that can be reverted.
    pub(crate) operation: Option<&'a str>,
    /// The newest operation of any actor, not only of this one.
    pub(crate) any_actor: bool,
    /// Leave the files of the workspace as they are.
    pub(crate) no_files: bool,
}

/// A planned undo or redo.
pub(crate) struct PlannedUndo<'r> {
    plan: UndoPlan,
    files: Option<(PreparedRewind<'r>, Option<StatCache>)>,
    stamp: Signature,
    /// The reason of the new operation.
    pub(crate) reason: String,
    /// Names the state that the files are restored to.
    pub(crate) state: String,
}

/// The result of an undo or redo, or of a dry run.
pub(crate) struct Undone {
    pub(crate) plan: UndoPlan,
    pub(crate) reason: String,
    pub(crate) state: String,
    /// The number of the new operation; `None` if nothing was done.
    pub(crate) operation: Option<u64>,
    before: Option<WorkspaceBackup>,
    pub(crate) files: Option<FileChanges>,
    pub(crate) arranged: Option<AppliedFiles>,
}

impl UndoRequest<'_> {
    /// Plans it. `directory` checks the known workspace of the files, or names another directory.
    pub(crate) fn look<'r>(
        &self,
        repo: &'r Repository,
        directory: &dyn Fn(Option<PathBuf>) -> Result<Option<PathBuf>>,
    ) -> Result<PlannedUndo<'r>> {
        let entry = match self.operation {
            Some(name) => repo.find_operation(name).hint(
                ErrorKind::NotFound,
                "'turntree op log' shows the operations that are kept",
            )?,
            None => {
                if let Some(rest) = self.look_at_rest(repo, directory)? {
                    return Ok(rest);
                }
                self.newest(repo)?
            }
        };
        self.look_at(repo, entry, directory)
    }

    fn newest(&self, repo: &Repository) -> Result<OperationEntry> {
        let actor = stamp()?.actor;
        let own = if self.any_actor { None } else { Some(actor.as_str()) };
        let found = match self.direction {
            UndoDirection::Undo => repo.undoable(own)?,
            UndoDirection::Redo => repo.redoable(own)?,
        };
        found.ok_or_else(|| {
            let whose = if self.any_actor { String::new() } else { format!(" of {actor}") };
            let verb = self.direction.verb();
            let error = Error::not_found(format!("there is no operation{whose} to {verb}"));
            let advice = Advice::new(
                "'turntree op log' lists operations and their actors",
                "any_actor = true includes operations of other actors",
            );
            Failure::hinted(error, advice)
        })
    }

    /// Plans to finish an undo or redo that was interrupted while it wrote files, if the last one
    /// was.
    fn look_at_rest<'r>(
        &self,
        repo: &'r Repository,
        directory: &dyn Fn(Option<PathBuf>) -> Result<Option<PathBuf>>,
    ) -> Result<Option<PlannedUndo<'r>>> {
        let (stamp, verb) = (stamp()?, self.direction.verb());
        let is_mine = |last: &LastUndo| {
            let operation = &last.entry.operation;
            last.is_redo == (self.direction == UndoDirection::Redo)
                && (self.any_actor || operation.actor == stamp.actor)
        };
        let Some(last) = repo.last_undo()?.filter(|last| is_mine(last) && !self.no_files) else {
            return Ok(None);
        };
        let known = repo.commit(&last.target)?.metadata.remove(WORKSPACE).map(PathBuf::from);
        let dir = directory(known).ok().flatten();
        let Some(dir) = dir.filter(|dir| matches!(is_undo_unfinished(repo, &last, dir), Ok(true)))
        else {
            return Ok(None);
        };
        let subject = repo.undo_subject(&last.entry)?;
        let (number, what) = (subject.operation.sequence, &subject.operation.reason);
        let reason = format!("finish {verb} {number}: {what}");
        let files = capturing(repo, Some(&dir), |options| {
            prepare_undo_rest(repo, &last, &dir, options, &stamp, &reason)
        })?;
        let undone = last.undone;
        let state = format!("the workspace before operation {}", undone.operation.sequence);
        let plan = UndoPlan { undone, changes: Vec::new(), moved: Some(last.moved) };
        Ok(Some(PlannedUndo { plan, files: Some(files), stamp, reason, state }))
    }

    fn look_at<'r>(
        &self,
        repo: &'r Repository,
        entry: OperationEntry,
        directory: &dyn Fn(Option<PathBuf>) -> Result<Option<PathBuf>>,
    ) -> Result<PlannedUndo<'r>> {
        let plan = repo.plan_undo(entry).hint(
            ErrorKind::Conflict,
            "undo the later one first, or 'turntree fork' from the old value",
        )?;
        // A redo names the original operation rather than the undo of it.
        let undone = &plan.undone;
        let subject = match self.direction {
            UndoDirection::Undo => undone.clone(),
            UndoDirection::Redo => repo.undo_subject(undone)?,
        };
        let (number, stamp, verb) = (subject.operation.sequence, stamp()?, self.direction.verb());
        let reason = format!("{verb} {number}: {}", what(repo, &subject)?);
        let files = match plan.moved.as_ref().filter(|_| !self.no_files) {
            Some(moved) => Some(with_files(repo, &plan, moved, directory, &stamp, &reason)?),
            None => None,
        };
        let state = format!("the workspace before operation {}", undone.operation.sequence);
        Ok(PlannedUndo { plan, files, stamp, reason, state })
    }
}

/// Describes an operation: its reason, or its whole adoption.
fn what(repo: &Repository, entry: &OperationEntry) -> Result<String> {
    let together = repo.adoption_of(entry)?;
    Ok(adopted(&together).unwrap_or_else(|| entry.operation.reason.clone()))
}

/// Describes the operations of an adoption, newest first, if there are several.
pub(crate) fn adopted(together: &[OperationEntry]) -> Option<String> {
    let [last, .., first] = together else { return None };
    let (first, last) = (first.operation.sequence, last.operation.sequence);
    Some(format!("adopt {} sessions, operations {first} to {last}", together.len()))
}

/// Plans the files of an operation that changed files of a workspace.
fn with_files<'r>(
    repo: &'r Repository,
    plan: &UndoPlan,
    moved: &MovedFiles,
    directory: &dyn Fn(Option<PathBuf>) -> Result<Option<PathBuf>>,
    stamp: &Signature,
    reason: &str,
) -> Result<(PreparedRewind<'r>, Option<StatCache>)> {
    let known = repo.commit(&moved.before)?.metadata.remove(WORKSPACE).map(PathBuf::from);
    let hint = || {
        Advice::new(
            "--workspace names where it is now, --no-files takes back the branch alone",
            "files = false takes back the branch alone",
        )
    };
    let dir = directory(known).hint(ErrorKind::NotFound, hint())?;
    let prepared = capturing(repo, dir.as_deref(), |options| {
        prepare_undo(repo, plan, moved, dir.as_deref(), options, stamp, reason)
    });
    prepared.hint(ErrorKind::InvalidInput, hint())
}

impl PlannedUndo<'_> {
    /// The plan for the refs.
    pub(crate) fn plan(&self) -> &UndoPlan {
        &self.plan
    }

    /// The plan for the files.
    pub(crate) fn rewind(&self) -> Option<&RewindChanges> {
        self.files.as_ref().map(|(prepared, _)| prepared.plan())
    }

    /// The id of the plan: the newest operation, the reverted operation, and the workspace.
    pub(crate) fn plan_id(&self, repo: &Repository) -> String {
        let (rewind, undone) = (self.rewind(), self.plan.undone.id);
        let newest = repo.refs().operation.map(|id| id.to_string()).unwrap_or_default();
        let dir = rewind.and_then(|rewind| rewind.files.as_ref()).map(|files| files.dir.as_path());
        plans::id(format!("{}\0{undone}\0{newest}", self.reason), dir, rewind)
    }

    /// The plan as the result of a dry run.
    pub(crate) fn shown(self) -> Undone {
        let files = self.rewind().and_then(|rewind| rewind.files.clone());
        let Self { plan, reason, state, .. } = self;
        Undone { plan, reason, state, operation: None, before: None, files, arranged: None }
    }

    /// Carries it out.
    pub(crate) fn apply(self, repo: &Repository) -> Result<Undone> {
        let Self { plan, files, stamp, reason, state } = self;
        let Some((prepared, cache)) = files else {
            let operation = Some(repo.undo(&plan, &stamp, &reason)?.sequence);
            let (before, files, arranged) = (None, None, None);
            return Ok(Undone { plan, reason, state, operation, before, files, arranged });
        };
        let done = prepared.apply(&stamp, &reason)?;
        let RewindChanges { before, files, .. } = done.plan;
        remember(repo, cache.as_ref(), before.as_ref());
        let (operation, arranged) = (Some(done.committed.sequence), done.arranged);
        Ok(Undone { plan, reason, state, operation, before, files, arranged })
    }
}

impl Undone {
    /// Writes the changes for people; `about` is the result of [`about`] for the plan.
    pub(crate) fn write(
        &self,
        out: &mut dyn Write,
        (paint, width): (Palette, Width),
        repo: &Repository,
        about: &str,
    ) -> Result<()> {
        let would = if self.operation.is_none() { "would " } else { "" };
        let names = ShortNames::new(repo.refs());
        let reason = format!("{}{about}", names.in_text(&self.reason));
        writeln!(out, "{would}{}", one_line(&reason, width.left(would.len())))?;
        // Places change with HEAD, and their names mean nothing to people.
        for change in self.plan.changes.iter().filter(|change| !is_place(&change.name)) {
            writeln!(out, "{}", line(paint, change, &names))?;
        }
        for dir in kept_worktrees(repo, &self.plan) {
            let dir = harmless(&dir.display().to_string());
            writeln!(out, "{dir} stays unchanged")?;
        }
        let operation = &self.plan.undone.operation;
        let branch_goes = |change: &RefChange| is_branch(&change.name) && change.new.is_none();
        if operation.reason.starts_with("resume ") && self.plan.changes.iter().any(branch_goes) {
            writeln!(
                out,
                "the file that the agent resumes stays: 'turntree adopt' imports it again"
            )?;
        }
        if let Some(files) = &self.files {
            write_files(out, paint, files, &self.state, self.arranged.as_ref())?;
        }
        if let Some(why) = self.workspace_kept() {
            writeln!(out, "workspace left unchanged: {why}")?;
        }
        Ok(())
    }

    /// Returns why a plan does not change the workspace; `None` for a plan with files, and after it
    /// was carried out.
    fn workspace_kept(&self) -> Option<&'static str> {
        let is_plan = self.operation.is_none() && self.files.is_none();
        is_plan.then(|| kept_by_undo(&self.plan))
    }

    /// The JSON record.
    pub(crate) fn record(&self) -> json::Undo {
        let UndoPlan { undone, changes, .. } = &self.plan;
        let before = self.before.as_ref().map(|kept| kept.commit.to_string());
        let arranged = self.arranged.as_ref();
        json::Undo {
            undone: undone.operation.sequence,
            id: undone.id.to_string(),
            reason: undone.operation.reason.clone(),
            changes: changes.iter().map(json::ChangedRef::from).collect(),
            operation: self.operation,
            workspace: (self.files.as_ref())
                .map(|it| json::WorkspaceChanges::new(it, &self.state, before, arranged)),
            workspace_kept: self.workspace_kept(),
        }
    }
}

/// Returns why an undo without files does not change the workspace.
pub(crate) fn kept_by_undo(plan: &UndoPlan) -> &'static str {
    match plan.moved {
        Some(_) => "only the branch goes back",
        None => "the operation wrote no files",
    }
}

/// The message of the snapshot that an undo removes or a redo restores.
pub(crate) fn about(repo: &Repository, plan: &UndoPlan, direction: UndoDirection) -> String {
    let side = |change: &RefChange| match direction {
        UndoDirection::Redo => change.new.clone(),
        UndoDirection::Undo => change.old.clone(),
    };
    let mut branches = plan.changes.iter().filter(|change| is_branch(&change.name));
    let message = match (branches.next().and_then(side), branches.next()) {
        (Some(RefValue::Object(id)), None) => repo.commit(&id).ok(),
        _ => None,
    };
    let message = message.map(|commit| format!(": turn {}, {}", commit.turn, commit.message));
    message.unwrap_or_default()
}

fn is_branch(name: &str) -> bool {
    name.starts_with("refs/heads/")
}

/// The directories of worktrees whose branches an undo deletes.
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
