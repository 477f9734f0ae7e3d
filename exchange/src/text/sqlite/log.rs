//! The write-ahead log of an SQLite database: commits that are not in the database file yet.
//!
//! ```text
//! 0    magic 0x377f0682 or ..83   checksums over little-endian or big-endian words
//! 4    version 3007000
//! 8    page size
//! 12   number of the checkpoint
//! 16   salt, 8 bytes
//! 24   checksum of the 24 bytes before, 2 words
//! 32   frames: page, pages of the database if it commits, salt, checksum (24 bytes); the page
//! ```
//!
//! All numbers are big-endian (SQLite, file format, section 4). A frame is valid if it has the salt
//! of the header, its checksum continues the one of the previous frame, and it commits or a later
//! frame does.

use std::collections::HashMap;
use std::io;

use turntree::error::{Error, Result};

use super::source::Source;

const MAGIC: u32 = 0x377f_0682;
const VERSION: u32 = 3_007_000;
pub(super) const HEADER_BYTES: usize = 32;
const FRAME_BYTES: usize = 24;
const MIN_PAGE_BYTES: usize = 512;
const MAX_PAGE_BYTES: usize = 65536;

/// The positions of the pages that a log has committed.
#[derive(Debug)]
pub(super) struct WriteAheadLog {
    /// Size of a page in bytes.
    pub(super) page_bytes: u64,
    /// Number of pages in the database, including the log.
    pub(super) pages: u64,
    /// The offset of the newest copy of each page in the log. Page numbers start at 1.
    pub(super) newest: HashMap<u32, u64>,
}

impl WriteAheadLog {
    /// Reads the pages that `log` has committed over a database of `database_bytes` bytes. `None`
    /// for a log with an incomplete start. Memory: some bytes for each page.
    ///
    /// # Errors
    /// `InvalidInput` for a log of another database, `Io` if it is unreadable.
    pub(super) fn read(log: &Source, database_bytes: u64) -> Result<Option<Self>> {
        let failed = |error| Error::io("read the log next to the database", error);
        let mut head = [0; HEADER_BYTES];
        let whole = log.fill_at(0, &mut head).map_err(failed)?;
        let Some(header) = Header::of(&head).filter(|_| whole) else { return Ok(None) };
        let Some((newest, last, frames)) = header.read_committed(log).map_err(failed)? else {
            return Ok(None);
        };
        let (page_bytes, pages) = (header.page_bytes as u64, u64::from(last));
        if pages > database_bytes / page_bytes + frames {
            let message = "the log next to the database names more pages than exist";
            return Err(Error::invalid(message));
        }
        Ok(Some(Self { page_bytes, pages, newest }))
    }
}

struct Header {
    big_endian: bool,
    page_bytes: usize,
    salt: [u8; 8],
    sum: (u32, u32),
}

/// The newest position of each page, the number of pages in the database, and the number of
/// committed frames.
type CommittedPages = (HashMap<u32, u64>, u32, u64);

impl Header {
    fn of(log: &[u8]) -> Option<Self> {
        let (magic, version) = (word(log, 0)?, word(log, 4)?);
        let page_bytes = word(log, 8)? as usize;
        let is_page =
            page_bytes.is_power_of_two() && (MIN_PAGE_BYTES..=MAX_PAGE_BYTES).contains(&page_bytes);
        if magic & !1 != MAGIC || version != VERSION || !is_page {
            return None;
        }
        let big_endian = magic & 1 == 1;
        let sum = checksum((0, 0), log.get(..24)?, big_endian);
        let salt = log.get(16..24)?.try_into().ok()?;
        let recorded = (word(log, 24)?, word(log, 28)?);
        (sum == recorded).then_some(Self { big_endian, page_bytes, salt, sum })
    }

    /// Reads all frames up to the last one that commits.
    fn read_committed(&self, log: &Source) -> io::Result<Option<CommittedPages>> {
        let mut frame = vec![0; FRAME_BYTES + self.page_bytes];
        let (mut at, mut sum) = (HEADER_BYTES as u64, self.sum);
        let (mut newest, mut pending) = (HashMap::new(), Vec::new());
        let (mut frames, mut last) = (0, None);
        while log.fill_at(at, &mut frame)? {
            let Some((page, pages, next)) = self.frame(&frame, sum) else { break };
            pending.push((page, at + FRAME_BYTES as u64));
            (at, sum, frames) = (at + frame.len() as u64, next, frames + 1);
            if pages > 0 {
                newest.extend(pending.drain(..));
                last = Some((pages, frames));
            }
        }
        Ok(last.map(|(pages, frames)| (newest, pages, frames)))
    }

    /// Returns the page of a frame, the number of pages in the database if it commits, and the new
    /// checksum.
    fn frame(&self, frame: &[u8], sum: (u32, u32)) -> Option<(u32, u32, (u32, u32))> {
        let (head, content) = frame.split_at_checked(FRAME_BYTES)?;
        if head.get(8..16)? != self.salt {
            return None;
        }
        let sum = checksum(sum, head.get(..8)?, self.big_endian);
        let sum = checksum(sum, content, self.big_endian);
        if sum != (word(head, 16)?, word(head, 20)?) {
            return None;
        }
        let (page, pages) = (word(head, 0)?, word(head, 4)?);
        (page > 0).then_some((page, pages, sum))
    }
}

fn word(bytes: &[u8], at: usize) -> Option<u32> {
    let word = bytes.get(at..at + 4)?;
    Some(u32::from_be_bytes(word.try_into().ok()?))
}

/// Continues the checksum `sum` over pairs of words.
fn checksum(sum: (u32, u32), bytes: &[u8], big_endian: bool) -> (u32, u32) {
    let (words, _) = bytes.as_chunks::<4>();
    let word = |bytes: &[u8; 4]| match big_endian {
        true => u32::from_be_bytes(*bytes),
        false => u32::from_le_bytes(*bytes),
    };
    let (mut first, mut second) = sum;
    for pair in words.chunks_exact(2) {
        let [a, b] = pair else { break };
        first = first.wrapping_add(word(a)).wrapping_add(second);
        second = second.wrapping_add(word(b)).wrapping_add(first);
    }
    (first, second)
}
