//! Plans a rewind or the undo of one: commits and refs in a transaction, and the changes of files.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

use super::apply::AppliedFiles;
use super::changes::{FileChanges, Sides, any_as_before};
use super::place::expect_own_directory;
use super::readable::check_readable;
use crate::context::{
    Builder, Context, JSON_MEDIA, LESSONS, MAIN_AGENT, MessageEntry, Role, Selection, agent_section,
};
use crate::error::{Error, Result};
use crate::object::{Kind, ObjectId, ObjectSink, Trigger};
use crate::repo::{
    BranchName, LastUndo, MovedFiles, ONLY, RESTORED_FROM, ROLLED_BACK_TO, Repository, Signature,
    SnapshotDraft, Transaction, UndoPlan, WORKSPACE, WholeWorkspace, audit_record, workspace_files,
};
use crate::store::Committed;
use crate::workspace::caches::note_capture;
use crate::workspace::capture::{
    CaptureOptions, CaptureReport, OtherState, capture_beside, workspace_metadata,
};

const FILES: &str = "files";

/// The state to bring back, and where to.
#[derive(Debug, Clone)]
pub struct RewindRequest {
    /// The branch that goes on from there.
    pub branch: BranchName,
    /// The commit whose state comes back.
    pub from: ObjectId,
    /// The part of it that comes back.
    pub only: Selection,
    /// The directory that gets the files; without one only the context comes back.
    pub workspace: Option<PathBuf>,
    /// Counts as going back by turns: [`Trigger::Rollback`].
    pub is_rollback: bool,
    /// Keeps the lessons of the branch: they were learned from the turns that go.
    pub keep_lessons: bool,
    /// Ends the main agent's conversation with a record of the type `rollback`.
    pub audit: bool,
    /// The message of the commit; what becomes of files is added to it.
    pub message: String,
}

/// The effect of a rewind, before or after it is applied.
#[derive(Debug, Clone)]
pub struct RewindChanges {
    /// The new commit of the branch; of an undo the one that keeps the workspace as it was.
    pub commit: ObjectId,
    /// Its message.
    pub message: String,
    /// Names of sections of the context that change.
    pub sections: Vec<String>,
    /// The changes in the workspace; `None` when it stays as it is.
    pub files: Option<FileChanges>,
    /// Why the workspace stays as it is; `None` when the plan looked at its files.
    pub kept: Option<KeptWorkspace>,
    /// The commit that keeps the workspace as it was.
    pub before: Option<WorkspaceBackup>,
}

/// Why a plan leaves a workspace as it is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum KeptWorkspace {
    /// The part that comes back has no files.
    NotSelected,
    /// The state that comes back knows no files: none were captured, and no transcript names any.
    NoFiles,
    /// The request names no directory.
    NoDirectory,
}

/// A workspace as it was captured before its files are moved.
#[derive(Debug, Clone)]
pub struct WorkspaceBackup {
    /// The commit.
    pub commit: ObjectId,
    /// Its tree.
    pub tree: ObjectId,
    /// The report of the capture, for [`StatCache::save`](crate::workspace::StatCache::save).
    pub captured: CaptureReport,
}

/// A restoration that is planned. Dropping it leaves store and workspace as they were.
#[derive(Debug)]
pub struct PreparedRewind<'r> {
    repo: &'r Repository,
    change: Transaction<'r>,
    plan: RewindChanges,
}

/// A restoration that was made.
#[derive(Debug)]
pub struct RewindReport {
    /// The plan.
    pub plan: RewindChanges,
    /// The operation.
    pub committed: Committed,
    /// The outcome for the files; `None` without a workspace.
    pub arranged: Option<AppliedFiles>,
}

impl RewindChanges {
    /// Returns whether the rewind changes anything.
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

    /// Does it: commits and refs first, as one operation, then the files. What fails with a file is
    /// in [`RewindReport::arranged`], and the others are done.
    ///
    /// # Errors
    /// Those of [`Transaction::commit`]; nothing has changed then.
    pub fn apply(self, stamp: &Signature, reason: &str) -> Result<RewindReport> {
        let committed = self.change.commit(stamp, reason)?;
        if let Some(files) = &self.plan.files {
            // Before a file is written: an undo finds the directory even if this process ends on the way.
            note_capture(self.repo.store(), &files.dir);
        }
        let arranged = self.plan.files.as_ref().map(|files| files.apply(self.repo.store()));
        Ok(RewindReport { plan: self.plan, committed, arranged })
    }
}

/// Plans to bring a state back. Captures the workspace, and reads what comes back: all of the
/// context that does, and of the files those that differ.
///
/// # Errors
/// `Expired` when retention has dropped the state, `NotFound` when nothing of it is selected or the
/// workspace is no directory, `Redacted` or `Corrupt` for content that is not there as it was, and
/// those of [`capture`](crate::workspace::capture()).
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
    if !(only.is_all() || has_files && only.has_all_of(FILES)) {
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
        keep(repo, &mut change, branch, dir, &state, options, stamp, message)
    });
    let (before, files) = captured.transpose()?.unzip();

    let mut builder = Builder::from(current.clone());
    let mut sections = builder.take_from(&mut change, &wanted, only)?;
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
        // INVARIANT: a workspace is whole after a restore only if what came back was, and what stayed.
        // What an ignore rule kept stays unknown: the rule may be gone now.
        let stayed = if only.has_all_of(FILES) { None } else { Some(tip_whole) };
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
    agent_section(MAIN_AGENT, "messages")
}

/// Plans to take an operation back that has moved files, refs and files together.
/// `workspace` is the directory if it is another one than then.
///
/// # Errors
/// `InvalidInput` when the directory is not known, or is none of this machine; else as [`prepare_rewind`].
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
        expect_own_directory(repo.store(), dir, None)?;
    }
    let dir = workspace.or(known).ok_or_else(|| {
        let short = moved.before.short(12);
        Error::invalid(format!("{short} does not say which directory its files are from"))
    })?;
    files_back(repo, &moved.branch, &moved.before, dir, Some(undo), options, stamp, message)
}

/// The states that a rewind compares.
struct RewindState<'a> {
    tip: Option<ObjectId>,
    current: &'a Context,
    current_whole: Option<&'a WholeWorkspace>,
    wanted: &'a Context,
    /// `None` when its list of files need not be complete.
    wanted_whole: Option<&'a WholeWorkspace>,
    only: &'a Selection,
}

/// Returns whether an undo was interrupted: some file of it in `dir` is still as before.
///
/// # Errors
/// Those of reading commits, contexts and files.
pub fn is_undo_unfinished(repo: &Repository, last: &LastUndo, dir: &Path) -> Result<bool> {
    let (before, wanted) = (repo.context(&last.moved.before)?, repo.context(&last.target)?);
    any_as_before(repo.store(), dir, &before, &wanted)
}

/// Plans to finish an undo that was interrupted: its files become what they were to become. What is
/// there now is kept as ever, in an operation that changes no more than that.
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
    files_back(repo, &last.moved.branch, &last.target, dir, None, options, stamp, message)
}

/// Plans to make the files of a workspace those of a commit, perhaps as an operation is taken back.
#[expect(clippy::too_many_arguments, reason = "what its two callers are given")]
fn files_back<'r>(
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
        keep(repo, &mut change, branch, dir, &state, options, stamp, message.clone())?;
    if let Some(undo) = undo {
        change.take_back(undo)?;
    }
    change.set_before(branch, Some(kept.commit));
    let (commit, sections, files, before) = (kept.commit, Vec::new(), Some(files), Some(kept));
    let plan = RewindChanges { commit, message, sections, files, kept: None, before };
    Ok(PreparedRewind { repo, change, plan })
}

/// Keeps a workspace as it is in a commit behind the tip of a branch, and plans what its files
/// become.
#[expect(clippy::too_many_arguments, reason = "what its two callers are given")]
fn keep(
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
    let others = [leaving(current, current_whole), coming(wanted, wanted_whole)];
    let mut builder = Builder::from(current.clone());
    let captured = capture_beside(change, current, &mut builder, dir, options, &others)?;
    let tree = builder.write(change)?;
    let now = Context::open(change, &tree)?;
    let is_here = match tip {
        Some(tip) => repo.workspace_of(&tip)? == Some(workspace_metadata(dir).1),
        None => false,
    };
    let sides = Sides {
        now: &now,
        saved: current,
        saved_whole: current_whole.filter(|_| is_here),
        wanted,
        only,
        whole: wanted_whole.is_some(),
        captured: &captured,
    };
    let files = FileChanges::plan(change, dir, &sides)?;
    let mut draft = SnapshotDraft::new(tree, message, stamp);
    draft.trigger = Trigger::BeforeRestore;
    draft.metadata.extend(captured.metadata(dir));
    let commit = change.record(branch, draft)?;
    Ok((WorkspaceBackup { commit, tree, captured }, files))
}

/// The snapshot that a workspace leaves, as a state whose rules count.
pub(super) fn leaving<'a>(
    context: &'a Context,
    whole: Option<&'a WholeWorkspace>,
) -> OtherState<'a> {
    side(context, whole, "the newest snapshot ignores it, or did not take it along")
}

/// The state that comes back, as one whose rules count.
pub(super) fn coming<'a>(
    context: &'a Context,
    whole: Option<&'a WholeWorkspace>,
) -> OtherState<'a> {
    side(context, whole, "the state that comes back ignores it, or did not take it along")
}

fn side<'a>(
    context: &'a Context,
    whole: Option<&'a WholeWorkspace>,
    reason: &'static str,
) -> OtherState<'a> {
    static NOTHING: BTreeSet<String> = BTreeSet::new();
    let skipped = whole.map_or(&NOTHING, |whole| &whole.skipped);
    OtherState { context, is_whole: whole.is_some(), skipped, reason }
}

/// The metadata of a commit whose files were made of these workspaces: all of them whole, or not.
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

/// Returns whether a state knows files. An empty workspace that was captured has no section, and the
/// restore of a part may leave a section without files.
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
    format!(": {written} file{plural} to write, {deleted} to delete")
}
