//! Chooses the base of a block: the earlier block that has most content in common with it.
//!
//! Resemblance of two blocks is estimated by features: places where a hash of the previous 64 bytes
//! has its highest bits zero, about one in 4 KiB. This finds versions of a file, forks of a
//! session, repeated images and messages that quote files, independent of their names. A base may
//! have a base that has none, so reading an object decodes at most three blocks. If limited, only
//! `max_dependent` bytes of blocks depend on one base, so that damage to it does not lose
//! everything that resembles it.

use std::collections::HashMap;

use crate::store::pack::format::chunk::RollingHash;
use crate::store::pack::format::layout::MAX_BASES;

/// Bits of the hash that are zero at a feature.
const FEATURE_MASK: u64 = !0 << (64 - 12);

/// Most blocks to remember for a feature.
const MAX_HOLDERS: usize = 4;

/// A base has at least one in this many features of the block. Fewer are coincidence.
const MIN_SHARE: usize = 64;

/// The previous blocks that may be bases.
#[derive(Debug, Default)]
pub(in crate::store::pack) struct SimilarityIndex {
    /// Blocks by feature: the first few that have it.
    holders: HashMap<u64, Vec<u32>>,
    /// For each block by its number, the number of its successive bases.
    bases: HashMap<u32, usize>,
    /// The base of each block that has one.
    base_of: HashMap<u32, u32>,
    /// For each base, the bytes of the blocks that depend on it.
    dependent: HashMap<u32, usize>,
    /// The most bytes that may depend on one base, if limited.
    max_dependent: Option<usize>,
}

impl SimilarityIndex {
    /// Creates an empty index. At most `max_dependent` bytes of blocks depend on one base.
    pub(in crate::store::pack) fn new(max_dependent: Option<usize>) -> Self {
        Self { max_dependent, ..Self::default() }
    }

    /// Returns the best base for the block with this number and these bytes, and adds the block.
    pub(in crate::store::pack) fn base(&mut self, number: u32, raw: &[u8]) -> Option<u32> {
        let features = features(raw);
        let base = self.most_similar(&features, raw.len());
        let bases = base.and_then(|base| self.bases.get(&base)).map_or(0, |bases| bases + 1);
        if bases < MAX_BASES {
            self.bases.insert(number, bases);
            for feature in features {
                let holders = self.holders.entry(feature).or_default();
                if holders.len() < MAX_HOLDERS {
                    holders.push(number);
                }
            }
        }
        if let Some(base) = base {
            self.base_of.insert(number, base);
            for needed in self.required_blocks(base) {
                *self.dependent.entry(needed).or_default() += raw.len();
            }
        }
        base
    }

    /// Returns the blocks that a block with this base depends on.
    fn required_blocks(&self, base: u32) -> Vec<u32> {
        std::iter::successors(Some(base), |at| self.base_of.get(at).copied()).collect()
    }

    /// Returns the block that shares most of these features. If counts are close, prefers the block
    /// that is cheaper to read.
    fn most_similar(&self, features: &[u64], bytes: usize) -> Option<u32> {
        let mut common: HashMap<u32, usize> = HashMap::new();
        for holder in features.iter().filter_map(|feature| self.holders.get(feature)).flatten() {
            *common.entry(*holder).or_default() += 1;
        }
        let worth = |number: &u32, count: usize| {
            let cheap = self.bases.get(number) == Some(&0);
            (if cheap { count + count / 4 } else { count }, u32::MAX - number)
        };
        let has_room = |needed: &u32| {
            let dependent = self.dependent.get(needed).copied().unwrap_or_default();
            self.max_dependent.is_none_or(|most| dependent.saturating_add(bytes) <= most)
        };
        let is_free = |number: &u32| self.required_blocks(*number).iter().all(has_room);
        let common = common.into_iter().filter(|(number, _)| is_free(number));
        let common = common.filter(|(_, count)| count * MIN_SHARE >= features.len());
        common.max_by_key(|(number, count)| worth(number, *count)).map(|(number, _)| number)
    }
}

/// Returns the distinct features of some bytes, in ascending order.
fn features(bytes: &[u8]) -> Vec<u64> {
    let mut gear = RollingHash::default();
    let mut features: Vec<u64> =
        bytes.iter().map(|byte| gear.roll(*byte)).filter(|hash| hash & FEATURE_MASK == 0).collect();
    features.sort_unstable();
    features.dedup();
    features
}
