//! Records of `restore`, `rollback`, and the workspace of an `undo`.

use schemars::JsonSchema;
use serde::Serialize;
use turntree::workspace::{AppliedFiles, ChangeKind, FileChange, FileChanges};

use super::{CommitId, LeftEffects};

/// `restore` without `--to`, and `rollback`.
#[derive(Debug, Serialize, JsonSchema)]
pub(crate) struct Restoration {
    /// The restored snapshot, and its turn.
    pub(crate) from: String,
    pub(crate) from_turn: u64,
    pub(crate) session: String,
    pub(crate) branch: String,
    pub(crate) dry_run: bool,
    /// The new snapshot of the branch; `null` if nothing was done.
    #[serde(flatten)]
    pub(crate) at: CommitId<Option<String>>,
    pub(crate) turn: Option<u64>,
    /// Its message.
    pub(crate) message: String,
    /// Names of the changed sections of the context.
    pub(crate) sections: Vec<String>,
    /// The number of the operation; `null` if nothing was done.
    pub(crate) operation: Option<u64>,
    /// `null` if the workspace does not change.
    pub(crate) workspace: Option<WorkspaceChanges>,
    /// Why the workspace does not change; `null` if its files were read.
    #[schemars(skip)]
    pub(crate) workspace_kept: Option<String>,
    /// The prompt to roll back to; `null` if turns were given.
    pub(crate) before_prompt: Option<RestoredPrompt>,
    #[serde(flatten)]
    pub(crate) left: LeftEffects,
}

/// A prompt that a rollback reverts, with all that came after it.
#[derive(Debug, Clone, Serialize, JsonSchema)]
pub(crate) struct RestoredPrompt {
    pub(crate) number: u64,
    pub(crate) id: String,
    /// The prompt in one line.
    pub(crate) words: String,
}

/// `rollback --said TEXT --parse`; `null` for a message without a rollback request. The names are
/// those of open-codesign.
#[derive(Debug, Serialize)]
#[serde(tag = "kind", rename_all = "camelCase", rename_all_fields = "camelCase")]
pub(crate) enum Intent {
    Steps { steps: u64 },
    TurnId { turn_id: u64 },
}

/// The changes of a workspace.
#[derive(Debug, Serialize, JsonSchema)]
pub(crate) struct WorkspaceChanges {
    pub(crate) dir: String,
    /// The snapshot with its previous state; `null` if nothing was done.
    pub(crate) before: Option<String>,
    /// Files written, deleted or left, by path.
    pub(crate) files: Vec<WorkspaceFile>,
    /// Captured files that already have the right content.
    pub(crate) unchanged: u64,
    /// Files written and deleted, and bytes written; 0 if nothing was done.
    pub(crate) written: u64,
    pub(crate) deleted: u64,
    pub(crate) bytes: u64,
    /// Files that could not be changed.
    pub(crate) failed: u64,
}

/// One file of a workspace.
#[derive(Debug, Serialize, JsonSchema)]
pub(crate) struct WorkspaceFile {
    pub(crate) path: String,
    /// `create`, `overwrite`, `delete` or `leave`.
    pub(crate) action: &'static str,
    /// Why.
    pub(crate) reason: String,
    /// True if no snapshot had its content.
    pub(crate) unsaved: bool,
    /// True if the newest snapshot has no file of this path.
    pub(crate) unknown: bool,
    /// The error; `null` if it was done, or not tried.
    pub(crate) error: Option<String>,
}

impl WorkspaceChanges {
    /// Describes the plan to bring files to `state`, and its result.
    pub(crate) fn new(
        files: &FileChanges,
        state: &str,
        before: Option<String>,
        arranged: Option<&AppliedFiles>,
    ) -> Self {
        let failed = arranged.map_or(&[][..], |arranged| &arranged.failed);
        let error = |file: &FileChange| {
            let found = failed.iter().find(|(path, _)| *path == file.path);
            found.map(|(_, error)| error.to_string())
        };
        let mut records: Vec<WorkspaceFile> = files
            .files
            .iter()
            .map(|file| WorkspaceFile {
                path: file.path.display().to_string(),
                action: action(file.kind),
                reason: reason(file.kind, state),
                unsaved: file.unsaved,
                unknown: file.unknown,
                error: error(file),
            })
            .collect();
        records.extend(files.left.iter().map(|left| WorkspaceFile {
            path: left.path.display().to_string(),
            action: LEAVE,
            reason: left.reason.clone(),
            unsaved: false,
            unknown: false,
            error: None,
        }));
        let done = arranged.map_or((0, 0, 0), |done| (done.written, done.deleted, done.bytes));
        Self {
            dir: files.dir.display().to_string(),
            before,
            files: records,
            unchanged: files.unchanged,
            written: done.0,
            deleted: done.1,
            bytes: done.2,
            failed: failed.len() as u64,
        }
    }
}

/// The action for a file that is left alone.
pub(crate) const LEAVE: &str = "leave";

/// Returns the action of a file change.
pub(crate) fn action(kind: ChangeKind) -> &'static str {
    match kind {
        ChangeKind::Create => "create",
        ChangeKind::Overwrite => "overwrite",
        ChangeKind::Delete => "delete",
    }
}

/// The reason of an action, if files are to match `state`.
pub(crate) fn reason(kind: ChangeKind, state: &str) -> String {
    match kind {
        ChangeKind::Create => format!("in {state} and not here"),
        ChangeKind::Overwrite => format!("differs from {state}"),
        ChangeKind::Delete => format!("not in {state}"),
    }
}
