//! Cuts large blobs into parts at content-defined positions, so that two versions share most parts.
//!
//! A gear hash rolls over the last 64 bytes; a part ends where its highest bits are zero. More bits
//! must be zero before the mean length than after it, which keeps lengths close to it. Readers do
//! not depend on the positions of the cuts.

use std::sync::LazyLock;

use crate::object::Checksum;

/// Least size of a blob that is stored in parts. A smaller one is a normal block, and its versions
/// are compressed with the newest as their base, which takes less.
pub(in crate::store::pack) const MIN_CUT_BYTES: usize = 4 << 20;

const MIN_PART_BYTES: usize = 128 << 10;
const MEAN_PART_BYTES: usize = 512 << 10;
const MAX_PART_BYTES: usize = 2 << 20;

/// Bits that must be zero at the end of a part, before and after the mean length.
const EARLY_MASK: u64 = !0 << (64 - 21);
const LATE_MASK: u64 = !0 << (64 - 17);

/// The contribution of each byte to the hash.
static GEAR: LazyLock<[u64; 256]> = LazyLock::new(|| {
    let mut gear = [0; 256];
    for (byte, word) in (0..=u8::MAX).zip(&mut gear) {
        let digest = Checksum::new("turntree v1 gear").update(&[byte]).finish();
        *word = digest.first_chunk().map_or(0, |first| u64::from_le_bytes(*first));
    }
    gear
});

/// A rolling hash of the last 64 bytes.
#[derive(Debug, Default)]
pub(in crate::store::pack) struct RollingHash(u64);

impl RollingHash {
    pub(in crate::store::pack) fn roll(&mut self, byte: u8) -> u64 {
        let word = GEAR.get(usize::from(byte)).copied().unwrap_or(0);
        self.0 = (self.0 << 1).wrapping_add(word);
        self.0
    }
}

/// Returns the parts of a blob, in order.
pub(in crate::store::pack) fn parts(mut blob: &[u8]) -> impl Iterator<Item = &[u8]> {
    std::iter::from_fn(move || {
        let (part, rest) = blob.split_at(cut(blob));
        blob = rest;
        Some(part).filter(|part| !part.is_empty())
    })
}

/// Returns the length of the first part.
fn cut(blob: &[u8]) -> usize {
    let mut gear = RollingHash::default();
    let end = blob.len().min(MAX_PART_BYTES);
    for (at, byte) in blob.iter().enumerate().take(end).skip(MIN_PART_BYTES) {
        let hash = gear.roll(*byte);
        let mask = if at < MEAN_PART_BYTES { EARLY_MASK } else { LATE_MASK };
        if hash & mask == 0 {
            return at + 1;
        }
    }
    end
}

#[cfg(test)]
mod tests {
    use std::collections::HashSet;

    use super::*;
    use crate::store::pack::tests::round_trip::noise;

    #[test]
    fn parts_are_the_blob_and_a_change_touches_one_or_two() {
        let blob = noise(1, 6 << 20);
        let all: Vec<&[u8]> = parts(&blob).collect();
        assert_eq!(all.concat(), blob);
        let (last, whole) = all.split_last().unwrap();
        let sizes = MIN_PART_BYTES..=MAX_PART_BYTES;
        assert!(whole.iter().all(|part| sizes.contains(&part.len())));
        assert!((1..=MAX_PART_BYTES).contains(&last.len()));
        assert!((6..=24).contains(&all.len()), "{} parts", all.len());

        let mut changed = blob.clone();
        changed.splice(3_000_000..3_000_005, *b"another text");
        let known: HashSet<&[u8]> = all.into_iter().collect();
        assert!(parts(&changed).filter(|part| !known.contains(part)).count() <= 2);
        assert_eq!(parts(b"").count(), 0);
    }
}
