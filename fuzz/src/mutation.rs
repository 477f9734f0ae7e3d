//! Mutates corpus files, from a seed: flips, cuts, inserts, repeats and splices.

use turntree_tests::sim::Random;

/// Bytes with a meaning in some format: ends, quotes, brackets, separators, limits.
const TELLING: &[u8] = b"\0\x01\x7f\x80\xff\n\r\t \"\\/{}[]:,.~^@-09aA\xc3\xed";

/// Maximum bytes of a mutated input.
const MAX_BYTES: usize = 16 << 10;

/// Returns a changed copy of `seed`, sometimes with a part of `other`.
#[must_use]
pub fn mutated(seed: &[u8], other: &[u8], random: &mut Random) -> Vec<u8> {
    let mut bytes = seed.to_vec();
    for _ in 0..=random.below(4) {
        mutate(&mut bytes, other, random);
    }
    bytes.truncate(MAX_BYTES);
    bytes
}

fn mutate(bytes: &mut Vec<u8>, other: &[u8], random: &mut Random) {
    let at = random.below(bytes.len() + 1);
    let end = at + random.below((bytes.len() - at).min(32) + 1);
    match random.below(8) {
        0 | 1 => {
            if let Some(byte) = bytes.get_mut(at) {
                *byte ^= 1 << random.below(8);
            }
        }
        2 => {
            if let Some(byte) = bytes.get_mut(at) {
                *byte = TELLING[random.below(TELLING.len())];
            }
        }
        3 => bytes.truncate(at),
        4 => drop(bytes.drain(at..end)),
        5 => {
            let count = 1 + random.below(4);
            let new: Vec<u8> = (0..count).map(|_| TELLING[random.below(TELLING.len())]).collect();
            bytes.splice(at..at, new);
        }
        6 => {
            let part = bytes[at..end].to_vec();
            let to = random.below(bytes.len() + 1);
            bytes.splice(to..to, part);
        }
        _ => {
            let start = random.below(other.len() + 1);
            let len = random.below((other.len() - start).min(256) + 1);
            bytes.splice(at..end, other[start..start + len].iter().copied());
        }
    }
}
