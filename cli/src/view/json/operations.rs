//! Records of the operation log, and of undos.

use schemars::JsonSchema;
use serde::Serialize;
use turntree::object::{RefChange, RefValue, Time};
use turntree::repo::OperationEntry;

use super::WorkspaceChanges;
use crate::view::clock;

/// `op log`, one per line; `op show`.
#[derive(Debug, Serialize)]
pub(crate) struct Operation {
    /// Its number in the store.
    pub(crate) operation: u64,
    pub(crate) id: String,
    pub(crate) time: String,
    pub(crate) actor: String,
    pub(crate) reason: String,
    /// The id of the operation that it undoes.
    pub(crate) undoes: Option<String>,
    /// True if no other operation undoes it.
    pub(crate) in_force: bool,
    pub(crate) changes: Vec<ChangedRef>,
}

/// The change of a ref. A value is an id, `ref:` and the name of a ref, or `null` for none.
#[derive(Debug, Serialize, JsonSchema)]
pub(crate) struct ChangedRef {
    #[serde(rename = "ref")]
    pub(crate) name: String,
    pub(crate) old: Option<String>,
    pub(crate) new: Option<String>,
}

/// `op forget`, and `gc --now` in its record.
#[derive(Debug, Serialize)]
pub(crate) struct OperationsForgotten {
    pub(crate) dry_run: bool,
    /// The number of forgotten operations.
    pub(crate) operations: u64,
    /// The number of the newest of them in the store; `null` if there is none.
    pub(crate) through: Option<u64>,
    /// Operations among them that were in force, which can no longer be undone.
    pub(crate) undoable: u64,
    /// Bytes that a collection can free only after this.
    pub(crate) freeable_bytes: u64,
    /// The number of the new operation; `null` if nothing was done.
    pub(crate) operation: Option<u64>,
}

/// `undo` and `redo`.
#[derive(Debug, Serialize, JsonSchema)]
pub(crate) struct Undo {
    /// The number of the reverted operation.
    pub(crate) undone: u64,
    pub(crate) id: String,
    pub(crate) reason: String,
    pub(crate) changes: Vec<ChangedRef>,
    /// The number of the new operation; `null` if nothing was done.
    pub(crate) operation: Option<u64>,
    /// The changes of workspace files, if the operation had changed any.
    pub(crate) workspace: Option<WorkspaceChanges>,
    /// Why a plan does not change the workspace.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(skip)]
    pub(crate) workspace_kept: Option<&'static str>,
}

impl Operation {
    pub(crate) fn new(entry: &OperationEntry, in_force: bool) -> Self {
        let OperationEntry { id, operation } = entry;
        Self {
            operation: operation.sequence,
            id: id.to_string(),
            time: clock::rfc3339(Time { micros: operation.time_micros, offset_minutes: 0 }),
            actor: operation.actor.clone(),
            reason: operation.reason.clone(),
            undoes: operation.undoes.map(|id| id.to_string()),
            in_force,
            changes: operation.changes.iter().map(ChangedRef::from).collect(),
        }
    }
}

impl From<&RefChange> for ChangedRef {
    fn from(change: &RefChange) -> Self {
        let text = |value: &RefValue| match value {
            RefValue::Object(id) => id.to_string(),
            RefValue::Symbolic(target) => format!("ref:{target}"),
        };
        Self {
            name: change.name.clone(),
            old: change.old.as_ref().map(text),
            new: change.new.as_ref().map(text),
        }
    }
}
