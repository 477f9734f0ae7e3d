//! Verifies many small objects against their ids in parallel, in the SIMD lanes of the processor.
//!
//! BLAKE3 fills the lanes with the 1 KiB pieces of one input, so an input of a few KiB leaves most
//! of them idle: 0.7 GB/s instead of 5 for a large one. This code processes pieces of many inputs
//! in parallel: pieces with the same number of whole blocks and the same index in their inputs. The
//! partial last block of a piece is compressed separately, and the trees over pieces are built
//! level by level.
//!
//! A failed check here refuses nothing: the caller verifies the object again with
//! [`verify`](super::verify). Only objects that pass are accepted, and a property test compares the
//! results with the hashes of `blake3`. The functions used here are undocumented in that crate, so
//! `Cargo.toml` pins the versions known to have them.

use blake3::IncrementCounter;
use blake3::platform::{Platform, words_from_le_bytes_32};

use super::id::kind_key;
use super::{Kind, Object, ObjectId};

/// Bytes of a block and of a piece of an input, as defined by BLAKE3.
const BLOCK_BYTES: usize = 64;
const PIECE_BYTES: usize = 1024;

/// Larger inputs fill the lanes on their own.
const MAX_PIECES: usize = 8;
const MAX_INPUT_BYTES: usize = MAX_PIECES * PIECE_BYTES;

/// Fewer inputs are hashed one by one.
const LEAST_INPUTS: usize = 4;

/// The flags of BLAKE3 for the role of a block.
const FIRST_BLOCK: u8 = 1;
const LAST_BLOCK: u8 = 1 << 1;
const PARENT: u8 = 1 << 2;
const ROOT: u8 = 1 << 3;
const KEYED: u8 = 1 << 4;

/// The initial words of an unkeyed hash.
const NO_KEY: [u32; 8] = [
    0x6a09_e667,
    0xbb67_ae85,
    0x3c6e_f372,
    0xa54f_f53a,
    0x510e_527f,
    0x9b05_688c,
    0x1f83_d9ab,
    0x5be0_cd19,
];

/// The chaining value of a block, or of all blocks of a piece.
type Digest = [u8; 32];

/// Returns for each object true if its bytes certainly hash to its id. Costs a fifth to a third of
/// [`verify`](super::verify) if most objects have up to a few KiB.
pub(crate) fn check_ids(objects: &[(&ObjectId, &Object)]) -> Vec<bool> {
    let mut are_right = vec![false; objects.len()];
    for kind in Kind::ALL {
        let mut inputs = Vec::new();
        let of_kind = objects.iter().zip(&mut are_right).filter(|((_, of), _)| of.kind == kind);
        for ((id, object), is_right) in of_kind {
            match object.bytes.len() <= MAX_INPUT_BYTES {
                true => inputs.push((*id, &*object.bytes, is_right)),
                false => *is_right = ObjectId::of(kind, &object.bytes) == **id,
            }
        }
        if inputs.len() < LEAST_INPUTS {
            for (id, bytes, is_right) in inputs {
                *is_right = ObjectId::of(kind, bytes) == *id;
            }
            continue;
        }
        let all: Vec<&[u8]> = inputs.iter().map(|(_, bytes, _)| *bytes).collect();
        for ((id, _, is_right), found) in inputs.into_iter().zip(HashMode::of(kind).hash_all(&all))
        {
            *is_right = found == *id.as_bytes();
        }
    }
    are_right
}

/// A hash mode.
struct HashMode {
    platform: Platform,
    key: [u32; 8],
    /// The flags of every block.
    flags: u8,
}

/// A piece of an input.
#[derive(Clone, Copy)]
struct Piece<'a> {
    bytes: &'a [u8],
    /// The index of its input, and its index in the input.
    input: usize,
    number: u8,
    /// The flags of its last block.
    last: u8,
}

/// The digests of an input on one level of its tree.
#[derive(Clone, Copy)]
struct TreeLevel {
    digests: [Digest; MAX_PIECES],
    len: usize,
}

impl HashMode {
    fn of(kind: Kind) -> Self {
        let platform = Platform::detect();
        match kind_key(kind) {
            None => Self { platform, key: NO_KEY, flags: 0 },
            Some(key) => Self { platform, key: words_from_le_bytes_32(key), flags: KEYED },
        }
    }

    /// Returns the hashes of inputs of at most [`MAX_INPUT_BYTES`] each.
    fn hash_all(&self, inputs: &[&[u8]]) -> Vec<Digest> {
        let mut pieces = Vec::with_capacity(inputs.len() * 2);
        let mut levels = Vec::with_capacity(inputs.len());
        for (input, bytes) in inputs.iter().enumerate() {
            let len = bytes.len().div_ceil(PIECE_BYTES).max(1);
            let last = if len == 1 { LAST_BLOCK | ROOT } else { LAST_BLOCK };
            let piece = |(number, bytes)| Piece { bytes, input, number, last };
            pieces.extend((0..).zip(bytes.chunks(PIECE_BYTES)).map(piece));
            if bytes.is_empty() {
                pieces.push(piece((0, *bytes)));
            }
            levels.push(TreeLevel { digests: [[0; 32]; MAX_PIECES], len });
        }
        pieces.sort_unstable_by_key(Piece::class);
        for alike in pieces.chunk_by(|a, b| a.class() == b.class()) {
            for (piece, digest) in alike.iter().zip(self.digests(alike)) {
                let level = levels.get_mut(piece.input);
                let slot = level.and_then(|level| level.digests.get_mut(usize::from(piece.number)));
                slot.into_iter().for_each(|slot| *slot = digest);
            }
        }
        while levels.iter().any(|level| level.len > 1) {
            self.join(&mut levels);
        }
        levels.iter().map(|level| level.digests.first().copied().unwrap_or_default()).collect()
    }

    /// Returns the digests of pieces of one class.
    fn digests(&self, alike: &[Piece<'_>]) -> Vec<Digest> {
        let whole = alike.first().map_or(0, |piece| piece.bytes.len() / BLOCK_BYTES);
        let blocks = match whole {
            0 => return alike.iter().map(|piece| self.finish(piece, self.key)).collect(),
            1 => self.digest_blocks::<BLOCK_BYTES>(alike),
            2 => self.digest_blocks::<{ 2 * BLOCK_BYTES }>(alike),
            3 => self.digest_blocks::<{ 3 * BLOCK_BYTES }>(alike),
            4 => self.digest_blocks::<{ 4 * BLOCK_BYTES }>(alike),
            5 => self.digest_blocks::<{ 5 * BLOCK_BYTES }>(alike),
            6 => self.digest_blocks::<{ 6 * BLOCK_BYTES }>(alike),
            7 => self.digest_blocks::<{ 7 * BLOCK_BYTES }>(alike),
            8 => self.digest_blocks::<{ 8 * BLOCK_BYTES }>(alike),
            9 => self.digest_blocks::<{ 9 * BLOCK_BYTES }>(alike),
            10 => self.digest_blocks::<{ 10 * BLOCK_BYTES }>(alike),
            11 => self.digest_blocks::<{ 11 * BLOCK_BYTES }>(alike),
            12 => self.digest_blocks::<{ 12 * BLOCK_BYTES }>(alike),
            13 => self.digest_blocks::<{ 13 * BLOCK_BYTES }>(alike),
            14 => self.digest_blocks::<{ 14 * BLOCK_BYTES }>(alike),
            15 => self.digest_blocks::<{ 15 * BLOCK_BYTES }>(alike),
            _ => self.digest_blocks::<PIECE_BYTES>(alike),
        };
        let finished = |(piece, digest): (&Piece<'_>, Digest)| match piece.is_whole() {
            true => digest,
            false => self.finish(piece, words_from_le_bytes_32(&digest)),
        };
        alike.iter().zip(blocks).map(finished).collect()
    }

    /// Returns the digests of the first `N` bytes, which are whole blocks, of pieces of one class.
    fn digest_blocks<const N: usize>(&self, alike: &[Piece<'_>]) -> Vec<Digest> {
        let inputs: Vec<&[u8; N]> =
            alike.iter().filter_map(|piece| piece.bytes.first_chunk()).collect();
        let (number, last) = alike
            .first()
            .map_or((0, 0), |piece| (piece.number, if piece.is_whole() { piece.last } else { 0 }));
        self.many(&inputs, number.into(), [self.flags, FIRST_BLOCK, last])
    }

    fn many<const N: usize>(
        &self,
        inputs: &[&[u8; N]],
        number: u64,
        flags: [u8; 3],
    ) -> Vec<Digest> {
        let mut digests = vec![[0; 32]; inputs.len()];
        let ([all, first, last], no) = (flags, IncrementCounter::No);
        let out = digests.as_flattened_mut();
        self.platform.hash_many(inputs, &self.key, number, no, all, first, last, out);
        digests
    }

    /// Returns the digest of a piece, from the chaining value of its whole blocks and its partial
    /// last block.
    fn finish(&self, piece: &Piece<'_>, mut words: [u32; 8]) -> Digest {
        let start = piece.bytes.len() / BLOCK_BYTES * BLOCK_BYTES;
        let rest = piece.bytes.get(start..).unwrap_or_default();
        let mut block = [0; BLOCK_BYTES];
        block.iter_mut().zip(rest).for_each(|(to, from)| *to = *from);
        let first = if start == 0 { FIRST_BLOCK } else { 0 };
        // Less than a block.
        let len = u8::try_from(rest.len()).unwrap_or_default();
        let flags = self.flags | first | piece.last;
        self.platform.compress_in_place(&mut words, &block, len, piece.number.into(), flags);
        let mut digest = Digest::default();
        for (to, word) in digest.as_chunks_mut::<4>().0.iter_mut().zip(words) {
            *to = word.to_le_bytes();
        }
        digest
    }

    /// Builds the next level of each tree that is not at its root: joins neighbours, and moves a
    /// last odd one up unchanged.
    fn join(&self, levels: &mut [TreeLevel]) {
        for root in [0, ROOT] {
            let is_meant = |level: &TreeLevel| level.len > 1 && (level.len == 2) == (root == ROOT);
            let meant = levels.iter().filter(|level| is_meant(level));
            let pairs =
                meant.flat_map(|level| level.digests.as_chunks::<2>().0.iter().take(level.len / 2));
            let pairs: Vec<&[u8; BLOCK_BYTES]> =
                pairs.filter_map(|pair| pair.as_flattened().first_chunk()).collect();
            let parents = self.many(&pairs, 0, [self.flags | PARENT | root, 0, 0]);
            let mut parents = parents.into_iter();
            for level in levels.iter_mut().filter(|level| is_meant(level)) {
                let odd = level.digests.get(level.len - 1).copied().filter(|_| level.len % 2 == 1);
                let joined = parents.by_ref().take(level.len / 2).chain(odd);
                level.digests.iter_mut().zip(joined).for_each(|(to, digest)| *to = digest);
                level.len = level.len.div_ceil(2);
            }
        }
    }
}

impl Piece<'_> {
    /// Returns true if all of its blocks are whole.
    fn is_whole(&self) -> bool {
        !self.bytes.is_empty() && self.bytes.len().is_multiple_of(BLOCK_BYTES)
    }

    /// Returns the class of a piece. Pieces of one class are hashed in parallel: they have the same
    /// number of whole blocks, with or without a partial one, the same index in their inputs, and
    /// the same flags.
    fn class(&self) -> (usize, bool, u8, u8) {
        (self.bytes.len() / BLOCK_BYTES, self.is_whole(), self.number, self.last)
    }
}

#[cfg(test)]
mod tests {
    use bytes::Bytes;
    use proptest::prelude::*;

    use super::*;
    use crate::object::verify;

    /// Returns bytes without a short period.
    fn bytes(len: usize, seed: u64) -> Bytes {
        let mut state = seed | 1;
        let mut byte = || {
            state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
            state.to_le_bytes()[7]
        };
        (0..len).map(|_| byte()).collect()
    }

    fn right(objects: &[(ObjectId, Object)]) -> Vec<bool> {
        check_ids(&objects.iter().map(|(id, object)| (id, object)).collect::<Vec<_>>())
    }

    fn object(kind: Kind, bytes: Bytes) -> (ObjectId, Object) {
        (ObjectId::of(kind, &bytes), Object { kind, bytes })
    }

    #[test]
    fn inputs_of_every_length_hash_as_blake3_hashes_them() {
        let lengths = (0..2200).chain((2200..=MAX_INPUT_BYTES + 70).step_by(13));
        let all = lengths.chain((2..=9).flat_map(|pieces| pieces * 1024 - 1..=pieces * 1024 + 1));
        let objects: Vec<_> = all.map(|len| object(Kind::Blob, bytes(len, len as u64))).collect();
        assert!(right(&objects).iter().all(|is_right| *is_right));
        for alone in objects.iter().step_by(9) {
            let hash = HashMode::of(Kind::Blob).hash_all(&[&alone.1.bytes]);
            if alone.1.bytes.len() <= MAX_INPUT_BYTES {
                assert_eq!(hash, [*alone.0.as_bytes()]);
            }
        }
    }

    turntree_properties::properties! {
        #[test]
        fn right_is_what_verifies(
            parts in prop::collection::vec((0..9000_usize, 0..5_usize, 0..20_usize, any::<u64>()), 0..40),
        ) {
            let mut objects: Vec<_> = parts
                .iter()
                .map(|(len, kind, _, seed)| object(Kind::ALL[*kind], bytes(*len, *seed)))
                .collect();
            for ((id, object), (_, kind, change, seed)) in objects.iter_mut().zip(&parts) {
                let mut changed = object.bytes.to_vec();
                let at = usize::try_from(*seed % changed.len().max(1) as u64).unwrap();
                match change {
                    0 if !changed.is_empty() => changed[at] ^= 1 << (seed % 8),
                    1 => changed.push(0),
                    2 => drop(changed.pop()),
                    3 => object.kind = Kind::ALL[(kind + 1) % 5],
                    4 => *id = ObjectId::of(object.kind, b"another"),
                    _ => {}
                }
                object.bytes = changed.into();
            }
            let expected: Vec<bool> = objects
                .iter()
                .map(|(id, object)| verify(object.kind, &object.bytes, id).is_ok())
                .collect();
            prop_assert_eq!(right(&objects), expected);
        }
    }
}
