//! Changes that a page asks for: plans a change, and makes it.
//!
//! Changes use the code of the commands. Changes without an undo (redaction, collection, repair)
//! are not offered here.

mod labels;

use std::path::PathBuf;

use serde::{Deserialize, Serialize};
use turntree::Error;
use turntree::context::Take;
use turntree::context::sections::CONVERSATION;
use turntree::object::{ObjectId, RefChange, RefValue};
use turntree::repo::{BranchName, MergeKind, Repository, SessionLabels};

use crate::porcelain::change::conflicts::{self, Decision, decide, version};
use crate::porcelain::change::merge::{
    MergeOptions, MergeOutcome, MessageRule, expect_related, merge,
};
use crate::porcelain::change::pins::{self, PinRequest};
use crate::porcelain::change::rollback::{RollbackRequest, RollbackTarget};
use crate::porcelain::change::tags;
use crate::porcelain::change::undo::{PlannedUndo, UndoDirection, UndoRequest, kept_by_undo};
use crate::porcelain::read::branches::{ForkStart, fork};
use crate::porcelain::read::sessions::set_labels;
use crate::porcelain::workspace::plans::{FILES_TOLD, is_destructive};
use crate::porcelain::workspace::rewind::{
    PlannedRewind, RestoreRequest, RewindPlace, RewindRun, own_directory, unknown_workspace,
};
use crate::program::invocation::stamp;
use crate::view::error::Result;
use crate::view::json;
use crate::view::render::effects::effect_lines;
use crate::view::render::{ID_DIGITS, count};

/// A change that a page asks for. Turns are named by id, branches by `session/branch`.
#[derive(Debug, Clone, Deserialize)]
#[serde(tag = "kind", rename_all = "lowercase", deny_unknown_fields)]
pub(super) enum Change {
    /// Creates a branch at a turn.
    Fork { session: String, at: String, name: String },
    /// Tags a turn.
    Tag {
        at: String,
        name: String,
        #[serde(default)]
        message: String,
    },
    /// Pins a turn, so that retention keeps it.
    Pin {
        at: String,
        name: Option<String>,
        #[serde(default)]
        reason: String,
        expires: Option<String>,
    },
    /// Deletes a pin, so that retention may drop its turn.
    Unpin { name: String },
    /// Restores the content of a turn on a branch, and its files in the workspace too.
    Restore { branch: String, at: String, files: bool },
    /// Rolls a branch back to one of its own turns.
    Rollback { branch: String, turn: u64, files: bool },
    /// Merges a branch into another.
    Merge {
        from: String,
        into: String,
        #[serde(default)]
        messages: MessageRule,
    },
    /// Sets the title and the labels of a session. Without a title the client's title is used.
    Label { session: String, title: Option<String>, labels: Vec<String> },
    /// Resolves open conflicts, by a version or a text.
    Resolve { branch: String, paths: Vec<String>, take: Option<String>, content: Option<String> },
    /// Undoes an operation.
    Undo { operation: u64, files: bool },
}

/// The plan of a change.
#[derive(Debug, Serialize)]
pub(super) struct Plan {
    title: String,
    notes: Vec<String>,
    moves: Vec<Move>,
    /// Files to write, delete and leave; the first 200.
    workspace: Option<json::WorkspaceChanges>,
    more_files: u64,
    /// Paths of the conflicts that it would leave open.
    conflicts: Vec<String>,
    /// True if it overwrites or deletes files.
    destructive: bool,
    /// True if there is nothing to do.
    is_idle: bool,
}

/// A ref or name that would change its target.
#[derive(Debug, Serialize)]
struct Move {
    name: String,
    from: Option<String>,
    to: Option<String>,
}

/// The result of a change.
#[derive(Debug, Serialize)]
pub(super) struct Done {
    said: String,
    /// The operation, which can be undone; `None` when nothing was changed.
    operation: Option<u64>,
    /// The branch that was changed.
    branch: Option<String>,
    /// The number of open conflicts.
    conflicts: u64,
    /// The number of files that could not be written.
    failed: u64,
}

/// A change prepared against the current state of the store and the workspace.
pub(super) struct Prepared<'r> {
    pub(super) plan: Plan,
    /// Identifies the state that the plan was made for. It differs once the branch has moved or a
    /// file of the workspace has changed.
    pub(super) state: String,
    work: Work<'r>,
}

enum Work<'r> {
    Fork(ForkStart),
    Tag { at: String, name: String, message: String },
    Pin { at: String, name: Option<String>, reason: String, expires: Option<String> },
    Unpin(String),
    Rewind(Box<RewindRun>, Box<PlannedRewind<'r>>),
    Merge(String, MergeOptions),
    Label(String, SessionLabels),
    Resolve(BranchName, Vec<String>, Take),
    Undo(Box<PlannedUndo<'r>>),
}

impl Change {
    /// Prepares the change. Nothing is written.
    ///
    /// # Errors
    /// The errors of the command.
    pub(super) fn prepare(self, repo: &Repository) -> Result<Prepared<'_>> {
        match self {
            Self::Fork { session, at, name } => prepare_fork(repo, &session, &at, &name),
            Self::Tag { at, name, message } => prepare_tag(repo, at, name, message),
            Self::Pin { at, name, reason, expires } => prepare_pin(repo, at, name, reason, expires),
            Self::Unpin { name } => prepare_unpin(repo, name),
            Self::Restore { branch, at, files } => prepare_restore(repo, &branch, &at, files),
            Self::Rollback { branch, turn, files } => prepare_rollback(repo, &branch, turn, files),
            Self::Merge { from, into, messages } => prepare_merge(repo, from, into, messages),
            Self::Label { session, title, labels } => labels::prepare(repo, session, title, labels),
            Self::Resolve { branch, paths, take, content } => {
                prepare_resolve(repo, &branch, paths, take.as_deref(), content)
            }
            Self::Undo { operation, files } => prepare_undo(repo, operation, files),
        }
    }
}

impl Plan {
    fn new(title: String) -> Self {
        Self {
            title,
            notes: Vec::new(),
            moves: Vec::new(),
            workspace: None,
            more_files: 0,
            conflicts: Vec::new(),
            destructive: false,
            is_idle: false,
        }
    }

    fn moving(mut self, name: String, from: Option<String>, to: Option<String>) -> Self {
        self.moves.push(Move { name, from, to });
        self
    }

    /// Adds the first files, and the number of files left out.
    fn with_files(mut self, workspace: Option<json::WorkspaceChanges>) -> Self {
        self.workspace = workspace;
        if let Some(workspace) = &mut self.workspace {
            self.more_files = workspace.files.len().saturating_sub(FILES_TOLD) as u64;
            workspace.files.truncate(FILES_TOLD);
        }
        self
    }
}

/// Names a turn by number and short id.
fn named(repo: &Repository, id: &ObjectId) -> Result<String> {
    Ok(format!("turn {} ({})", repo.commit(id)?.turn, id.short(ID_DIGITS)))
}

fn tip_named(repo: &Repository, branch: &BranchName) -> Result<Option<String>> {
    repo.tip(branch).map(|tip| named(repo, &tip)).transpose()
}

/// Parses the id of a turn. It must be a full id: a page sends no other name.
fn turn_of(at: &str) -> Result<ObjectId> {
    let expected = |_| Error::invalid("at: expected the whole id of a turn");
    Ok(at.parse().map_err(expected)?)
}

fn prepare_fork<'r>(
    repo: &'r Repository,
    session: &str,
    at: &str,
    name: &str,
) -> Result<Prepared<'r>> {
    let id = turn_of(at)?;
    let start = ForkStart::of(repo, at, Some(session), &[name])?;
    let (branch, to) = (format!("{session}/{name}"), Some(named(repo, &id)?));
    let state = format!("fork\0{branch}\0{id}");
    let plan = Plan::new(format!("Begin the branch {branch}")).moving(branch, None, to);
    Ok(Prepared { plan, state, work: Work::Fork(start) })
}

fn prepare_tag(
    repo: &Repository,
    at: String,
    name: String,
    message: String,
) -> Result<Prepared<'_>> {
    let id = turn_of(&at)?;
    tags::stage(repo, &name, &at, &message, &stamp()?)?;
    let to = Some(named(repo, &id)?);
    let state = format!("tag\0{name}\0{id}");
    let plan = Plan::new(format!("Tag a turn as {name}")).moving(format!("tag {name}"), None, to);
    Ok(Prepared { plan, state, work: Work::Tag { at, name, message } })
}

fn prepare_pin(
    repo: &Repository,
    at: String,
    name: Option<String>,
    reason: String,
    expires: Option<String>,
) -> Result<Prepared<'_>> {
    let id = turn_of(&at)?;
    let request = PinRequest {
        revision: &at,
        name: name.as_deref(),
        reason: &reason,
        expires: expires.as_deref(),
    };
    let (_, pin) = pins::stage(repo, &request, &stamp()?)?;
    let old = repo.pins()?.into_iter().find(|old| old.name == pin.name);
    let from = old.as_ref().map(|old| named(repo, &old.commit)).transpose()?;
    let state = format!("pin\0{}\0{id}\0{old:?}", pin.name);
    let mut plan = Plan::new(format!("Pin {}", named(repo, &id)?)).moving(
        format!("pin {}", pin.name),
        from,
        Some(named(repo, &id)?),
    );
    plan.notes.push("Retention keeps all content of a pinned turn.".to_owned());
    Ok(Prepared { plan, state, work: Work::Pin { at, name, reason, expires } })
}

fn prepare_unpin(repo: &Repository, name: String) -> Result<Prepared<'_>> {
    let found = pins::find(repo, &name)?;
    let mut plan = Plan::new(format!("Remove the pin {name}"));
    for pin in &found {
        // The turn of an expired pin may have been dropped.
        let from = named(repo, &pin.commit).unwrap_or_else(|_| pin.commit.short(ID_DIGITS));
        plan = plan.moving(format!("pin {}", pin.name), Some(from), None);
    }
    plan.notes.push("Retention may then drop the turn.".to_owned());
    Ok(Prepared { plan, state: format!("unpin\0{found:?}"), work: Work::Unpin(name) })
}

/// The directory of a branch, recorded in its newest snapshot with files.
fn directory(repo: &Repository, branch: &BranchName) -> Result<Option<PathBuf>> {
    RewindPlace::default().directory(repo, branch)
}

/// The parts to restore: all of them, or only the conversation.
fn parts(files: bool) -> Vec<String> {
    if files { Vec::new() } else { vec![CONVERSATION.to_owned()] }
}

fn prepare_restore<'r>(
    repo: &'r Repository,
    branch: &str,
    at: &str,
    files: bool,
) -> Result<Prepared<'r>> {
    let only = parts(files);
    let (branch, from) = (branch.parse()?, turn_of(at)?);
    let request = RestoreRequest { branch, from, only: &only, keep_lessons: false, dry_run: false };
    let directory = |branch: &BranchName| directory(repo, branch);
    prepare_rewind(repo, request.bring_back(repo, directory, unknown_workspace)?, "Restore")
}

fn prepare_rollback<'r>(
    repo: &'r Repository,
    branch: &str,
    turn: u64,
    files: bool,
) -> Result<Prepared<'r>> {
    let (only, target) = (parts(files), RollbackTarget::Turn(turn));
    let request = RollbackRequest {
        branch: branch.parse()?,
        target,
        only: &only,
        keep_lessons: false,
        audit: false,
        dry_run: false,
    };
    let run = request.rewind(repo, |branch| directory(repo, branch))?;
    prepare_rewind(repo, run, "Roll back to")
}

fn prepare_rewind<'r>(repo: &'r Repository, run: RewindRun, word: &str) -> Result<Prepared<'r>> {
    let looked = run.look(repo)?;
    let changes = looked.plan();
    let record = run.record(repo, changes, None)?;
    let (branch, from) = (&run.restore.branch, named(repo, &run.restore.from)?);
    let to = Some(format!("a new turn, as in {from}"));
    let mut plan = Plan::new(format!("{word} {from} on {branch}"))
        .moving(branch.to_string(), tip_named(repo, branch)?, to)
        .with_files(record.workspace);
    plan.notes.push(match record.sections.as_slice() {
        [] => "No section of the context changes.".to_owned(),
        sections => format!("Sections that change: {}.", sections.join(", ")),
    });
    if plan.workspace.is_some() {
        plan.notes.push("The workspace is saved first: undo restores it.".to_owned());
    } else if let Some(why) = record.workspace_kept {
        plan.notes.push(format!("The workspace stays unchanged: {why}."));
    }
    plan.notes.extend(effect_lines(run.effects(repo)).map(|line| format!("Not undone: {line}.")));
    plan.destructive = is_destructive(changes);
    plan.is_idle = !run.restore.is_rollback && !changes.changes_anything();
    let state = run.plan_id(repo, changes);
    Ok(Prepared { plan, state, work: Work::Rewind(Box::new(run), Box::new(looked)) })
}

fn prepare_merge(
    repo: &Repository,
    from: String,
    into: String,
    messages: MessageRule,
) -> Result<Prepared<'_>> {
    let how = MergeOptions { into: Some(into), messages, dry_run: true, ..MergeOptions::default() };
    expect_related(repo, &from, &how)?;
    let (request, staged, turn) = merge(repo, &from, &how)?;
    let record = MergeOutcome { staged: &staged, request: &request, turn, dry_run: true }.record();
    let (label, into) = (&request.label, &request.into);
    let to = match staged.kind {
        MergeKind::FastForward => named(repo, &staged.theirs)?,
        _ => format!("a new turn, with {label}"),
    };
    let mut plan = Plan::new(format!("Merge {label} into {into}")).moving(
        into.to_string(),
        Some(named(repo, &staged.ours)?),
        Some(to),
    );
    plan.is_idle = staged.kind == MergeKind::UpToDate;
    if plan.is_idle {
        plan.moves.clear();
        plan.notes.push(format!("{into} has all of {label} already."));
    }
    for (name, section) in &record.sections {
        let json::MergedSection { taken, combined, conflicts } = section;
        let told = format!("{name}: {taken} taken, {combined} combined, {conflicts} in conflict");
        plan.notes.push(told);
    }
    plan.notes.push("No file of a workspace changes: restore the turn to write them.".to_owned());
    plan.conflicts = record.conflicts.into_iter().map(|conflict| conflict.path).collect();
    let state =
        format!("merge\0{into}\0{}\0{}\0{:?}", staged.ours, staged.theirs, request.messages);
    let how = MergeOptions { dry_run: false, ..how };
    Ok(Prepared { plan, state, work: Work::Merge(from, how) })
}

fn prepare_resolve<'r>(
    repo: &'r Repository,
    branch: &str,
    paths: Vec<String>,
    take: Option<&str>,
    content: Option<String>,
) -> Result<Prepared<'r>> {
    let branch: BranchName = branch.parse()?;
    let expected =
        || Error::invalid("a decision takes paths, and ours, theirs, base, current or a content");
    let take = match (take, content) {
        _ if paths.is_empty() => return Err(expected().into()),
        (Some(name), None) => version(name).ok_or_else(expected)?,
        (None, Some(content)) if paths.len() == 1 => Take::Content(content.into()),
        _ => return Err(expected().into()),
    };
    let decision = Decision { paths: &paths, take: take.clone(), message: None };
    let (_, resolution) = conflicts::stage(repo, &branch, decision, &stamp()?)?;
    let closed = count(resolution.closed.len() as u64, "conflict");
    let from = tip_named(repo, &branch)?;
    let state = format!("resolve\0{branch}\0{:?}\0{paths:?}\0{take:?}", repo.tip(&branch));
    let mut plan = Plan::new(format!("Decide {closed} of {branch}")).moving(
        branch.to_string(),
        from,
        Some("a new turn, with the decision".to_owned()),
    );
    plan.notes.extend(resolution.closed.iter().map(|path| format!("{path} is decided.")));
    plan.notes
        .extend(resolution.removed.iter().map(|path| format!("{path} is in the way: removed.")));
    plan.conflicts = resolution.left;
    Ok(Prepared { plan, state, work: Work::Resolve(branch, paths, take) })
}

fn prepare_undo(repo: &Repository, operation: u64, files: bool) -> Result<Prepared<'_>> {
    let name = operation.to_string();
    let request = UndoRequest {
        direction: UndoDirection::Undo,
        operation: Some(&name),
        any_actor: true,
        no_files: !files,
    };
    let directory =
        |known: Option<PathBuf>| known.map(|dir| own_directory(repo, &dir, false)).transpose();
    let planned = request.look(repo, &directory)?;
    let mut plan = Plan::new(planned.reason.clone());
    for RefChange { name, old, new } in &planned.plan().changes {
        let value = |value: &Option<RefValue>| {
            value.as_ref().map(|value| match value {
                RefValue::Object(id) => named(repo, id).unwrap_or_else(|_| id.short(ID_DIGITS)),
                RefValue::Symbolic(target) => target.clone(),
            })
        };
        let name = name.strip_prefix("refs/heads/").unwrap_or(name);
        plan = plan.moving(name.to_owned(), value(old), value(new));
    }
    let rewind = planned.rewind();
    plan.destructive = rewind.is_some_and(is_destructive);
    let files = rewind.and_then(|rewind| rewind.files.as_ref());
    let workspace =
        files.map(|files| json::WorkspaceChanges::new(files, &planned.state, None, None));
    if workspace.is_none() {
        plan.notes
            .push(format!("The workspace stays unchanged: {}.", kept_by_undo(planned.plan())));
    }
    let plan = plan.with_files(workspace);
    let state = planned.plan_id(repo);
    Ok(Prepared { plan, state, work: Work::Undo(Box::new(planned)) })
}

impl Prepared<'_> {
    /// Makes the change.
    ///
    /// # Errors
    /// `Conflict` when another process committed first, and then nothing is changed;
    /// errors of writing.
    pub(super) fn apply(self, repo: &Repository) -> Result<Done> {
        let before = repo.refs().sequence;
        let title = self.plan.title;
        let mut done = Done { said: title, operation: None, branch: None, conflicts: 0, failed: 0 };
        match self.work {
            Work::Fork(start) => {
                fork(repo, &start, false)?;
                done.branch = start.branches.first().map(ToString::to_string);
            }
            Work::Tag { at, name, message } => drop(tags::add(repo, &name, &at, &message)?),
            Work::Pin { at, name, reason, expires } => {
                let request = PinRequest {
                    revision: &at,
                    name: name.as_deref(),
                    reason: &reason,
                    expires: expires.as_deref(),
                };
                pins::add(repo, &request)?;
            }
            Work::Unpin(name) => drop(pins::remove(repo, &name)?),
            Work::Rewind(run, looked) => {
                let report = run.apply(repo, *looked)?;
                done.failed = report.arranged.map_or(0, |files| files.failed.len() as u64);
                done.branch = Some(run.restore.branch.to_string());
            }
            Work::Merge(from, how) => {
                let (request, staged, _) = merge(repo, &from, &how)?;
                let conflicts = staged.report.map_or(0, |report| report.conflicts.len());
                done.conflicts = conflicts as u64;
                done.branch = Some(request.into.to_string());
            }
            Work::Label(session, labels) => set_labels(repo, &session, &labels, "session label")?,
            Work::Resolve(branch, paths, take) => {
                let decision = Decision { paths: &paths, take, message: None };
                done.conflicts = decide(repo, &branch, decision)?.open.len() as u64;
                done.branch = Some(branch.to_string());
            }
            Work::Undo(planned) => {
                let undone = planned.apply(repo)?;
                done.failed = undone.arranged.map_or(0, |files| files.failed.len() as u64);
            }
        }
        let now = repo.refs().sequence;
        done.operation = (now > before).then_some(now);
        Ok(done)
    }
}
