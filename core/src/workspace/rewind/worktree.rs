//! Additional workspaces: a new directory gets the files of a snapshot, and changes made there
//! return to the main workspace with the merge of its branch.

use std::path::Path;

use super::apply::AppliedFiles;
use super::changes::{ComparedStates, FileChanges};
use super::check_readable::check_readable;
use super::plan::{WorkspaceBackup, current_state, files_metadata, has_files, target_state};
use crate::context::sections::FILES;
use crate::context::{Builder, Context, Selection};
use crate::error::{Error, ErrorKind, Result};
use crate::object::{Commit, Kind, ObjectId, ObjectSink, Trigger};
use crate::repo::{
    BranchName, MergeKind, MergeReport, MergeRequest, Repository, Signature, SnapshotDraft,
    Transaction, WORKSPACE,
};
use crate::store::Committed;
use crate::workspace::caches::note_capture;
use crate::workspace::capture::{
    CaptureOptions, CaptureReport, OtherState, capture_with_others, workspace_metadata,
};

/// Writes the files of a snapshot into a directory that the caller has just created: its current
/// files are not saved. Deletes files that the snapshot lacks if its files were captured from a
/// directory; otherwise they stay, as ignored ones do.
///
/// # Errors
/// As [`prepare_rewind`](super::prepare_rewind); then nothing was written. Errors of single files
/// are in the result.
pub fn lay_out_files(
    repo: &Repository,
    from: &ObjectId,
    dir: &Path,
    options: &CaptureOptions<'_>,
) -> Result<AppliedFiles> {
    let wanted = repo.context(from)?;
    let whole = repo.whole_workspace(from)?;
    if !has_files(repo, &wanted, whole.as_ref())? {
        return Ok(AppliedFiles::default());
    }
    let only = Selection::parse(&[FILES.to_owned()]);
    check_readable(repo.store(), &wanted, &only)?;
    let (mut change, empty) = (repo.begin(), Context::default());
    let others = [target_state(&wanted, whole.as_ref())];
    let (_, now, captured) = capture_onto(&mut change, &empty, dir, options, &others)?;
    let sides = ComparedStates {
        now: &now,
        saved: &now,
        saved_whole: None,
        wanted: &wanted,
        only: &only,
        whole: whole.is_some(),
        captured: &captured,
        is_made: true,
    };
    let files = FileChanges::plan(&change, dir, &sides)?;
    drop(change);
    Ok(files.apply(repo.store()))
}

/// A merge that is planned together with the files of the workspace. Dropping it leaves store and
/// workspace unchanged.
#[derive(Debug)]
pub struct PreparedMerge<'r> {
    repo: &'r Repository,
    change: Transaction<'r>,
    /// The merge.
    pub report: MergeReport,
    /// The turn of the branch after the merge.
    pub turn: u64,
    /// The changes in the workspace.
    pub files: FileChanges,
    /// The workspace before the merge.
    pub before: WorkspaceBackup,
    /// The snapshot of unsaved changes in the workspace, which the merge continues.
    pub saved: Option<ObjectId>,
}

impl PreparedMerge<'_> {
    /// Returns true if anything changes.
    #[must_use]
    pub fn changes_anything(&self) -> bool {
        self.report.kind != MergeKind::UpToDate
            || self.saved.is_some()
            || !self.files.files.is_empty()
    }

    /// Applies the merge: refs first, as one operation, then the files.
    ///
    /// # Errors
    /// Errors of [`Transaction::commit`]; then nothing has changed.
    pub fn apply(self, stamp: &Signature, reason: &str) -> Result<(Committed, AppliedFiles)> {
        let committed = self.change.commit(stamp, reason)?;
        note_capture(self.repo.store(), &self.files.dir);
        Ok((committed, self.files.apply(self.repo.store())))
    }
}

/// Plans a merge whose files are written into the workspace `dir` of the receiving branch.
///
/// Unsaved changes of the workspace become a snapshot before the merge, so they are merged and not
/// overwritten. Undoing the operation restores branch and files, as after a rewind.
///
/// # Errors
/// `Conflict` if the workspace has unsaved changes and also lacks files that the branch got since:
/// they cannot be distinguished. Errors of [`Transaction::merge`] and
/// [`prepare_rewind`](super::prepare_rewind).
pub fn prepare_merge<'r>(
    repo: &'r Repository,
    request: &MergeRequest<'_>,
    dir: &Path,
    options: &CaptureOptions<'_>,
    stamp: &Signature,
) -> Result<PreparedMerge<'r>> {
    let into = &request.into;
    let mut change = repo.begin();
    let missing = || Error::not_found(format!("branch {into} has no snapshot yet"));
    let tip = change.tip(into).ok_or_else(missing)?;
    let ours = repo.context(&tip)?;
    let theirs = repo.context(&request.theirs)?;
    let whole = [repo.whole_workspace(&tip)?, repo.whole_workspace(&request.theirs)?];
    let others =
        [current_state(&ours, whole[0].as_ref()), target_state(&theirs, whole[1].as_ref())];
    let (tree, now, captured) = capture_onto(&mut change, &ours, dir, options, &others)?;
    let mut draft = SnapshotDraft::new(tree, format!("before: merge {}", request.label), stamp);
    draft.trigger = Trigger::BeforeRestore;
    draft.metadata.extend(captured.metadata(dir));
    let before = WorkspaceBackup { commit: change.record(into, draft)?, tree, captured };

    let mut saved = None;
    if has_unsaved_changes(repo, &change, &tip, [&ours, &now], dir)? {
        let mut draft = SnapshotDraft::new(tree, "the workspace before a merge", stamp);
        draft.metadata.extend(before.captured.metadata(dir));
        saved = Some(change.snapshot(into, draft)?);
        // The merge looks for the common ancestor in the store.
        change.flush()?;
    }
    let mut report = change.merge(request, stamp)?;
    let mut commit = change.read_commit(&report.commit)?;
    let wanted = Context::open(&change, &commit.tree)?;
    let only = Selection::default();
    let [_, theirs_whole] = whole;
    let sides = ComparedStates {
        now: &now,
        saved: &now,
        saved_whole: None,
        wanted: &wanted,
        only: &only,
        // Files that theirs never had are not deleted by it.
        whole: theirs_whole.is_some(),
        captured: &before.captured,
        is_made: false,
    };
    let files = FileChanges::plan(&change, dir, &sides)?;
    // The capture is whole; its merge with another whole workspace is whole too.
    let made_of = files_metadata([before.captured.whole(), theirs_whole].into_iter());
    match report.kind {
        // From now on the metadata records that the directory has the files of the branch.
        MergeKind::Merged => {
            commit.metadata.extend(made_of);
            report.commit = add_workspace(&mut change, into, &mut commit, dir)?;
        }
        MergeKind::UpToDate if files.files.is_empty() => {}
        MergeKind::FastForward | MergeKind::UpToDate => {
            let message = format!("the files of {} in the workspace", request.label);
            let mut draft = SnapshotDraft::new(commit.tree, message, stamp);
            draft.trigger = Trigger::Merge;
            draft.metadata.extend([workspace_metadata(dir)].into_iter().chain(made_of));
            report.commit = change.snapshot(into, draft)?;
        }
    }
    change.set_before(into, Some(before.commit));
    let turn = change.read_commit(&report.commit)?.turn;
    Ok(PreparedMerge { repo, change, report, turn, files, before, saved })
}

/// Captures a directory on top of a context. Returns the context with its files, and its tree.
fn capture_onto(
    change: &mut Transaction<'_>,
    known: &Context,
    dir: &Path,
    options: &CaptureOptions<'_>,
    others: &[OtherState<'_>],
) -> Result<(ObjectId, Context, CaptureReport)> {
    let mut builder = Builder::from(known.clone());
    let captured = capture_with_others(change, known, &mut builder, dir, options, others)?;
    let tree = builder.write(change)?;
    Ok((tree, Context::open(change, &tree)?, captured))
}

/// Returns true if the workspace has changes that no snapshot of the branch has. Returns false if
/// it only lacks changes that the branch got without the directory.
fn has_unsaved_changes(
    repo: &Repository,
    change: &Transaction<'_>,
    tip: &ObjectId,
    [ours, now]: [&Context; 2],
    dir: &Path,
) -> Result<bool> {
    let files = |context: &Context| {
        Ok::<_, Error>(context.section(change, FILES)?.map(|section| section.id))
    };
    let (ours, now) = (files(ours)?, files(now)?);
    if now == ours {
        return Ok(false);
    }
    let (_, here) = workspace_metadata(dir);
    for entry in repo.history(&[*tip], &[])?.first_parent() {
        let entry = entry?;
        if entry.commit.metadata.get(WORKSPACE) != Some(&here) {
            continue;
        }
        let known = files(&repo.context(&entry.id)?)?;
        return match (known == ours, known == now) {
            (true, _) => Ok(true),
            (false, true) => Ok(false),
            (false, false) => {
                let both = format!(
                    "{} has changes that are in no snapshot, and lacks files that the branch got \
                     after turn {}",
                    dir.display(),
                    entry.commit.turn
                );
                Err(Error::new(ErrorKind::Conflict, both))
            }
        };
    }
    Ok(true)
}

/// Rewrites the merge commit with the directory of its files.
fn add_workspace(
    change: &mut Transaction<'_>,
    into: &BranchName,
    commit: &mut Commit,
    dir: &Path,
) -> Result<ObjectId> {
    commit.metadata.extend([workspace_metadata(dir)]);
    let id = change.write(Kind::Commit, commit.encode().into())?;
    change.move_branch(into, Some(id));
    Ok(id)
}
