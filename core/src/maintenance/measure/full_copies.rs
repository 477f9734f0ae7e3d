//! Computes the size of full copies of contexts: the sum of everything below each node, children
//! first.
//!
//! A node is summed up when it is read, as far as the sums of its children are known. Children
//! without a sum are new in the same round, and few; they are added when all nodes of the round are
//! known.

use std::collections::HashMap;

use crate::context::sections::{is_conversation, is_transcript_section};
use crate::maintenance::mark::marker::Bits;

/// The sums of nodes, by their positions.
#[derive(Debug)]
pub(in crate::maintenance) struct FullCopies {
    sums: Vec<Sum>,
    summed: Bits,
    /// The nodes of this round with children whose sums are unknown.
    waiting: HashMap<u32, PartialSum>,
}

/// The size of a full copy of everything below a node.
#[derive(Debug, Clone, Copy, Default)]
pub(in crate::maintenance) struct Sum {
    pub(in crate::maintenance) bytes: u64,
    /// Items; for a context, its messages.
    pub(in crate::maintenance) items: u64,
}

/// The known part of the sum of a node.
#[derive(Debug, Default)]
pub(in crate::maintenance) struct PartialSum {
    known: Sum,
    /// The children without a sum, repeated for every link.
    lacks: Vec<Summand>,
}

/// A child of a node, and the parts of its sum that count.
#[derive(Debug, Clone, Copy)]
pub(in crate::maintenance) struct Summand {
    position: u32,
    bytes: bool,
    items: bool,
}

impl FullCopies {
    /// Starts without sums, for a store with this number of positions.
    pub(in crate::maintenance) fn new(positions: usize) -> Self {
        Self {
            sums: vec![Sum::default(); positions],
            summed: Bits::new(positions),
            waiting: HashMap::new(),
        }
    }

    /// Returns the sum of a node if it is known.
    pub(in crate::maintenance) fn sum(&self, node: u32) -> Option<Sum> {
        let at = node as usize;
        self.sums.get(at).copied().filter(|_| self.summed.contains(at))
    }

    /// Adds a child node to the sum of its parent.
    pub(super) fn add_node(&self, sum: &mut PartialSum, child: Summand) {
        match self.sum(child.position) {
            Some(below) => sum.known = sum.known.plus(below, child),
            None => sum.lacks.push(child),
        }
    }

    /// Stores the known part of the sum of a node.
    pub(in crate::maintenance) fn note(&mut self, node: u32, sum: PartialSum) {
        if sum.lacks.is_empty() {
            self.set(node, sum.known);
        } else {
            self.waiting.insert(node, sum);
        }
    }

    /// Sums up everything below a node. All new nodes below it must be noted.
    pub(super) fn sum_up(&mut self, root: u32) {
        let mut open = vec![root];
        while let Some(at) = open.last().copied() {
            let Some(PartialSum { known, lacks }) = self.waiting.get(&at) else {
                open.pop();
                continue;
            };
            let before = open.len();
            let nodes = lacks.iter().map(|node| node.position);
            open.extend(nodes.filter(|node| self.waiting.contains_key(node)));
            if open.len() == before {
                let below = |node: &Summand| self.sum(node.position).unwrap_or_default();
                let sum = lacks.iter().fold(*known, |sum, node| sum.plus(below(node), *node));
                self.set(at, sum);
                self.waiting.remove(&at);
                open.pop();
            }
        }
    }

    fn set(&mut self, node: u32, sum: Sum) {
        if let Some(slot) = self.sums.get_mut(node as usize) {
            *slot = sum;
        }
        self.summed.insert(node as usize);
    }
}

impl PartialSum {
    /// Adds a child that is not a node, with its bytes.
    pub(super) fn add_item(&mut self, child: Summand, bytes: u32) {
        self.known = self.known.plus(Sum { bytes: bytes.into(), items: 1 }, child);
    }
}

impl Summand {
    /// Returns a child within a section, or a node of the map of sections.
    pub(in crate::maintenance) const fn whole(position: u32) -> Self {
        Self { position, bytes: true, items: true }
    }

    /// Returns a section of a context, of which only messages count as items.
    pub(in crate::maintenance) fn section(position: u32, name: &[u8]) -> Self {
        let name = std::str::from_utf8(name).unwrap_or_default();
        // A transcript repeats the content of conversations.
        Self { position, bytes: !is_transcript_section(name), items: is_conversation(name) }
    }
}

impl Sum {
    /// Adds the sum of a child, as far as it counts.
    const fn plus(mut self, below: Self, child: Summand) -> Self {
        if child.bytes {
            self.bytes += below.bytes;
        }
        if child.items {
            self.items += below.items;
        }
        self
    }
}

/// Returns the bytes of a full copy after each new message, assuming that the context grows by them
/// evenly.
pub(super) fn copies_per_message(before: Sum, now: Sum) -> u64 {
    let new = u128::from(now.items.saturating_sub(before.items));
    if new == 0 {
        return 0;
    }
    let twice = (new - 1) * u128::from(before.bytes) + (new + 1) * u128::from(now.bytes);
    u64::try_from(twice / 2).unwrap_or(u64::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sum_of(copies: &FullCopies, node: u32) -> Option<(u64, u64)> {
        copies.sum(node).map(|sum| (sum.bytes, sum.items))
    }

    #[test]
    fn a_node_that_came_before_its_children_is_summed_up_after_them() {
        let mut copies = FullCopies::new(10);
        let node = |copies: &FullCopies, items: &[(u32, u32)], nodes: &[u32]| {
            let mut sum = PartialSum::default();
            items.iter().for_each(|(at, bytes)| sum.add_item(Summand::whole(*at), *bytes));
            nodes.iter().for_each(|at| copies.add_node(&mut sum, Summand::whole(*at)));
            sum
        };
        // 1 has 2 twice, and 3; 2 has 3.
        let top = node(&copies, &[(7, 5)], &[2, 2, 3]);
        copies.note(1, top);
        let middle = node(&copies, &[], &[3]);
        copies.note(2, middle);
        let leaf = node(&copies, &[(8, 10), (9, 20)], &[]);
        copies.note(3, leaf);
        assert_eq!((sum_of(&copies, 1), sum_of(&copies, 3)), (None, Some((30, 2))));
        copies.sum_up(1);
        assert_eq!((sum_of(&copies, 1), sum_of(&copies, 2)), (Some((95, 7)), Some((30, 2))));
        // Known sums are added immediately.
        let later = node(&copies, &[], &[1]);
        copies.note(4, later);
        assert_eq!(sum_of(&copies, 4), Some((95, 7)));
        // A node without a sum, for example one that is linked as a blob, counts nothing and ends
        // the recursion.
        let odd = node(&copies, &[(8, 10)], &[6]);
        copies.note(5, odd);
        copies.sum_up(5);
        assert_eq!(sum_of(&copies, 5), Some((10, 1)));
    }

    #[test]
    fn of_a_context_its_messages_are_counted_and_not_what_repeats_them() {
        let mut sum = PartialSum::default();
        for name in ["agents/main/messages", "source", "files", "messages"] {
            sum.add_item(Summand::section(0, name.as_bytes()), 10);
        }
        assert_eq!((sum.known.bytes, sum.known.items), (30, 1));
    }
}
