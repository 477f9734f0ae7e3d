//! Chooses the base of a block: the block that holds what its objects are older versions of.
//!
//! Only a block without a base may be one, so that reading an object never takes more than two
//! blocks. An object that is like one in a block with a base is therefore taken to be like whatever
//! that one was like, and so on, up to a block without.

use std::collections::HashMap;

/// A base must hold what at least this part of a block is like; reading costs twice as much.
const MIN_SHARE: u64 = 8;

/// What the objects of a pack, or its parts, are like, in their order.
#[derive(Debug, Default)]
pub(super) struct Lineage {
    /// For each object, the block that might be the base of others like it, if its own has a base.
    anchors: Vec<Option<u32>>,
    /// Blocks that are complete: first object, number of the block, whether it has a base.
    blocks: Vec<(u32, u32, bool)>,
    /// Objects in those.
    complete: u32,
    /// Bytes of the block under construction by the block that holds what they are like.
    weights: HashMap<u32, u64>,
}

impl Lineage {
    /// The next object, of so many bytes, is like an earlier one.
    pub(super) fn push(&mut self, bytes: usize, like: Option<u32>) {
        let anchor = like.and_then(|like| self.anchor(like));
        if let Some(block) = anchor {
            *self.weights.entry(block).or_default() += bytes as u64;
        }
        self.anchors.push(anchor);
    }

    /// The best base for the block under construction, of so many bytes.
    pub(super) fn base(&self, bytes: usize) -> Option<u32> {
        let heaviest = self.weights.iter().max_by_key(|(block, weight)| (**weight, **block));
        let worth_it = heaviest.filter(|(_, weight)| **weight * MIN_SHARE >= bytes as u64);
        worth_it.map(|(block, _)| *block)
    }

    /// The block under construction is complete and has this number.
    pub(super) fn complete(&mut self, number: u32, first: u32, objects: u32, has_base: bool) {
        self.blocks.push((first, number, has_base));
        self.complete = first + objects;
        self.weights.clear();
    }

    fn anchor(&self, like: u32) -> Option<u32> {
        if like < self.complete {
            let behind = self.blocks.partition_point(|(first, ..)| *first <= like);
            let (_, number, has_base) = self.blocks.get(behind.checked_sub(1)?)?;
            if !has_base {
                return Some(*number);
            }
        }
        self.anchors.get(like as usize).copied().flatten()
    }
}
