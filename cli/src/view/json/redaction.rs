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
    /// Rewritten objects.
    pub(crate) rewritten: Rewritten,
    /// Refs that move, by their new full names.
    pub(crate) refs: Vec<String>,
    /// Operations that are not kept.
    pub(crate) operations: u64,
    /// Unreachable commits, which are deleted.
    pub(crate) lost_commits: u64,
    /// Unreferenced files, which are deleted.
    pub(crate) leftovers: Vec<String>,
    /// Files that other processes write to: while there are any, nothing is done.
    pub(crate) in_use: Vec<String>,
    /// The number of ids recorded as redacted; `null` if nothing was done.
    pub(crate) redacted_ids: Option<u64>,
    /// Transcripts outside of the store that contain it.
    pub(crate) sources: Vec<RedactionSource>,
    /// Files of workspaces that contain it.
    pub(crate) workspace_files: Vec<String>,
}

/// A transcript outside of the store.
#[derive(Serialize)]
pub(crate) struct RedactionSource {
    pub(crate) path: String,
    pub(crate) matches: u64,
    /// True once it was rewritten without it.
    pub(crate) redacted: bool,
    /// The reason why it cannot be rewritten.
    pub(crate) obstacle: Option<String>,
}

/// A place of a match. Fields that do not apply are left out.
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
    /// The positions of the first matches.
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

/// Objects rewritten by `redact`.
#[derive(Serialize)]
pub(crate) struct Rewritten {
    pub(crate) blobs: u64,
    pub(crate) nodes: u64,
    pub(crate) commits: u64,
    pub(crate) tags: u64,
}
