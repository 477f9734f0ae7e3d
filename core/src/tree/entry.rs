//! Entries: the elements of one level of a tree.

use std::sync::Arc;

use bytes::Bytes;

use super::Item;

/// One element of a level: an item, or a reference to a node of the level below.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(super) struct NodeEntry {
    /// The key, or the last key below; empty in lists.
    pub(super) key: Bytes,
    /// The item; for an inner entry the link to its node, without meta.
    pub(super) item: Item,
    /// Number of items below: 1 for a leaf entry.
    pub(super) count: u64,
}

impl NodeEntry {
    /// Creates a leaf entry.
    pub(super) fn leaf(key: Bytes, item: Item) -> Self {
        Self { key, item, count: 1 }
    }
}

/// Entries of one node, shared between cursors.
pub(super) type EntryRun = Arc<[NodeEntry]>;

/// Returns the number of items below `run`: at most 64 entries of at most 2^48 items.
pub(super) fn total(run: &[NodeEntry]) -> u64 {
    run.iter().map(|entry| entry.count).sum()
}
