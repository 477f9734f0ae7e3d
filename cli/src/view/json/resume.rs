//! The record of `resume`.

use std::collections::BTreeMap;

use serde::Serialize;

use super::{LeftEffects, WorkspaceChanges};

/// `resume`.
#[derive(Serialize)]
pub(crate) struct Resumed {
    /// The snapshot to resume from, also under its name of schema 1, and its turn.
    pub(crate) id: String,
    pub(crate) from: String,
    pub(crate) turn: u64,
    pub(crate) agent: String,
    /// The id of the new session in the agent.
    pub(crate) session_id: String,
    /// Its name in the store.
    pub(crate) session: String,
    /// The file of its transcript.
    pub(crate) path: String,
    pub(crate) cwd: String,
    /// The command that must read the file first; `null` for an agent that finds it.
    pub(crate) prepare: Option<Vec<String>>,
    /// The command that resumes the session.
    pub(crate) command: Vec<String>,
    /// Messages in the transcript.
    pub(crate) messages: u64,
    /// True if they are the agent's own records.
    pub(crate) own_records: bool,
    /// Content that was left out, by kind, with counts.
    pub(crate) left_out: BTreeMap<String, u64>,
    pub(crate) dry_run: bool,
    /// Restored files; `null` without `--files`.
    pub(crate) workspace: Option<WorkspaceChanges>,
    /// The created directory; `null` without `--worktree`.
    pub(crate) worktree: Option<String>,
    #[serde(flatten)]
    pub(crate) left: LeftEffects,
}
