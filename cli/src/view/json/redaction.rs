//! The record of `redact`.

use serde::Serialize;

/// `redact`.
#[derive(Serialize)]
pub(crate) struct Redaction {
    /// True for a dry run.
    pub(crate) dry_run: bool,
    /// Matches, each object counted once.
    pub(crate) matches: u64,
    pub(crate) places: Vec<RedactionPlace>,
    /// Objects that are written again.
    pub(crate) rewritten: Rewritten,
    /// Refs that move, by their new full names.
    pub(crate) refs: Vec<String>,
    /// Operations that are not kept.
    pub(crate) operations: u64,
    /// Commits that nothing leads to, which go.
    pub(crate) lost_commits: u64,
    /// Files that nothing refers to, which go.
    pub(crate) leftovers: Vec<String>,
    /// Files that others write to: while there are any, nothing is done.
    pub(crate) in_use: Vec<String>,
    /// Ids that answer that they were redacted; `null` when nothing was done.
    pub(crate) redacted_ids: Option<u64>,
    /// Transcripts outside of the store that hold it.
    pub(crate) sources: Vec<RedactionSource>,
    /// Files of workspaces that hold it.
    pub(crate) workspace_files: Vec<String>,
}

/// A transcript outside of the store.
#[derive(Serialize)]
pub(crate) struct RedactionSource {
    pub(crate) path: String,
    pub(crate) matches: u64,
    /// True when it was written anew and holds it no more.
    pub(crate) redacted: bool,
    /// The reason why it cannot be written anew.
    pub(crate) obstacle: Option<String>,
}

/// A place where `redact` found something. Fields that do not apply are left out.
#[derive(Serialize, Default)]
pub(crate) struct RedactionPlace {
    /// `entry`, `commit`, `tag`, `ref`, `operation`, `unreached`.
    pub(crate) kind: &'static str,
    /// `content`, `key`, `meta`, `message`, `author`, `session`, `metadata`, `name`, `reason`.
    pub(crate) part: &'static str,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) session: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) first_turn: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) last_turn: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) section: Option<String>,
    /// Key or index in the section.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) key: Option<String>,
    /// Name of the tag or ref.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) name: Option<String>,
    /// Number of the operation.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) operation: Option<u64>,
    /// Object with the matches.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) id: Option<String>,
    pub(crate) matches: u64,
    /// The offsets of the first of them.
    pub(crate) at: Vec<Position>,
}

/// A place in bytes.
#[derive(Serialize)]
pub(crate) struct Position {
    /// From 1.
    pub(crate) line: u64,
    /// In bytes, from 0.
    pub(crate) offset: u64,
}

/// Objects that `redact` writes again.
#[derive(Serialize)]
pub(crate) struct Rewritten {
    pub(crate) blobs: u64,
    pub(crate) nodes: u64,
    pub(crate) commits: u64,
    pub(crate) tags: u64,
}
