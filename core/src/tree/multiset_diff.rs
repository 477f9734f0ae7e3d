//! The multiset difference of two trees: items that one has more often, in any position.
//!
//! It works from the top level down. Equal entries are removed, first at both ends and then in any
//! position, and the remaining nodes are opened for the next level. Removed entries are equal on
//! both sides down to their items, so the result is exact, and no common order has to be found.
//!
//! Consecutive versions are compared in sequence: the new one is the old one of the next
//! comparison, and most of its nodes are cached by then.

use std::collections::HashMap;
use std::sync::Arc;

use bytes::Bytes;

use super::boundary::TreeShape;
use super::entry::{EntryRun, NodeEntry};
use super::node::{Node, Root, check_node};
use super::{Item, Link};
use crate::error::Result;
use crate::object::{ObjectId, ObjectSource};

/// Maximum number of cached entries of nodes: about 200 bytes each.
const MAX_ENTRIES: usize = 1 << 14;

/// An item that one tree has more often than the other.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct MultisetChange {
    /// The key in a map; empty in a list.
    pub key: Bytes,
    /// The position in the tree. Among equal items in a list it is one of the last.
    pub index: u64,
    /// The item.
    pub item: Item,
}

/// The multiset difference of two trees, each side in its own order.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct MultisetChanges {
    /// Items that the old tree has more often, repeated by the difference.
    pub gone: Vec<MultisetChange>,
    /// Items that the new tree has more often, repeated by the difference.
    pub come: Vec<MultisetChange>,
}

/// Compares trees, and caches recently read nodes.
pub(crate) struct MultisetDiff<'s> {
    source: &'s dyn ObjectSource,
    roots: HashMap<ObjectId, Arc<Root>>,
    nodes: HashMap<ObjectId, Node>,
    entries: usize,
}

impl<'s> MultisetDiff<'s> {
    /// Creates an empty cache over `source`.
    #[must_use]
    pub(crate) fn new(source: &'s dyn ObjectSource) -> Self {
        Self { source, roots: HashMap::new(), nodes: HashMap::new(), entries: 0 }
    }

    /// Returns the multiset difference of two lists, given by their roots; `None` is an empty list.
    /// Items are equal if they link to the same object, whatever their meta.
    ///
    /// Reads the nodes that are not in both trees and not cached.
    ///
    /// # Errors
    /// `NotFound` or `Corrupt` if a node is missing or damaged.
    pub(crate) fn lists(
        &mut self,
        old: Option<&ObjectId>,
        new: Option<&ObjectId>,
    ) -> Result<MultisetChanges> {
        self.compare(TreeShape::List, old, new)
    }

    /// Returns the multiset difference of two maps, where equal items also have the same key.
    ///
    /// # Errors
    /// Errors of [`MultisetDiff::lists`].
    pub(crate) fn maps(
        &mut self,
        old: Option<&ObjectId>,
        new: Option<&ObjectId>,
    ) -> Result<MultisetChanges> {
        self.compare(TreeShape::Map, old, new)
    }

    fn compare(
        &mut self,
        shape: TreeShape,
        old: Option<&ObjectId>,
        new: Option<&ObjectId>,
    ) -> Result<MultisetChanges> {
        let (old, new) = (self.root(shape, old)?, self.root(shape, new)?);
        let (mut gone, mut come) = (Vec::new(), Vec::new());
        for level in (0..old.runs.len().max(new.runs.len())).rev() {
            let before = self.open(&old, level, &gone)?;
            let after = self.open(&new, level, &come)?;
            (gone, come) = find_surplus(&before, &after);
        }
        let changes = |parts: Vec<Difference>| parts.into_iter().map(Difference::change).collect();
        Ok(MultisetChanges { gone: changes(gone), come: changes(come) })
    }

    fn root(&mut self, shape: TreeShape, id: Option<&ObjectId>) -> Result<Arc<Root>> {
        let Some(id) = id else { return Ok(Arc::new(Root::empty(shape))) };
        if let Some(root) = self.roots.get(id).filter(|root| root.shape == shape) {
            return Ok(Arc::clone(root));
        }
        let root = Arc::new(Root::read(self.source, shape, id)?);
        self.make_room(root.runs.iter().map(|run| run.len()).sum());
        self.roots.insert(*id, Arc::clone(&root));
        Ok(root)
    }

    fn node(&mut self, shape: TreeShape, level: usize, parent: &Difference) -> Result<EntryRun> {
        let id = parent.entry.item.link.id;
        let node = match self.nodes.get(&id) {
            Some(node) => node.clone(),
            None => {
                let node = Node::read(self.source, &id)?;
                self.make_room(node.run.len());
                self.nodes.insert(id, node.clone());
                node
            }
        };
        check_node(node, shape, level, &parent.entry, &parent.floor)
    }

    /// Clears the cache if it has no room for `entries` more.
    fn make_room(&mut self, entries: usize) {
        if self.entries + entries > MAX_ENTRIES {
            self.roots.clear();
            self.nodes.clear();
            self.entries = 0;
        }
        self.entries += entries;
    }

    /// Returns the runs of `level` of a tree: those of the nodes `above` it, and the unfinished
    /// one.
    fn open(&mut self, root: &Root, level: usize, above: &[Difference]) -> Result<Vec<NodeSpan>> {
        let mut spans = Vec::with_capacity(above.len() + 1);
        for part in above {
            let run = self.node(root.shape, level, part)?;
            spans.push(NodeSpan { start: part.start, floor: part.floor.clone(), run });
        }
        if let Some(run) = root.runs.get(level) {
            let before = root.runs.iter().skip(level + 1);
            let start = before.clone().map(|run| super::entry::total(run)).sum();
            let floor = before.filter_map(|run| run.last()).map(|last| last.key.clone()).next();
            let floor = floor.unwrap_or_default();
            spans.push(NodeSpan { start, floor, run: Arc::clone(run) });
        }
        Ok(spans)
    }
}

/// Adjacent entries of one level, with the position of their first item, and the key before them.
struct NodeSpan {
    start: u64,
    floor: Bytes,
    run: EntryRun,
}

/// An entry of a span.
struct SpanEntry<'a> {
    start: u64,
    floor: &'a Bytes,
    entry: &'a NodeEntry,
}

/// A surplus entry of one side.
struct Difference {
    start: u64,
    floor: Bytes,
    entry: NodeEntry,
}

impl<'a> SpanEntry<'a> {
    /// Returns the identity of an entry.
    fn identity(&self) -> (&'a Bytes, &'a Link) {
        (&self.entry.key, &self.entry.item.link)
    }

    fn part(&self) -> Difference {
        Difference { start: self.start, floor: self.floor.clone(), entry: self.entry.clone() }
    }
}

impl Difference {
    fn change(self) -> MultisetChange {
        let NodeEntry { key, item, .. } = self.entry;
        MultisetChange { key, index: self.start, item }
    }
}

fn span_entries(spans: &[NodeSpan]) -> Vec<SpanEntry<'_>> {
    let mut spots = Vec::with_capacity(spans.iter().map(|stretch| stretch.run.len()).sum());
    for NodeSpan { start, floor, run } in spans {
        let (mut start, mut floor) = (*start, floor);
        for entry in run.iter() {
            spots.push(SpanEntry { start, floor, entry });
            (start, floor) = (start + entry.count, &entry.key);
        }
    }
    spots
}

/// Returns the surplus entries of each side.
fn find_surplus(old: &[NodeSpan], new: &[NodeSpan]) -> (Vec<Difference>, Vec<Difference>) {
    let (old, new) = (span_entries(old), span_entries(new));
    let is_same = |(a, b): &(&SpanEntry<'_>, &SpanEntry<'_>)| a.identity() == b.identity();
    let head = old.iter().zip(&new).take_while(is_same).count();
    let (old, new) = (old.get(head..).unwrap_or(&[]), new.get(head..).unwrap_or(&[]));
    let tail = old.iter().rev().zip(new.iter().rev()).take_while(is_same).count();
    let (old, new) =
        (old.get(..old.len() - tail).unwrap_or(&[]), new.get(..new.len() - tail).unwrap_or(&[]));
    if old.is_empty() || new.is_empty() {
        let parts = |spots: &[SpanEntry<'_>]| spots.iter().map(SpanEntry::part).collect();
        return (parts(old), parts(new));
    }
    (subtract(old, new), subtract(new, old))
}

/// Subtracts `other` from `side`; removes the first occurrences.
fn subtract<'a>(side: &[SpanEntry<'a>], other: &[SpanEntry<'a>]) -> Vec<Difference> {
    let mut there: HashMap<_, usize> = HashMap::with_capacity(other.len());
    for spot in other {
        *there.entry(spot.identity()).or_default() += 1;
    }
    let is_left = side.iter().filter(|spot| match there.get_mut(&spot.identity()) {
        Some(count) if *count > 0 => {
            *count -= 1;
            false
        }
        _ => true,
    });
    is_left.map(SpanEntry::part).collect()
}
