//! Records of branches and tags.

use schemars::JsonSchema;
use serde::Serialize;

/// `branch`.
#[derive(Debug, Serialize)]
pub(crate) struct Branches {
    pub(crate) branches: Vec<BranchRecord>,
}

/// One branch.
#[derive(Debug, Serialize, JsonSchema)]
pub(crate) struct BranchRecord {
    pub(crate) session: String,
    pub(crate) branch: String,
    pub(crate) id: String,
    pub(crate) turn: u64,
    pub(crate) time: String,
    pub(crate) message: String,
    /// True for the branch of HEAD.
    pub(crate) current: bool,
    /// The same, under its name of schema 1.
    #[schemars(skip)]
    pub(crate) head: bool,
    /// The turn at which it left the main branch of its session.
    pub(crate) fork_turn: Option<u64>,
    /// Snapshots of its own since then; `null` for a main branch.
    pub(crate) own_turns: Option<u64>,
    /// Title of the session.
    pub(crate) title: Option<String>,
}

/// `fork`: the new branch.
#[derive(Serialize)]
pub(crate) struct Forked {
    #[serde(flatten)]
    pub(crate) moved: super::Moved,
    /// Its directory, if one was requested.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) worktree: Option<String>,
}

/// `edit`, `compact` and `uncompact`.
#[derive(Debug, Serialize)]
pub(crate) struct Edited {
    /// The snapshot that was edited.
    pub(crate) from: String,
    pub(crate) session: String,
    /// The branch with the edited conversation.
    pub(crate) branch: String,
    /// The new snapshot; `null` on a dry run, and if nothing changes.
    pub(crate) id: Option<String>,
    pub(crate) turn: u64,
    pub(crate) dry_run: bool,
    /// Messages of the new conversation.
    pub(crate) messages: u64,
    /// Dropped messages, and how many of them only because their call or result was dropped.
    pub(crate) dropped: u64,
    pub(crate) with_pairs: u64,
    /// Offloaded outputs.
    pub(crate) shortened: u64,
    pub(crate) bytes_before: u64,
    pub(crate) bytes_after: u64,
    /// Estimated tokens: a quarter of the bytes.
    pub(crate) tokens_before: u64,
    pub(crate) tokens_after: u64,
}

/// `branch --delete`.
#[derive(Debug, Serialize)]
pub(crate) struct DeletedBranches {
    pub(crate) deleted: Vec<DeletedBranch>,
}

/// A deleted branch, and its tip.
#[derive(Debug, Serialize)]
pub(crate) struct DeletedBranch {
    pub(crate) session: String,
    pub(crate) branch: String,
    pub(crate) id: String,
    /// The directory that was removed with it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) worktree: Option<String>,
}

/// `tag` without a name.
#[derive(Debug, Serialize)]
pub(crate) struct Tags {
    pub(crate) tags: Vec<Tag>,
}

/// One tag.
#[derive(Debug, Serialize, JsonSchema)]
pub(crate) struct Tag {
    pub(crate) tag: String,
    /// The commit.
    pub(crate) id: String,
    pub(crate) session: String,
    pub(crate) turn: u64,
    pub(crate) message: String,
    pub(crate) actor: String,
    /// When it was made, if known.
    pub(crate) time: Option<String>,
}

/// `tag --delete`.
#[derive(Debug, Serialize)]
pub(crate) struct DeletedTags {
    pub(crate) deleted: Vec<DeletedTag>,
}

/// A deleted tag, and its target.
#[derive(Debug, Serialize, JsonSchema)]
pub(crate) struct DeletedTag {
    pub(crate) tag: String,
    pub(crate) id: String,
}
