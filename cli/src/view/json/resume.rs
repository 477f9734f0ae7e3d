//! The record of `resume`.

use std::collections::BTreeMap;

use serde::Serialize;

use super::WorkspaceChanges;

/// `resume`.
#[derive(Serialize)]
pub(crate) struct Resumed {
    /// The snapshot that the session goes on from, and its turn.
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
    /// The program and its arguments that read the file first; `null` for an agent that finds it.
    pub(crate) prepare: Option<Vec<String>>,
    /// The program and its arguments that take it up.
    pub(crate) command: Vec<String>,
    /// Messages in the transcript.
    pub(crate) messages: u64,
    /// True when they are records of the agent itself.
    pub(crate) own_records: bool,
    /// Content that is not in it, by kind, with how often.
    pub(crate) left_out: BTreeMap<String, u64>,
    pub(crate) dry_run: bool,
    /// Files that are restored; `null` without `--files`.
    pub(crate) workspace: Option<WorkspaceChanges>,
    /// The directory that was made for it; `null` without `--worktree`.
    pub(crate) worktree: Option<String>,
}
