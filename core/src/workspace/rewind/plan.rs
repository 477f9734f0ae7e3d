//! Plans a rewind or the undo of one: commits and refs in a transaction, and the changes of files.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

use super::apply::AppliedFiles;
use super::changes::{ComparedStates, FileChanges, has_unrestored};
use super::check_readable::check_readable;
use super::own_directory::expect_own_directory;
use crate::context::sections::{FILES, LESSONS, MAIN_MESSAGES};
use crate::context::{Builder, Context, JSON_MEDIA, MAIN_AGENT, MessageEntry, Role, Selection};
use crate::error::{Error, Result};
use crate::object::{Kind, ObjectId, ObjectSink, Trigger};
use crate::repo::{
    BranchName, LastUndo, MovedFiles, ONLY, RESTORED_FROM, ROLLED_BACK_TO, Repository, Signature,
    SnapshotDraft, Transaction, UndoPlan, WORKSPACE, WholeWorkspace, audit_record, workspace_files,
};
use crate::store::Committed;
use crate::workspace::caches::note_capture;
use crate::workspace::capture::{
    CaptureOptions, CaptureReport, OtherState, capture_with_others, workspace_metadata,
};

/// The state to restore, and its destination.
#[derive(Debug, Clone)]
pub struct RewindRequest {
    /// The branch that continues from there.
    pub branch: BranchName,
    /// The commit whose state is restored.
    pub from: ObjectId,
    /// The part of it to restore.
    pub only: Selection,
    /// The directory that gets the files; without one only the context is restored.
    pub workspace: Option<PathBuf>,
    /// True if this rewinds turns: [`Trigger::Rollback`].
    pub is_rollback: bool,
    /// True to keep the lessons of the branch, which were learned from the rewound turns.
    pub keep_lessons: bool,
    /// True to end the main agent's conversation with a record of the type `rollback`.
    pub audit: bool,
    /// The message of the commit; a summary of the file changes is appended.
    pub message: String,
}

/// The effect of a rewind, before or after it is applied.
#[derive(Debug, Clone)]
pub struct RewindChanges {
    /// The new commit of the branch; for an undo the commit that saves the previous workspace.
    pub commit: ObjectId,
    /// The message of the commit.
    pub message: String,
    /// Names of sections of the context that change.
    pub sections: Vec<String>,
    /// The changes in the workspace; `None` if it stays unchanged.
    pub files: Option<FileChanges>,
    /// The reason why the workspace stays unchanged; `None` if its files were planned.
    pub kept: Option<KeptWorkspace>,
    /// The commit that saves the previous workspace.
    pub before: Option<WorkspaceBackup>,
}

/// The reason why a plan leaves a workspace unchanged.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum KeptWorkspace {
    /// The restored part has no files.
    NotSelected,
    /// The restored state has no files: none were captured, and no transcript names any.
    NoFiles,
    /// The request names no directory.
    NoDirectory,
}

/// A workspace as it was captured before the rewind changes its files.
#[derive(Debug, Clone)]
#[non_exhaustive]
pub struct WorkspaceBackup {
    /// The commit.
    pub commit: ObjectId,
    /// The tree of the commit.
    pub tree: ObjectId,
    /// The report of the capture, for [`StatCache::save`](crate::workspace::StatCache::save).
    pub captured: CaptureReport,
}

/// A planned rewind. Dropping it leaves store and workspace unchanged.
#[derive(Debug)]
pub struct PreparedRewind<'r> {
    repo: &'r Repository,
    change: Transaction<'r>,
    plan: RewindChanges,
}

/// An applied rewind.
#[derive(Debug)]
#[non_exhaustive]
pub struct RewindReport {
    /// The plan.
    pub plan: RewindChanges,
    /// The operation.
    pub committed: Committed,
    /// The result for the files; `None` without a workspace.
    pub arranged: Option<AppliedFiles>,
}

impl RewindChanges {
    /// Returns true if the rewind changes anything.
    #[must_use]
    pub fn changes_anything(&self) -> bool {
        let files = self.files.as_ref();
        !self.sections.is_empty() || files.is_some_and(|files| !files.files.is_empty())
    }
}

impl PreparedRewind<'_> {
    /// Returns the effect of the rewind.
    #[must_use]
    pub fn plan(&self) -> &RewindChanges {
        &self.plan
    }

    /// Applies the rewind: commits and refs first, as one operation, then the files. Errors of
    /// single files are in [`RewindReport::arranged`]; the other files are done.
    ///
    /// # Errors
    /// Errors of [`Transaction::commit`]; then nothing has changed.
    pub fn apply(self, stamp: &Signature, reason: &str) -> Result<RewindReport> {
        let committed = self.change.commit(stamp, reason)?;
        if let Some(files) = &self.plan.files {
            // Before a file is written, so that an undo finds the directory even if this process is
            // killed.
            note_capture(self.repo.store(), &files.dir);
        }
        let arranged = self.plan.files.as_ref().map(|files| files.apply(self.repo.store()));
        Ok(RewindReport { plan: self.plan, committed, arranged })
    }
}

/// Plans to restore a state. Captures the workspace, and reads all of the restored context and the
/// differing files.
///
/// # Errors
/// `Expired` if retention dropped the state, `NotFound` if nothing of it is selected or the
/// workspace is not a directory, `Redacted` or `Corrupt` for unreadable content, and errors of
/// [`capture`](crate::workspace::capture()).
pub fn prepare_rewind<'r>(
    repo: &'r Repository,
    restore: &RewindRequest,
    options: &CaptureOptions<'_>,
    stamp: &Signature,
) -> Result<PreparedRewind<'r>> {
    let RewindRequest { branch, only, .. } = restore;
    let wanted = repo.context(&restore.from)?;
    let mut change = repo.begin();
    let tip = change.tip(branch);
    let current = tip.map_or_else(|| Ok(Context::default()), |tip| repo.context(&tip))?;
    let whole = repo.whole_workspace(&restore.from)?;
    let has_files = has_files(repo, &wanted, whole.as_ref())?;
    if !(only.is_all() || has_files && only.has_whole_section(FILES)) {
        only.check(repo.store(), [&current, &wanted])?;
    }
    check_readable(repo.store(), &wanted, only)?;

    let workspace = restore.workspace.as_deref().filter(|_| has_files && only.reaches_files());
    let kept = match workspace {
        Some(_) => None,
        None if !only.reaches_files() => Some(KeptWorkspace::NotSelected),
        None if !has_files => Some(KeptWorkspace::NoFiles),
        None => Some(KeptWorkspace::NoDirectory),
    };
    let tip_whole = tip.map(|tip| repo.whole_workspace(&tip)).transpose()?.flatten();
    let captured = workspace.map(|dir| {
        let message = format!("before: {}", restore.message);
        let state = RewindState {
            tip,
            current: &current,
            current_whole: tip_whole.as_ref(),
            wanted: &wanted,
            wanted_whole: whole.as_ref(),
            only,
        };
        save_workspace(repo, &mut change, branch, dir, &state, options, stamp, message)
    });
    let (before, files) = captured.transpose()?.unzip();

    let mut builder = Builder::from(current.clone());
    let mut sections = builder.copy_selection(&mut change, &wanted, only)?;
    if restore.keep_lessons {
        builder.set_as_in(&mut change, LESSONS, &current)?;
        sections.retain(|section| section != LESSONS);
    }
    if let Some(tip) = tip.filter(|_| restore.audit) {
        let section = add_audit(repo, &mut change, &mut builder, &tip, restore)?;
        sections.push(section);
        sections.sort();
        sections.dedup();
    }
    let message = format!("{}{}", restore.message, summary(files.as_ref()));
    let mut draft = SnapshotDraft::new(builder.write(&mut change)?, &message, stamp);
    let origin = if restore.is_rollback { ROLLED_BACK_TO } else { RESTORED_FROM };
    draft.metadata.insert(origin.to_owned(), restore.from.to_string());
    if restore.is_rollback {
        draft.trigger = Trigger::Rollback;
    }
    if !only.is_all() {
        draft.metadata.insert(ONLY.to_owned(), only.to_text());
    }
    draft.metadata.extend(workspace.map(workspace_metadata));
    if only.reaches_files() && has_files {
        // INVARIANT: a workspace is whole after a restore only if both the restored and the kept
        // part are. Files kept because of an ignore rule stay unknown: the rule may have been
        // deleted.
        let stayed = if only.has_whole_section(FILES) { None } else { Some(tip_whole) };
        let seen = before.as_ref().map(|before| before.captured.whole());
        draft.metadata.extend(files_metadata([Some(whole), stayed, seen].into_iter().flatten()));
    }
    let commit = change.snapshot(branch, draft)?;
    if let Some(kept) = &before {
        change.set_before(branch, Some(kept.commit));
    }
    let plan = RewindChanges { commit, message, sections, files, kept, before };
    Ok(PreparedRewind { repo, change, plan })
}

/// Ends the main agent's conversation with a record of the rollback. Returns the section.
fn add_audit(
    repo: &Repository,
    change: &mut Transaction<'_>,
    builder: &mut Builder,
    tip: &ObjectId,
    restore: &RewindRequest,
) -> Result<String> {
    let (from_turn, to_turn) = (repo.commit(tip)?.turn, repo.commit(&restore.from)?.turn);
    let record = audit_record(from_turn, to_turn, &restore.message);
    let blob = change.write(Kind::Blob, record.into())?;
    builder.push_message(change, MAIN_AGENT, &MessageEntry::new(blob, Role::System, JSON_MEDIA))?;
    Ok(MAIN_MESSAGES.to_owned())
}

/// Plans to undo an operation that changed files, including refs and files. `workspace` is the
/// directory if it has moved since.
///
/// # Errors
/// `InvalidInput` if the directory is unknown, or not on this machine; else as [`prepare_rewind`].
pub fn prepare_undo<'r>(
    repo: &'r Repository,
    undo: &UndoPlan,
    moved: &MovedFiles,
    workspace: Option<&Path>,
    options: &CaptureOptions<'_>,
    stamp: &Signature,
    message: &str,
) -> Result<PreparedRewind<'r>> {
    let commit = repo.commit(&moved.before)?;
    let known = commit.metadata.get(WORKSPACE).map(Path::new);
    if let Some(dir) = known.filter(|_| workspace.is_none()) {
        expect_own_directory(repo, dir, None)?;
    }
    let dir = workspace.or(known).ok_or_else(|| {
        let short = moved.before.short(12);
        Error::invalid(format!("{short} does not record the directory of its files"))
    })?;
    prepare_files(repo, &moved.branch, &moved.before, dir, Some(undo), options, stamp, message)
}

/// The states that a rewind compares.
struct RewindState<'a> {
    tip: Option<ObjectId>,
    current: &'a Context,
    current_whole: Option<&'a WholeWorkspace>,
    wanted: &'a Context,
    /// `None` if its list of files may be incomplete.
    wanted_whole: Option<&'a WholeWorkspace>,
    only: &'a Selection,
}

/// Returns true if an undo was interrupted: one of its files in `dir` is still in the old state.
///
/// # Errors
/// Errors of reading commits, contexts and files.
pub fn is_undo_unfinished(repo: &Repository, last: &LastUndo, dir: &Path) -> Result<bool> {
    let (before, wanted) = (repo.context(&last.moved.before)?, repo.context(&last.target)?);
    has_unrestored(repo.store(), dir, &before, &wanted)
}

/// Plans to complete an interrupted undo of files. Saves their current state as usual, in an
/// operation that changes nothing else.
///
/// # Errors
/// As [`prepare_undo`].
pub fn prepare_undo_rest<'r>(
    repo: &'r Repository,
    last: &LastUndo,
    dir: &Path,
    options: &CaptureOptions<'_>,
    stamp: &Signature,
    message: &str,
) -> Result<PreparedRewind<'r>> {
    prepare_files(repo, &last.moved.branch, &last.target, dir, None, options, stamp, message)
}

/// Plans to restore the files of a commit to a workspace, optionally as part of undoing an
/// operation.
#[expect(clippy::too_many_arguments, reason = "what its two callers are given")]
fn prepare_files<'r>(
    repo: &'r Repository,
    branch: &BranchName,
    commit: &ObjectId,
    dir: &Path,
    undo: Option<&UndoPlan>,
    options: &CaptureOptions<'_>,
    stamp: &Signature,
    message: &str,
) -> Result<PreparedRewind<'r>> {
    let wanted = repo.context(commit)?;
    let mut change = repo.begin();
    let tip = change.tip(branch);
    let current = tip.map_or_else(|| Ok(Context::default()), |tip| repo.context(&tip))?;
    let (all, message) = (Selection::default(), format!("before: {message}"));
    let whole = repo.whole_workspace(commit)?;
    let tip_whole = tip.map(|tip| repo.whole_workspace(&tip)).transpose()?.flatten();
    let state = RewindState {
        tip,
        current: &current,
        current_whole: tip_whole.as_ref(),
        wanted: &wanted,
        wanted_whole: whole.as_ref(),
        only: &all,
    };
    let (kept, files) =
        save_workspace(repo, &mut change, branch, dir, &state, options, stamp, message.clone())?;
    if let Some(undo) = undo {
        change.take_back(undo)?;
    }
    change.set_before(branch, Some(kept.commit));
    let (commit, sections, files, before) = (kept.commit, Vec::new(), Some(files), Some(kept));
    let plan = RewindChanges { commit, message, sections, files, kept: None, before };
    Ok(PreparedRewind { repo, change, plan })
}

/// Saves the current workspace in a commit on top of the branch's tip, and plans its file changes.
#[expect(clippy::too_many_arguments, reason = "what its two callers are given")]
fn save_workspace(
    repo: &Repository,
    change: &mut Transaction<'_>,
    branch: &BranchName,
    dir: &Path,
    state: &RewindState<'_>,
    options: &CaptureOptions<'_>,
    stamp: &Signature,
    message: String,
) -> Result<(WorkspaceBackup, FileChanges)> {
    let RewindState { tip, current, current_whole, wanted, wanted_whole, only } = *state;
    let others = [current_state(current, current_whole), target_state(wanted, wanted_whole)];
    let mut builder = Builder::from(current.clone());
    let captured = capture_with_others(change, current, &mut builder, dir, options, &others)?;
    let tree = builder.write(change)?;
    let now = Context::open(change, &tree)?;
    let is_here = match tip {
        Some(tip) => repo.workspace_of(&tip)? == Some(workspace_metadata(dir).1),
        None => false,
    };
    let sides = ComparedStates {
        now: &now,
        saved: current,
        saved_whole: current_whole.filter(|_| is_here),
        wanted,
        only,
        whole: wanted_whole.is_some(),
        captured: &captured,
        is_made: false,
    };
    let files = FileChanges::plan(change, dir, &sides)?;
    let mut draft = SnapshotDraft::new(tree, message, stamp);
    draft.trigger = Trigger::BeforeRestore;
    draft.metadata.extend(captured.metadata(dir));
    let commit = change.record(branch, draft)?;
    Ok((WorkspaceBackup { commit, tree, captured }, files))
}

/// Returns the current snapshot of the workspace, as a state whose rules apply.
pub(super) fn current_state<'a>(
    context: &'a Context,
    whole: Option<&'a WholeWorkspace>,
) -> OtherState<'a> {
    rule_state(context, whole, "the newest snapshot ignores it or did not capture it")
}

/// Returns the target state, as a state whose rules apply.
pub(super) fn target_state<'a>(
    context: &'a Context,
    whole: Option<&'a WholeWorkspace>,
) -> OtherState<'a> {
    rule_state(context, whole, "the restored state ignores it or did not capture it")
}

fn rule_state<'a>(
    context: &'a Context,
    whole: Option<&'a WholeWorkspace>,
    reason: &'static str,
) -> OtherState<'a> {
    static NOTHING: BTreeSet<String> = BTreeSet::new();
    let skipped = whole.map_or(&NOTHING, |whole| &whole.skipped);
    OtherState { context, is_whole: whole.is_some(), skipped, reason }
}

/// Returns the metadata of a commit whose files come from these workspaces; whole only if all are.
pub(super) fn files_metadata(
    sources: impl Iterator<Item = Option<WholeWorkspace>>,
) -> Vec<(String, String)> {
    let sources: Option<Vec<WholeWorkspace>> = sources.collect();
    let whole = sources.map(|sources| {
        let skipped = sources.into_iter().flat_map(|source| source.skipped).collect();
        WholeWorkspace { skipped }
    });
    workspace_files(whole.as_ref())
}

/// Returns true if a state has known files. An empty captured workspace has no section, and
/// restoring a part may leave a section without files.
pub(super) fn has_files(
    repo: &Repository,
    context: &Context,
    whole: Option<&WholeWorkspace>,
) -> Result<bool> {
    Ok(whole.is_some() || !context.map(repo.store(), FILES)?.is_empty())
}

/// Returns the counts of files for a message.
fn summary(files: Option<&FileChanges>) -> String {
    let Some(files) = files else { return String::new() };
    let (written, deleted) = files.counts();
    let plural = if written == 1 { "" } else { "s" };
    format!(": {written} file{plural} written, {deleted} deleted")
}
