//! A table of words: each once, with a number, found by a hash of its bytes.
//!
//! To fill an index is mostly to look up words, some hundred million of them in a large store. A table of the
//! standard library hashes each twice, with a function made for keys of any length, and allocates for each. Here the
//! letters lie in one piece, and a word is hashed once for its document and for the lists. The hash has a key of the
//! process, as that of the standard library has, so nobody can write words that all have the same.

use std::collections::HashMap;
use std::hash::BuildHasher as _;
use std::sync::LazyLock;

/// Odd bits in no order, as they are usual to mix with.
const MIX: u64 = 0x9e37_79b9_7f4a_7c15;

/// Slots of the first table that is made.
const FIRST_SLOTS: usize = 64;

/// Slots of a table that keeps its memory: those of a document of a megabyte or so.
const KEPT_SLOTS: usize = 1 << 18;

/// The key of the hashes of this process, which is that of a table of the standard library. Nothing that is kept follows
/// from it.
static KEY: LazyLock<u64> = LazyLock::new(|| HashMap::<u8, u8>::new().hasher().hash_one(MIX));

/// Words with their numbers, which are given in the order in which they come, from 0.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct WordTable {
    /// The words, one behind the other.
    letters: String,
    words: Vec<Entry>,
    /// One more than the number of the word that lies here, at its hash or behind it; 0 where none does. A power of
    /// two of them, at most half of them taken.
    slots: Vec<u32>,
}

/// A word of a table.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Entry {
    hash: u64,
    start: u32,
    end: u32,
}

/// A word and its hash.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct HashedWord<'w> {
    /// The word.
    pub(super) word: &'w str,
    hash: u64,
}

impl<'w> HashedWord<'w> {
    /// Hashes a word.
    #[inline]
    pub(super) fn new(word: &'w str) -> Self {
        // Far apart for lengths that are near: else a longer word could stand for a shorter one.
        let length = (word.len() as u64).wrapping_mul(MIX);
        let (mut hash, mut rest) = (*KEY ^ length, word.as_bytes());
        while let Some((eight, behind)) = rest.split_first_chunk::<8>() {
            hash = mixed(hash ^ u64::from_le_bytes(*eight), MIX);
            rest = behind;
        }
        Self { word, hash: mixed(hash ^ number_of(rest), *KEY | 1) }
    }
}

impl WordTable {
    /// Returns the number of a word, which gets one if it has none; nothing when the table is full.
    pub(super) fn number(&mut self, word: HashedWord<'_>) -> Option<usize> {
        if self.slots.len() < (self.words.len() + 1) * 2 {
            self.grow();
        }
        let mut at = self.first_slot(word.hash);
        loop {
            let slot = self.slots.get(at).copied()?;
            let Some(number) = slot.checked_sub(1) else { break };
            let entry = self.words.get(number as usize)?;
            if entry.hash == word.hash && self.letters_of(entry) == word.word {
                return Some(number as usize);
            }
            at = self.next_slot(at);
        }
        let start = u32::try_from(self.letters.len()).ok()?;
        let end = u32::try_from(self.letters.len() + word.word.len()).ok()?;
        *self.slots.get_mut(at)? = u32::try_from(self.words.len() + 1).ok()?;
        self.letters.push_str(word.word);
        self.words.push(Entry { hash: word.hash, start, end });
        Some(self.words.len() - 1)
    }

    /// The words in the order of their numbers.
    pub(super) fn words(&self) -> impl Iterator<Item = HashedWord<'_>> {
        self.words.iter().map(|entry| HashedWord { word: self.letters_of(entry), hash: entry.hash })
    }

    /// Forgets all words, and keeps the memory unless it is much.
    pub(super) fn clear(&mut self) {
        if self.slots.len() > KEPT_SLOTS {
            *self = Self::default();
        }
        let words = std::mem::take(&mut self.words);
        for entry in &words {
            // Whatever lies at the hash of a word or behind it, up to a free slot, goes with it or with others.
            let mut at = self.first_slot(entry.hash);
            while let Some(slot) = self.slots.get_mut(at).filter(|slot| **slot != 0) {
                *slot = 0;
                at = self.next_slot(at);
            }
        }
        self.letters.clear();
        self.words = words;
        self.words.clear();
    }

    #[inline]
    fn letters_of(&self, entry: &Entry) -> &str {
        self.letters.get(entry.start as usize..entry.end as usize).unwrap_or_default()
    }

    #[expect(clippy::cast_possible_truncation, reason = "of a hash any bits will do")]
    #[inline]
    const fn first_slot(&self, hash: u64) -> usize {
        hash as usize & (self.slots.len() - 1)
    }

    #[inline]
    const fn next_slot(&self, slot: usize) -> usize {
        (slot + 1) & (self.slots.len() - 1)
    }

    /// Makes twice as many slots, and puts the words there.
    fn grow(&mut self) {
        self.slots = vec![0; (self.slots.len() * 2).max(FIRST_SLOTS)];
        for (number, entry) in (1..).zip(&self.words) {
            let mut at = self.first_slot(entry.hash);
            while self.slots.get(at).is_some_and(|slot| *slot != 0) {
                at = self.next_slot(at);
            }
            if let Some(slot) = self.slots.get_mut(at) {
                *slot = number;
            }
        }
    }
}

/// Both halves of a product, one over the other.
#[inline]
fn mixed(one: u64, other: u64) -> u64 {
    let product = u128::from(one) * u128::from(other);
    let bytes = product.to_le_bytes();
    let half = |bytes: Option<&[u8; 8]>| bytes.map_or(0, |bytes| u64::from_le_bytes(*bytes));
    half(bytes.first_chunk()) ^ half(bytes.last_chunk())
}

/// The number that less than eight bytes are, another one for others of the same length.
#[inline]
fn number_of(bytes: &[u8]) -> u64 {
    let four = |bytes: &[u8; 4]| u64::from(u32::from_le_bytes(*bytes));
    match (bytes.first_chunk::<4>(), bytes.last_chunk::<4>()) {
        (Some(first), Some(last)) => four(first) | four(last) << 32,
        _ => bytes.iter().fold(0, |number, byte| number << 8 | u64::from(*byte)),
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    turntree_properties::properties! {
        #[test]
        fn each_word_has_the_number_of_its_first_time(
            others in prop::collection::vec("[a-c]{0,12}", 0..300),
            words in prop::collection::vec("[a-c]{0,12}", 0..300),
        ) {
            let mut table = WordTable::default();
            // What was there before leaves nothing behind.
            for word in others {
                table.number(HashedWord::new(&word));
            }
            table.clear();
            let mut expected: HashMap<&str, usize> = HashMap::new();
            for word in &words {
                let next = expected.len();
                let number = *expected.entry(word).or_insert(next);
                prop_assert_eq!(table.number(HashedWord::new(word)), Some(number));
            }
            prop_assert_eq!(table.words().count(), expected.len());
            for (number, word) in table.words().enumerate() {
                prop_assert_eq!(expected.get(word.word), Some(&number));
                prop_assert_eq!(word, HashedWord::new(word.word));
            }
        }
    }

    #[test]
    fn words_that_are_nearly_the_same_have_hashes_of_their_own() {
        let words = (0..100_000_u32).flat_map(|n| [format!("{n}"), format!("a{n:031}")]);
        let mut hashes: Vec<u64> = words.map(|word| HashedWord::new(&word).hash).collect();
        let count = hashes.len();
        hashes.sort_unstable();
        hashes.dedup();
        assert_eq!(hashes.len(), count);
    }
}
