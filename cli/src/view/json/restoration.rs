//! Records of what comes back: `restore`, `rollback`, and the workspace of an `undo`.

use schemars::JsonSchema;
use serde::Serialize;
use turntree::workspace::{AppliedFiles, ChangeKind, FileChange, FileChanges};

/// `restore` without `--to`, and `rollback`.
#[derive(Debug, Serialize, JsonSchema)]
pub(crate) struct Restoration {
    /// The snapshot that came back, and its turn.
    pub(crate) from: String,
    pub(crate) from_turn: u64,
    pub(crate) session: String,
    pub(crate) branch: String,
    pub(crate) dry_run: bool,
    /// The new snapshot of the branch; `null` when nothing was done.
    pub(crate) commit: Option<String>,
    pub(crate) turn: Option<u64>,
    /// Its message.
    pub(crate) message: String,
    /// Names of sections of the context that change.
    pub(crate) sections: Vec<String>,
    /// The number of the operation; `null` when nothing was done.
    pub(crate) operation: Option<u64>,
    /// `null` when the workspace stays as it is.
    pub(crate) workspace: Option<WorkspaceChanges>,
    /// Why the workspace stays as it is; `null` when its files were looked at.
    #[schemars(skip)]
    pub(crate) workspace_kept: Option<String>,
    /// The prompt that it goes back to before; `null` when turns were asked for.
    pub(crate) before_prompt: Option<RestoredPrompt>,
}

/// A prompt that a rollback takes back, with all that came after it.
#[derive(Debug, Clone, Serialize, JsonSchema)]
pub(crate) struct RestoredPrompt {
    pub(crate) number: u64,
    pub(crate) id: String,
    /// What was asked for, in one line.
    pub(crate) words: String,
}

/// `rollback --said TEXT --parse`; `null` for a message that does not ask to go back. The names are
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
    /// The snapshot that keeps it as it was; `null` when nothing was done.
    pub(crate) before: Option<String>,
    /// Files that are written, deleted or left, by path.
    pub(crate) files: Vec<WorkspaceFile>,
    /// Captured files that stay as they are because they should.
    pub(crate) unchanged: u64,
    /// Files written and deleted, and bytes written; 0 when nothing was done.
    pub(crate) written: u64,
    pub(crate) deleted: u64,
    pub(crate) bytes: u64,
    /// Files that are not as they should be.
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
    /// True when its content was in no snapshot.
    pub(crate) unsaved: bool,
    /// True when the newest snapshot has no file of this path.
    pub(crate) unknown: bool,
    /// Why it was not done; `null` when it was, or was not tried.
    pub(crate) error: Option<String>,
}

impl WorkspaceChanges {
    /// Describes the plan for the files that are to be as in `state`, and its outcome.
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

/// The word for a file that stays as it is.
pub(crate) const LEAVE: &str = "leave";

/// Returns the word for the change of a file.
pub(crate) fn action(kind: ChangeKind) -> &'static str {
    match kind {
        ChangeKind::Create => "create",
        ChangeKind::Overwrite => "overwrite",
        ChangeKind::Delete => "delete",
    }
}

/// Why it is done, when files are to be as in `state`.
pub(crate) fn reason(kind: ChangeKind, state: &str) -> String {
    match kind {
        ChangeKind::Create => format!("in {state} and not here"),
        ChangeKind::Overwrite => format!("differs from {state}"),
        ChangeKind::Delete => format!("not in {state}"),
    }
}
