//! Postings: the documents that have a word, each with the step of the word's count, as bytes.
//!
//! A posting is one variable-length number: the distance from the previous document times the
//! number of steps, plus the step. It takes one byte if the documents are near. A block holds
//! sorted words, each without the prefix that it shares with the previous word, and their lists.

use std::ops::Range;

use crate::search::word_table::{HashedWord, WordTable};

/// A block of this size, in bytes, takes no further word.
const BLOCK_BYTES: usize = 32 << 10;

/// The number of steps.
const STEPS: u64 = 5;

/// Approximate memory of a word without its letters and its list, in bytes.
const WORD_BYTES: usize = 96;

/// The posting lists of some documents, in memory.
#[derive(Debug, Default)]
pub(super) struct PostingLists {
    words: WordTable,
    /// The lists, indexed by word number.
    lists: Vec<PostingList>,
    bytes: usize,
}

/// The documents that have a word.
#[derive(Debug, Default)]
pub(super) struct PostingList {
    bytes: Vec<u8>,
    last: u32,
}

/// A block under construction.
#[derive(Debug, Default)]
pub(super) struct BlockWriter {
    first: Vec<u8>,
    last: Vec<u8>,
    bytes: Vec<u8>,
}

impl PostingLists {
    /// Adds a document with its words and the step of each. Documents must be added in ascending
    /// order.
    pub(super) fn add<'w>(
        &mut self,
        document: u32,
        words: impl Iterator<Item = (HashedWord<'w>, u8)>,
    ) {
        for (word, step) in words {
            let Some(number) = self.words.number(word) else { continue };
            if number == self.lists.len() {
                self.bytes += word.word.len() + WORD_BYTES;
                self.lists.push(PostingList::default());
            }
            let Some(list) = self.lists.get_mut(number) else { continue };
            let before = list.bytes.len();
            list.push(document, step);
            self.bytes += list.bytes.len() - before;
        }
    }

    /// Returns the approximate memory of the lists, in bytes.
    pub(super) const fn bytes(&self) -> usize {
        self.bytes
    }

    pub(super) fn is_empty(&self) -> bool {
        self.lists.is_empty()
    }

    /// Returns the words with their lists, sorted by word.
    pub(super) fn sorted(&self) -> Vec<(&str, &PostingList)> {
        let words = self.words.words().map(|hashed| hashed.word);
        let mut lists: Vec<_> = words.zip(&self.lists).collect();
        lists.sort_unstable_by_key(|(word, _)| *word);
        lists
    }
}

impl PostingList {
    /// Adds a document. Documents must be added in ascending order.
    pub(super) fn push(&mut self, document: u32, step: u8) {
        let distance = u64::from(document.saturating_sub(self.last));
        put_number(&mut self.bytes, distance * STEPS + u64::from(step).min(STEPS - 1));
        self.last = document;
    }

    pub(super) fn bytes(&self) -> &[u8] {
        &self.bytes
    }

    pub(super) fn clear(&mut self) {
        self.bytes.clear();
        self.last = 0;
    }
}

/// Calls `each` with the documents of a list and their steps. Returns `None` if the list is
/// damaged.
pub(super) fn each_posting(mut list: &[u8], mut each: impl FnMut(u32, u8)) -> Option<()> {
    let mut document = 0_u32;
    while !list.is_empty() {
        let code = take_number(&mut list)?;
        document = document.checked_add(u32::try_from(code / STEPS).ok()?)?;
        each(document, u8::try_from(code % STEPS).ok()?);
    }
    Some(())
}

impl BlockWriter {
    /// Adds a word and its list. Words must be added in ascending order.
    pub(super) fn push(&mut self, word: &[u8], list: &[u8]) {
        if self.bytes.is_empty() {
            self.first = word.to_vec();
            self.last.clear();
        }
        let shared = word.iter().zip(&self.last).take_while(|(one, other)| one == other).count();
        let rest = word.get(shared..).unwrap_or_default();
        put_number(&mut self.bytes, shared as u64);
        put_number(&mut self.bytes, rest.len() as u64);
        self.bytes.extend_from_slice(rest);
        put_number(&mut self.bytes, list.len() as u64);
        self.bytes.extend_from_slice(list);
        self.last = word.to_vec();
    }

    pub(super) const fn is_full(&self) -> bool {
        self.bytes.len() >= BLOCK_BYTES
    }

    /// Returns the first word and the bytes of the block and starts a new one. `None` if the block
    /// is empty.
    pub(super) fn take(&mut self) -> Option<(Vec<u8>, Vec<u8>)> {
        let bytes = std::mem::take(&mut self.bytes);
        (!bytes.is_empty()).then(|| (std::mem::take(&mut self.first), bytes))
    }
}

/// Reads the word at `at` into `word`, which must hold the previous word, and moves `at` to the
/// next word. Returns the range of its list, or `None` if the block is damaged.
pub(super) fn word_at(block: &[u8], at: &mut usize, word: &mut Vec<u8>) -> Option<Range<usize>> {
    let mut left = block.get(*at..)?;
    let shared = usize::try_from(take_number(&mut left)?).ok()?;
    let rest = usize::try_from(take_number(&mut left)?).ok()?;
    let (rest, mut left) = left.split_at_checked(rest)?;
    if shared > word.len() {
        return None;
    }
    word.truncate(shared);
    word.extend_from_slice(rest);
    let length = usize::try_from(take_number(&mut left)?).ok()?;
    let start = block.len() - left.len();
    let end = start.checked_add(length).filter(|end| *end <= block.len())?;
    *at = end;
    Some(start..end)
}

fn put_number(bytes: &mut Vec<u8>, mut number: u64) {
    while let Some(more) = Some(number >> 7).filter(|more| *more > 0) {
        bytes.push(number.to_le_bytes()[0] | 0x80);
        number = more;
    }
    bytes.push(number.to_le_bytes()[0]);
}

fn take_number(bytes: &mut &[u8]) -> Option<u64> {
    let (mut number, mut shift) = (0_u64, 0_u32);
    loop {
        let (byte, rest) = bytes.split_first()?;
        *bytes = rest;
        number |= u64::from(byte & 0x7f) << shift;
        if byte & 0x80 == 0 {
            return Some(number);
        }
        shift += 7;
        if shift > 56 {
            return None;
        }
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use proptest::prelude::*;

    use super::*;

    fn documents(list: &[u8]) -> Option<Vec<(u32, u8)>> {
        let mut found = Vec::new();
        each_posting(list, |document, step| found.push((document, step)))?;
        Some(found)
    }

    turntree_properties::properties! {
        #[test]
        fn posting_lists_round_trip(
            words in prop::collection::btree_map(
                "[a-c]{1,6}",
                prop::collection::btree_map(any::<u32>(), 0_u8..5, 0..20),
                1..20,
            ),
        ) {
            let mut block = BlockWriter::default();
            for (word, documents) in &words {
                let mut list = PostingList::default();
                documents.iter().for_each(|(document, step)| list.push(*document, *step));
                block.push(word.as_bytes(), list.bytes());
            }
            let (first, bytes) = block.take().unwrap();
            prop_assert_eq!(&first, words.keys().next().unwrap().as_bytes());
            let (mut at, mut word, mut found) = (0, Vec::new(), BTreeMap::new());
            while at < bytes.len() {
                let list = word_at(&bytes, &mut at, &mut word).unwrap();
                let documents = documents(&bytes[list]).unwrap().into_iter().collect();
                found.insert(String::from_utf8(word.clone()).unwrap(), documents);
            }
            prop_assert_eq!(found, words);
        }

        #[test]
        fn damaged_postings_do_not_panic(bytes in prop::collection::vec(any::<u8>(), 0..60)) {
            documents(&bytes);
            let (mut at, mut word) = (0, Vec::new());
            while at < bytes.len() && word_at(&bytes, &mut at, &mut word).is_some() {}
        }
    }
}
