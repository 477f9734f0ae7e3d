//! The words that an index knows.

use rusqlite::Connection;

use super::IndexResult;
use super::measures::Measures;
use super::postings::each_posting;
use super::segments::{bytes_of_segments, each_list};

/// Up to this size of all posting lists, in bytes, near spellings are sought among all words. Above
/// it, they begin with the same letter, or with the first two letters swapped.
const SCANNED_BYTES: i64 = 4 << 20;

/// The words of an index.
pub(in crate::search) struct Dictionary<'c> {
    view: &'c Connection,
    scans_all: bool,
}

/// A word of one segment of an index.
#[derive(Clone, Copy)]
pub(in crate::search) struct KnownWord<'l> {
    pub(in crate::search) word: &'l str,
    list: &'l [u8],
}

impl KnownWord<'_> {
    /// Returns the number of documents of the segment that have the word, dropped ones included.
    pub(in crate::search) fn count(&self) -> u64 {
        count(self.list)
    }
}

impl<'c> Dictionary<'c> {
    pub(super) fn of(view: &'c Connection) -> IndexResult<Self> {
        Ok(Self { view, scans_all: bytes_of_segments(view)? <= SCANNED_BYTES })
    }

    /// Returns the number of documents that have a word, or a word with this prefix. Dropped
    /// documents may be included, and several words of a document count several times.
    pub(in crate::search) fn count(&self, word: &str, is_prefix: bool) -> IndexResult<u64> {
        let mut all = 0;
        each_list(self.view, word, is_prefix, &mut |_, list| {
            all += count(list);
            Some(())
        })?;
        Ok(all)
    }

    /// Calls `each` with the words that begin with `prefix`, once for each segment.
    pub(in crate::search) fn each_with_prefix(
        &self,
        prefix: &str,
        each: &mut dyn FnMut(KnownWord<'_>),
    ) -> IndexResult<()> {
        each_list(self.view, prefix, true, &mut |word, list| {
            each(KnownWord { word: std::str::from_utf8(word).ok()?, list });
            Some(())
        })
    }

    /// Calls `each` with the words that may be spelled nearly like `word`.
    pub(in crate::search) fn each_near(
        &self,
        word: &str,
        each: &mut dyn FnMut(KnownWord<'_>),
    ) -> IndexResult<()> {
        if self.scans_all {
            return self.each_with_prefix("", each);
        }
        let mut chars = word.chars();
        let (Some(first), Some(second)) = (chars.next(), chars.next()) else { return Ok(()) };
        self.each_with_prefix(first.encode_utf8(&mut [0; 4]), each)?;
        if first == second {
            return Ok(());
        }
        self.each_with_prefix(&[second, first].iter().collect::<String>(), each)
    }
}

/// The documents that have a word, with the step of its count.
pub(super) fn documents_with(
    view: &Connection,
    word: &str,
    is_prefix: bool,
    measures: &mut Measures<'_>,
) -> IndexResult<Vec<(u32, u8)>> {
    let mut found = Vec::new();
    let len = measures.len();
    each_list(view, word, is_prefix, &mut |_, list| {
        let mut is_whole = true;
        each_posting(list, |document, step| {
            is_whole &= document < len;
            found.push((document, if is_prefix { 0 } else { step }));
        })?;
        is_whole.then_some(())
    })?;
    if is_prefix {
        found.sort_unstable();
        found.dedup();
    }
    let mut failed = None;
    found.retain(|(document, _)| match measures.get(*document) {
        Ok(measure) => measure.words > 0,
        Err(trouble) => {
            failed = Some(trouble);
            false
        }
    });
    failed.map_or(Ok(found), Err)
}

fn count(list: &[u8]) -> u64 {
    let mut count = 0;
    // The search reads the list again and reports the damage.
    let _ = each_posting(list, |_, _| count += 1);
    count
}
