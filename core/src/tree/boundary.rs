//! Boundaries of nodes: the pinned thresholds, and the chunker state while walking a level.
//!
//! Each entry contributes 32 bits of a digest that its content already has. The entry ends the node
//! if they are below a threshold that rises with the number of entries in the node. The rise keeps
//! node sizes close to their mean (a constant threshold would give a geometric spread). Since only
//! the node's own entries count, two sequences that share a boundary agree from there on.
//!
//! The thresholds are integers of the format, listed in `format-spec/tree.md`. No reader computes
//! them, so no floating point decides an id.

use super::entry::NodeEntry;
use crate::object::{ID_BYTES, key_digest};

/// The shape of a tree. Boundaries of a list depend on the linked ids; those of a map only on its
/// keys, so that a changed value never moves one.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum TreeShape {
    /// A sequence.
    List,
    /// Entries in the order of their keys.
    Map,
}

impl TreeShape {
    /// Maximum number of entries of a node. An unfinished run is always shorter.
    pub(super) const fn max_entries(self) -> usize {
        self.thresholds().len() + 1
    }

    /// Returns the thresholds: index `n - 1` is for the `n`-th entry; past the end every entry ends
    /// the node.
    const fn thresholds(self) -> &'static [u32] {
        match self {
            Self::List => &LIST_THRESHOLDS,
            Self::Map => &MAP_THRESHOLDS,
        }
    }

    /// Returns the digest of an entry that decides boundaries.
    fn digest(self, entry: &NodeEntry) -> [u8; ID_BYTES] {
        match self {
            Self::List => *entry.item.link.id.as_bytes(),
            Self::Map => key_digest(&entry.key),
        }
    }

    /// Returns the 32 bits of the digest for an entry at `level`. Each level uses another word,
    /// because the keys of an inner level are those with a small word one level below.
    fn word(level: usize, digest: &[u8; ID_BYTES]) -> u32 {
        let (words, _) = digest.as_chunks::<4>();
        words.get(level % 8).map_or(0, |word| u32::from_le_bytes(*word))
    }
}

/// The chunker of one level: the fill of the current node.
#[derive(Debug)]
pub(super) struct Boundary {
    shape: TreeShape,
    level: usize,
    filled: usize,
}

impl Boundary {
    /// Creates a chunker at the start of a node of `level`.
    pub(super) fn new(shape: TreeShape, level: usize) -> Self {
        Self { shape, level, filled: 0 }
    }

    /// Adds the next entry to the node; returns true if it is the node's last.
    pub(super) fn ends_with(&mut self, entry: &NodeEntry) -> bool {
        self.ends_after(&self.shape.digest(entry))
    }

    /// Adds an entry by its digest: the id in a list, the digest of the key in a map.
    pub(super) fn ends_after(&mut self, digest: &[u8; ID_BYTES]) -> bool {
        let threshold = self.shape.thresholds().get(self.filled);
        let ends = threshold.is_none_or(|least| TreeShape::word(self.level, digest) < *least);
        self.filled = if ends { 0 } else { self.filled + 1 };
        ends
    }
}

/// 16 entries per node on average, 2 to 64.
const LIST_THRESHOLDS: [u32; 63] = [
    0,
    757_868,
    3_283_131,
    8_833_483,
    18_604_798,
    33_771_503,
    55_473_217,
    84_798_400,
    122_765_350,
    170_301_004,
    228_218_165,
    297_191_887,
    377_735_940,
    470_180_353,
    574_651_162,
    691_053_532,
    819_059_414,
    958_100_851,
    1_107_369_884,
    1_265_825_829,
    1_432_210_379,
    1_605_070_668,
    1_782_790_006,
    1_963_625_590,
    2_145_752_069,
    2_327_309_418,
    2_506_453_278,
    2_681_405_645,
    2_850_503_671,
    3_012_244_353,
    3_165_323_041,
    3_308_663_984,
    3_441_441_564,
    3_563_091_380,
    3_673_310_941,
    3_772_050_297,
    3_859_493_548,
    3_936_032_625,
    4_002_235_141,
    4_058_808_344,
    4_106_561_293,
    4_146_367_309,
    4_179_128_536,
    4_205_744_158,
    4_227_083_373,
    4_243_963_842,
    4_257_135_860,
    4_267_272_125,
    4_274_962_662,
    4_280_714_177,
    4_284_953_026,
    4_288_030_864,
    4_290_232_101,
    4_291_782_352,
    4_292_857_185,
    4_293_590_639,
    4_294_083_116,
    4_294_408_404,
    4_294_619_709,
    4_294_754_665,
    4_294_839_389,
    4_294_891_658,
    4_294_923_337,
];

/// 8 entries per node on average, 2 to 32.
const MAP_THRESHOLDS: [u32; 31] = [
    0,
    13_685_492,
    58_989_636,
    156_978_389,
    324_303_424,
    571_415_548,
    899_852_553,
    1_300_382_339,
    1_752_904_550,
    2_228_703_982,
    2_694_977_690,
    3_120_710_503,
    3_482_313_159,
    3_767_339_707,
    3_975_217_230,
    4_115_023_235,
    4_201_407_246,
    4_250_252_448,
    4_275_423_731,
    4_287_195_367,
    4_292_169_543,
    4_294_060_254,
    4_294_703_805,
    4_294_899_061,
    4_294_951_623,
    4_294_964_119,
    4_294_966_730,
    4_294_967_208,
    4_294_967_284,
    4_294_967_294,
    4_294_967_295,
];

#[cfg(test)]
mod tests {
    use super::*;

    const SPEC: &str = include_str!("../../../format-spec/tree.md");

    #[test]
    fn every_level_takes_another_word_of_the_digest_until_there_are_no_more() {
        let bytes: [u8; 32] = std::array::from_fn(|at| u8::try_from(at).unwrap());
        for level in 0..16 {
            let at = 4 * (level % 8);
            let word = u32::from_le_bytes(bytes[at..at + 4].try_into().unwrap());
            assert_eq!(TreeShape::word(level, &bytes), word, "level {level}");
        }
    }

    #[test]
    fn the_thresholds_are_those_of_the_specification() {
        for (title, shape) in
            [("list thresholds", TreeShape::List), ("map thresholds", TreeShape::Map)]
        {
            let block = SPEC.split(&format!("```text {title}\n")).nth(1).unwrap();
            let printed = block.split("```").next().unwrap().split_whitespace();
            let printed: Vec<u32> = printed.map(|number| number.parse().unwrap()).collect();
            assert_eq!(printed, shape.thresholds(), "{title}");
        }
    }

    #[test]
    fn the_thresholds_follow_the_formula_of_the_specification() {
        for (shape, scale) in [(TreeShape::List, 85_000.0), (TreeShape::Map, 4_700.0)] {
            assert_eq!(shape.thresholds()[0], 0, "one entry never makes a node");
            for (n, threshold) in (1_u32..).zip(shape.thresholds()).skip(1) {
                let rise = f64::from(n).powi(4) - f64::from(n - 1).powi(4);
                let expected = -(-rise / scale).exp_m1() * 4_294_967_296.0;
                assert!((f64::from(*threshold) - expected).abs() <= 1.0, "{shape:?} {n}");
            }
        }
    }
}
