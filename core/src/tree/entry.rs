//! Entries: the elements of one level of a tree.

use std::sync::Arc;

use bytes::Bytes;

use super::Item;

/// One element of a level: an item of the user, or a reference to a node of the level below.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(super) struct NodeEntry {
    /// The key, or the last key below; empty in lists.
    pub(super) key: Bytes,
    /// The item; of an inner entry the link to its node, without meta.
    pub(super) item: Item,
    /// Items below: 1 for a leaf entry.
    pub(super) count: u64,
}

impl NodeEntry {
    /// A leaf entry.
    pub(super) fn leaf(key: Bytes, item: Item) -> Self {
        Self { key, item, count: 1 }
    }
}

/// Entries of one node, shared between the cursors that stand in it.
pub(super) type EntryRun = Arc<[NodeEntry]>;

/// Items below the entries of `run`; at most 64 entries of at most 2^48 items.
pub(super) fn total(run: &[NodeEntry]) -> u64 {
    run.iter().map(|entry| entry.count).sum()
}
