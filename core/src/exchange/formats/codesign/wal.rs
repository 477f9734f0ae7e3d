//! The log beside an SQLite database: what was committed into it and not yet into the database.
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
//! All numbers are big-endian (SQLite, file format, section 4). A frame counts when its salt is that of the
//! header, its checksum goes on from the frame before, and a frame that commits follows or is it.

use crate::error::{Error, Result};

const MAGIC: u32 = 0x377f_0682;
const VERSION: u32 = 3_007_000;
const HEADER_BYTES: usize = 32;
const FRAME_BYTES: usize = 24;
const MIN_PAGE_BYTES: usize = 512;
const MAX_PAGE_BYTES: usize = 65536;

/// The database as it is with all that `log` committed. A log that is not whole at its beginning has
/// committed nothing.
///
/// # Errors
/// `InvalidInput` for a log of another database.
pub(super) fn apply(database: &[u8], log: &[u8]) -> Result<Vec<u8>> {
    let mut image = database.to_vec();
    let Some(header) = Header::of(log) else { return Ok(image) };
    let frames = header.committed(log);
    let Some(last) = frames.last() else { return Ok(image) };
    let pages = last.pages as usize;
    if pages > image.len() / header.page_bytes + frames.len() {
        let message = "the log beside the database names more pages than there are";
        return Err(Error::invalid(message));
    }
    image.resize(pages * header.page_bytes, 0);
    for frame in &frames {
        let page = log.get(frame.at..frame.at + header.page_bytes);
        let start = (frame.page as usize).wrapping_sub(1).saturating_mul(header.page_bytes);
        // A page beyond the end was given up again by a later commit.
        let target = image.get_mut(start..start.saturating_add(header.page_bytes));
        if let (Some(page), Some(target)) = (page, target) {
            target.copy_from_slice(page);
        }
    }
    Ok(image)
}

struct Header {
    big_endian: bool,
    page_bytes: usize,
    salt: [u8; 8],
    sum: (u32, u32),
}

/// A page in the log.
struct Frame {
    page: u32,
    /// Pages of the database after it, for one that commits.
    pages: u32,
    /// Where its page begins.
    at: usize,
}

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
        let told = (word(log, 24)?, word(log, 28)?);
        (sum == told).then_some(Self { big_endian, page_bytes, salt, sum })
    }

    /// Every frame up to the last that commits.
    fn committed(&self, log: &[u8]) -> Vec<Frame> {
        let (mut frames, mut committed) = (Vec::new(), 0);
        let (mut at, mut sum) = (HEADER_BYTES, self.sum);
        while let Some((frame, next)) = self.frame(log, at, sum) {
            at = frame.at + self.page_bytes;
            sum = next;
            let commits = frame.pages > 0;
            frames.push(frame);
            if commits {
                committed = frames.len();
            }
        }
        frames.truncate(committed);
        frames
    }

    fn frame(&self, log: &[u8], at: usize, sum: (u32, u32)) -> Option<(Frame, (u32, u32))> {
        let head = log.get(at..at + FRAME_BYTES)?;
        let page = log.get(at + FRAME_BYTES..at + FRAME_BYTES + self.page_bytes)?;
        if head.get(8..16)? != self.salt {
            return None;
        }
        let sum = checksum(sum, head.get(..8)?, self.big_endian);
        let sum = checksum(sum, page, self.big_endian);
        if sum != (word(head, 16)?, word(head, 20)?) {
            return None;
        }
        let (page, pages) = (word(head, 0)?, word(head, 4)?);
        (page > 0).then_some((Frame { page, pages, at: at + FRAME_BYTES }, sum))
    }
}

fn word(bytes: &[u8], at: usize) -> Option<u32> {
    let word = bytes.get(at..at + 4)?;
    Some(u32::from_be_bytes(word.try_into().ok()?))
}

/// Goes on from `sum` over words in pairs.
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
