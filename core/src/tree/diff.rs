//! Finds the differences of two lists or two maps without reading the nodes that they share.
//!
//! Maps are walked in parallel, in the order of keys, and shared subtrees are skipped.
//!
//! Lists are compared from the top level down. In a gap, the entries that occur exactly once on
//! both sides, in their longest common order, are matched (the patience rule). Equal neighbours
//! extend each match. The remaining smaller gaps are opened for the next level. So an inserted
//! message is one small change, and the time is O(m log m) in the entries of the gaps.

use std::cmp::Ordering;
use std::collections::HashMap;
use std::ops::Range;

use bytes::Bytes;

use super::boundary::TreeShape;
use super::cursor::Cursor;
use super::entry::{NodeEntry, total};
use super::node::{Root, read_node};
use super::{Item, List, Map};
use crate::error::Result;
use crate::object::ObjectSource;

/// Items of an old list that were replaced by items of a new one; either range may be empty.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct ListChange {
    /// Positions in the old list.
    pub old: Range<u64>,
    /// Positions in the new list.
    pub new: Range<u64>,
}

/// A key whose item differs.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct MapChange {
    /// The key.
    pub key: Bytes,
    /// The item in the old map.
    pub old: Option<Item>,
    /// The item in the new map.
    pub new: Option<Item>,
}

/// Returns the changes from `old` to `new`, sorted, with equal items between any two of them. An
/// item with different meta is a change.
///
/// Reads the nodes that are not in both lists, and keeps their items in memory.
///
/// # Errors
/// `NotFound` or `Corrupt` if a node is missing or damaged.
pub fn diff_lists(old: &List, new: &List, source: &dyn ObjectSource) -> Result<Vec<ListChange>> {
    let mut changes = Vec::new();
    let mut gaps: Vec<Gap> = Vec::new();
    // The last gap also includes the unfinished runs, which follow the nodes of the levels above.
    let mut edge = Gap::default();
    let levels = old.root.runs.len().max(new.root.runs.len());
    for level in (0..levels).rev() {
        let mut smaller = Vec::new();
        for gap in gaps.drain(..) {
            smaller.extend(gap.open(source, level)?.align());
        }
        // When one list ends, the rest of the other is one change of any length.
        if edge.old.start < old.len() && edge.new.start < new.len() {
            let edge_here = edge.open(source, level)?.with_unfinished(&old.root, &new.root, level);
            let mut parts = edge_here.align();
            edge = parts.pop().unwrap_or_default();
            smaller.extend(parts);
        }
        for gap in smaller.into_iter().filter(|gap| !gap.is_empty()) {
            if level > 0 && !gap.old.run.is_empty() && !gap.new.run.is_empty() {
                gaps.push(gap);
            } else {
                changes.push(gap.change());
            }
        }
    }
    let rest = ListChange { old: edge.old.start..old.len(), new: edge.new.start..new.len() };
    if !rest.old.is_empty() || !rest.new.is_empty() {
        changes.push(rest);
    }
    changes.sort_unstable_by_key(|change| (change.old.start, change.new.start));
    Ok(changes)
}

/// A range of both lists between two matches.
#[derive(Debug, Default)]
struct Gap {
    old: Side,
    new: Side,
}

/// One list's part of a gap: entries of one level, from item `start` on.
#[derive(Debug, Default)]
struct Side {
    start: u64,
    run: Vec<NodeEntry>,
}

impl Side {
    fn range(&self) -> Range<u64> {
        // A list has at most 2^48 items, each counted once.
        self.start..self.start + total(&self.run)
    }

    /// Returns the same items as entries of `level`, one below the current one.
    fn open(self, source: &dyn ObjectSource, level: usize) -> Result<Self> {
        let mut run = Vec::new();
        for entry in &self.run {
            run.extend_from_slice(&read_node(source, TreeShape::List, level, entry, &[])?);
        }
        Ok(Self { start: self.start, run })
    }

    /// Returns a walk from the start of this side.
    fn walk(&self) -> RemainingEntries<'_> {
        RemainingEntries { start: self.start, rest: &self.run }
    }
}

/// The entries of a side that were not compared yet.
struct RemainingEntries<'a> {
    start: u64,
    rest: &'a [NodeEntry],
}

impl<'a> RemainingEntries<'a> {
    /// Returns the next `n` entries, or all remaining ones.
    fn take(&mut self, n: usize) -> Side {
        let side = Side { start: self.start, run: self.next(n).to_vec() };
        self.skip(n);
        side
    }

    fn skip(&mut self, n: usize) {
        let skipped = self.next(n);
        self.start += total(skipped);
        self.rest = self.rest.get(skipped.len()..).unwrap_or_default();
    }

    fn next(&self, n: usize) -> &'a [NodeEntry] {
        self.rest.get(..n).unwrap_or(self.rest)
    }
}

impl Gap {
    fn is_empty(&self) -> bool {
        self.old.run.is_empty() && self.new.run.is_empty()
    }

    fn change(self) -> ListChange {
        ListChange { old: self.old.range(), new: self.new.range() }
    }

    fn open(self, source: &dyn ObjectSource, level: usize) -> Result<Self> {
        Ok(Self { old: self.old.open(source, level)?, new: self.new.open(source, level)? })
    }

    /// Returns the gap followed by the unfinished runs of `level`.
    fn with_unfinished(mut self, old: &Root, new: &Root, level: usize) -> Self {
        for (side, root) in [(&mut self.old, old), (&mut self.new, new)] {
            side.run.extend(root.runs.get(level).into_iter().flat_map(|run| run.iter().cloned()));
        }
        self
    }

    /// Matches equal entries and returns the remaining gaps, some of them empty. The last one ends
    /// where this one ends.
    fn align(self) -> Vec<Self> {
        // If only one side has more, as after most turns, every anchor is in the equal head or
        // tail.
        let head = equal_pairs(self.old.run.iter(), self.new.run.iter());
        let (olds, news) = (self.old.run.iter().skip(head), self.new.run.iter().skip(head));
        let equal = head + equal_pairs(olds.rev(), news.rev());
        let anchors = match equal == self.old.run.len().min(self.new.run.len()) {
            true => Vec::new(),
            false => anchors(&self.old.run, &self.new.run),
        };
        let ends = (self.old.run.len(), self.new.run.len());
        let (mut old, mut new) = (self.old.walk(), self.new.walk());
        let (mut old_from, mut new_from) = (0, 0);
        let mut gaps = Vec::new();
        let mut ends_matched = false;
        for (old_to, new_to) in anchors.into_iter().chain([ends]) {
            let (olds, news) = (old.next(old_to - old_from), new.next(new_to - new_from));
            let head = equal_pairs(olds.iter(), news.iter());
            let tail = equal_pairs(olds.iter().skip(head).rev(), news.iter().skip(head).rev());
            let (old_gap, new_gap) = (olds.len() - head - tail, news.len() - head - tail);
            old.skip(head);
            new.skip(head);
            gaps.push(Self { old: old.take(old_gap), new: new.take(new_gap) });
            // The anchor itself is skipped with the entries matched before it.
            old.skip(tail + 1);
            new.skip(tail + 1);
            (old_from, new_from) = (old_to + 1, new_to + 1);
            ends_matched = tail > 0;
        }
        if ends_matched {
            gaps.push(Self { old: old.take(0), new: new.take(0) });
        }
        gaps
    }
}

/// Counts equal entries up to the first difference.
fn equal_pairs<'a>(
    old: impl Iterator<Item = &'a NodeEntry>,
    new: impl Iterator<Item = &'a NodeEntry>,
) -> usize {
    old.zip(new).take_while(|(old, new)| old == new).count()
}

/// Returns the positions of entries that occur exactly once on both sides, as the longest sequence
/// that rises on both.
fn anchors(old: &[NodeEntry], new: &[NodeEntry]) -> Vec<(usize, usize)> {
    let mut places: HashMap<&NodeEntry, (OccurrenceCount, OccurrenceCount)> = HashMap::new();
    for (index, entry) in old.iter().enumerate() {
        places.entry(entry).or_default().0.add(index);
    }
    for (index, entry) in new.iter().enumerate() {
        places.entry(entry).or_default().1.add(index);
    }
    let unique = |entry: &NodeEntry| match places.get(entry) {
        Some((OccurrenceCount::Once(old), OccurrenceCount::Once(new))) => Some((*old, *new)),
        _ => None,
    };
    longest_increasing(&old.iter().filter_map(unique).collect::<Vec<_>>())
}

/// How often an entry occurs on one side.
#[derive(Debug, Default)]
enum OccurrenceCount {
    #[default]
    Never,
    Once(usize),
    Often,
}

impl OccurrenceCount {
    fn add(&mut self, index: usize) {
        *self = match self {
            Self::Never => Self::Once(index),
            Self::Once(_) | Self::Often => Self::Often,
        };
    }
}

/// Returns the longest subsequence of `pairs` in which the second parts rise; the first parts
/// already do.
pub(crate) fn longest_increasing(pairs: &[(usize, usize)]) -> Vec<(usize, usize)> {
    // The top of pile n is the pair with the smallest second part that ends a rise of n + 1 pairs.
    let mut piles: Vec<usize> = Vec::new();
    let mut before: Vec<Option<usize>> = Vec::with_capacity(pairs.len());
    let second = |index: &usize| pairs.get(*index).map(|(_, new)| *new);
    for (index, (_, new)) in pairs.iter().enumerate() {
        let pile = piles.partition_point(|top| second(top) < Some(*new));
        before.push(pile.checked_sub(1).and_then(|left| piles.get(left)).copied());
        match piles.get_mut(pile) {
            Some(top) => *top = index,
            None => piles.push(index),
        }
    }
    let last = piles.last().copied();
    let walk = std::iter::successors(last, |index| before.get(*index).copied().flatten());
    let mut rise: Vec<_> = walk.filter_map(|index| pairs.get(index).copied()).collect();
    rise.reverse();
    rise
}

/// Iterates over the keys whose items differ, in order. Reads nodes on demand, and none that both
/// maps have in the same place; ends after the first error.
///
/// # Errors
/// The iterator yields `NotFound` or `Corrupt` if a node is missing or damaged.
pub fn diff_maps<'a>(
    old: &Map,
    new: &Map,
    source: &'a dyn ObjectSource,
) -> impl Iterator<Item = Result<MapChange>> + use<'a> {
    let mut walk =
        Some(MapWalk { source, old: Cursor::new(&old.root, 0), new: Cursor::new(&new.root, 0) });
    std::iter::from_fn(move || {
        let change = walk.as_mut()?.step().transpose();
        if !matches!(change, Some(Ok(_))) {
            walk = None;
        }
        change
    })
}

/// Two maps, walked in parallel.
struct MapWalk<'a> {
    source: &'a dyn ObjectSource,
    old: Cursor,
    new: Cursor,
}

impl MapWalk<'_> {
    fn step(&mut self) -> Result<Option<MapChange>> {
        loop {
            let order = match (self.old.peek(), self.new.peek()) {
                (None, None) => return Ok(None),
                (Some(_), None) => Ordering::Less,
                (None, Some(_)) => Ordering::Greater,
                (Some(old), Some(new)) if old == new => {
                    self.old.skip();
                    self.new.skip();
                    continue;
                }
                (Some(old), Some(new)) => self.order(old, new),
            };
            let old = if order.is_le() { advance(&mut self.old, self.source)? } else { None };
            let new = if order.is_ge() { advance(&mut self.new, self.source)? } else { None };
            if let Some(key) = old.as_ref().or(new.as_ref()).map(|entry| entry.key.clone()) {
                let [old, new] = [old, new].map(|entry| entry.map(|entry| entry.item));
                return Ok(Some(MapChange { key, old, new }));
            }
        }
    }

    /// Compares the next keys: `Less` advances the old side, `Greater` the new side, `Equal` both.
    fn order(&self, old: (usize, &NodeEntry), new: (usize, &NodeEntry)) -> Ordering {
        let ((old_level, old), (new_level, new)) = (old, new);
        if old.key.as_ref() <= self.new.lower_bound() {
            // Everything below is before all that remains on the other side.
            Ordering::Less
        } else if new.key.as_ref() <= self.old.lower_bound() {
            Ordering::Greater
        } else if old_level == 0 && new_level == 0 {
            old.key.cmp(&new.key)
        } else {
            // Open the higher entry, so that both cursors reach the same nodes.
            new_level.cmp(&old_level)
        }
    }
}

/// Opens the next entry, or returns it if it is a leaf entry.
fn advance(cursor: &mut Cursor, source: &dyn ObjectSource) -> Result<Option<NodeEntry>> {
    match cursor.peek() {
        Some((0, _)) => cursor.next(source),
        _ => cursor.open(source).map(|()| None),
    }
}
