//! Records of merges, cherry-picks and open conflicts.

use std::collections::BTreeMap;

use schemars::JsonSchema;
use serde::Serialize;

use super::WorkspaceChanges;

/// `merge`.
#[derive(Debug, Serialize, JsonSchema)]
pub(crate) struct Merged {
    /// `up-to-date`, `fast-forward` or `merged`.
    pub(crate) kind: &'static str,
    pub(crate) dry_run: bool,
    pub(crate) session: String,
    /// The target branch.
    pub(crate) branch: String,
    /// Its newest commit; `null` on a dry run.
    pub(crate) id: Option<String>,
    pub(crate) turn: Option<u64>,
    /// The base of the comparison; `null` if they share nothing.
    pub(crate) base: Option<String>,
    /// The tip of the branch before.
    pub(crate) ours: String,
    pub(crate) theirs: String,
    /// The changes in ours.
    pub(crate) sections: BTreeMap<String, MergedSection>,
    pub(crate) conflicts: Vec<MergeConflict>,
}

/// `merge --with-files`.
#[derive(Serialize)]
pub(crate) struct MergedFiles {
    #[serde(flatten)]
    pub(crate) merged: Merged,
    /// The snapshot of unsaved files of the workspace, which the merge continues.
    pub(crate) saved: Option<String>,
    pub(crate) workspace: WorkspaceChanges,
    /// The directory of the merged branch, if it still has one.
    pub(crate) worktree: Option<String>,
}

/// The changes in a section.
#[derive(Debug, Serialize, JsonSchema)]
pub(crate) struct MergedSection {
    /// Entries now as in theirs; for lists, added items.
    pub(crate) taken: u64,
    /// Entries with the changes of both.
    pub(crate) combined: u64,
    pub(crate) conflicts: u64,
}

/// A conflict: both sides changed it differently.
#[derive(Debug, Serialize, JsonSchema)]
pub(crate) struct MergeConflict {
    pub(crate) path: String,
    pub(crate) kind: &'static str,
    /// Fields changed by both, if all others merged.
    pub(crate) fields: Vec<String>,
    /// True if the entry holds both versions between markers.
    pub(crate) markers: bool,
}

/// `cherry-pick`.
#[derive(Debug, Serialize)]
pub(crate) struct Picks {
    pub(crate) picks: Vec<Merged>,
}

/// `resolve` without arguments.
#[derive(Debug, Serialize)]
pub(crate) struct OpenConflicts {
    pub(crate) session: String,
    pub(crate) branch: String,
    /// Its newest commit.
    pub(crate) id: String,
    pub(crate) conflicts: Vec<OpenConflict>,
}

/// An open conflict.
#[derive(Debug, Serialize, JsonSchema)]
pub(crate) struct OpenConflict {
    pub(crate) path: String,
    pub(crate) kind: &'static str,
    /// The blob of each version; `null` if it has none, and for sections.
    pub(crate) base: Option<String>,
    pub(crate) ours: Option<String>,
    pub(crate) theirs: Option<String>,
}

/// `resolve` of some or all.
#[derive(Debug, Serialize, JsonSchema)]
pub(crate) struct Resolved {
    pub(crate) session: String,
    pub(crate) branch: String,
    pub(crate) id: String,
    pub(crate) turn: u64,
    /// Paths of resolved conflicts.
    pub(crate) resolved: Vec<String>,
    /// Files deleted to make room.
    pub(crate) removed: Vec<String>,
    /// Paths of open conflicts.
    pub(crate) open: Vec<String>,
}
