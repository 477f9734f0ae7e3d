//! A table of distinct words, numbered in order of insertion and found by a hash of their bytes.
//!
//! Word lookups dominate the time to build an index: a large store has some hundred million of
//! them. A `HashMap` would hash a word twice, for its document and for the posting lists, and
//! allocate for each. This table stores all letters in one string, and callers reuse the hash of a
//! word.

use std::hash::BuildHasher as _;
use std::sync::LazyLock;

use hashbrown::{DefaultHashBuilder, HashTable};

/// Largest capacity that `clear` keeps. Clearing a larger table takes longer than allocating a new
/// one.
const KEPT_WORDS: usize = 1 << 12;

/// The hasher of this process. Its random seed prevents crafted texts whose words all collide. No
/// stored data depends on it.
static HASHER: LazyLock<DefaultHashBuilder> = LazyLock::new(DefaultHashBuilder::default);

/// A table of words, numbered from 0 in order of insertion.
#[derive(Debug, Clone, Default)]
pub(super) struct WordTable {
    /// The words, concatenated.
    letters: String,
    words: Vec<Entry>,
    /// The numbers of the words, keyed by hash.
    numbers: HashTable<u32>,
}

/// A word of a table.
#[derive(Debug, Clone, Copy)]
struct Entry {
    hash: u64,
    start: u32,
    end: u32,
}

/// A word and its hash.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct HashedWord<'w> {
    hash: u64,
    /// The word.
    pub(super) word: &'w str,
}

impl<'w> HashedWord<'w> {
    /// Hashes a word.
    #[inline]
    pub(super) fn new(word: &'w str) -> Self {
        Self { word, hash: HASHER.hash_one(word) }
    }
}

impl WordTable {
    /// Returns the number of a word and inserts the word if it is new. `None` if the table is full.
    pub(super) fn number(&mut self, word: HashedWord<'_>) -> Option<usize> {
        let Self { letters, words, numbers } = self;
        let entry = |number: &u32| words.get(*number as usize);
        let is_word = |number: &u32| entry(number).is_some_and(|entry| entry.word(letters) == word);
        if let Some(number) = numbers.find(word.hash, is_word) {
            return Some(*number as usize);
        }
        let start = u32::try_from(letters.len()).ok()?;
        let end = u32::try_from(letters.len() + word.word.len()).ok()?;
        let number = u32::try_from(words.len()).ok()?;
        letters.push_str(word.word);
        words.push(Entry { hash: word.hash, start, end });
        let hash = |number: &u32| words.get(*number as usize).map_or(0, |entry| entry.hash);
        numbers.insert_unique(word.hash, number, hash);
        Some(number as usize)
    }

    /// Returns the words in the order of their numbers.
    pub(super) fn words(&self) -> impl Iterator<Item = HashedWord<'_>> {
        self.words.iter().map(|entry| entry.word(&self.letters))
    }

    /// Removes all words. Keeps the memory unless the table is large.
    pub(super) fn clear(&mut self) {
        if self.numbers.capacity() > KEPT_WORDS {
            *self = Self::default();
        }
        self.letters.clear();
        self.words.clear();
        self.numbers.clear();
    }
}

impl Entry {
    #[inline]
    fn word<'l>(&self, letters: &'l str) -> HashedWord<'l> {
        let word = letters.get(self.start as usize..self.end as usize).unwrap_or_default();
        HashedWord { word, hash: self.hash }
    }
}

#[cfg(test)]
mod tests {
    use std::collections::HashMap;

    use proptest::prelude::*;

    use super::*;

    turntree_properties::properties! {
        #[test]
        fn words_are_numbered_in_order_of_insertion(
            others in prop::collection::vec("[a-c]{0,12}", 0..300),
            words in prop::collection::vec("[a-c]{0,12}", 0..300),
        ) {
            let mut table = WordTable::default();
            // Words from before `clear` must not affect the table.
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
}
