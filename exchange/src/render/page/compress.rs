//! Compresses the data of a page, for example for mail. Browsers inflate each block on demand.

use std::io::{self, Write};

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use memchr::memmem;
use turntree::error::{Error, Result};
use zlib_rs::{Deflate, DeflateFlush, Status, compress_bound};

use super::blocks::{BEGIN, COMPRESSED, END, LINES};

/// The compression level.
const LEVEL: i32 = 9;

/// The logarithm of the window size, the maximum of the format.
const WINDOW_BITS: u8 = 15;

/// Compresses a page while it is written, block by block. Holds a block, or the beginning of a page
/// that may be small enough to stay as it is.
#[expect(missing_debug_implementations, reason = "it holds the caller's writer")]
pub struct PageCompressor<'a> {
    out: &'a mut dyn Write,
    held: Vec<u8>,
    /// The size in bytes up to which a page is not compressed.
    most_plain: usize,
    /// The size of the held bytes at which they are searched again: a search of a block after each
    /// small write would be quadratic in its size.
    next_search: usize,
    blocks: usize,
}

impl<'a> PageCompressor<'a> {
    /// Begins a page, which is compressed if it has more than `most_plain` bytes.
    pub fn new(out: &'a mut dyn Write, most_plain: usize) -> Self {
        Self { out, held: Vec::new(), most_plain, next_search: most_plain + 1, blocks: 0 }
    }

    /// Writes the rest.
    ///
    /// # Errors
    /// `InvalidInput` if the text is large and no page of [`export_page`](super::export_page), `Io`
    /// if the writer fails.
    pub fn finish(mut self) -> Result<()> {
        if self.blocks > 0 || self.held.len() > self.most_plain {
            self.compress()?;
            if self.blocks == 0 {
                return Err(Error::invalid("the compressed text is not a page: it has no data"));
            }
        }
        let written = self.out.write_all(&self.held).and_then(|()| self.out.flush());
        written.map_err(|error| Error::io("write the page", error))
    }

    /// Compresses the blocks that are complete.
    fn compress(&mut self) -> Result<()> {
        while let Some(PlainBlock { before, numbers, lines, after }) = first_block(&self.held) {
            let packed = STANDARD.encode(compress_lines(lines)?);
            let (begin, end) = (BEGIN.as_bytes(), END.as_bytes());
            for part in [before, begin, numbers, COMPRESSED.as_bytes(), packed.as_bytes(), end] {
                self.out.write_all(part).map_err(|error| Error::io("write the page", error))?;
            }
            self.held = after.to_vec();
            self.blocks += 1;
        }
        self.next_search = self.held.len() + self.held.len() / 2 + 1;
        Ok(())
    }
}

impl Write for PageCompressor<'_> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.held.extend_from_slice(bytes);
        if self.held.len() >= self.next_search {
            self.compress().map_err(io::Error::other)?;
        }
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

/// A block in the text of a page.
pub(super) struct PlainBlock<'b> {
    pub(super) before: &'b [u8],
    /// The attributes with the numbers of its first lines.
    pub(super) numbers: &'b [u8],
    pub(super) lines: &'b [u8],
    pub(super) after: &'b [u8],
}

/// Returns the first block, if it is complete.
pub(super) fn first_block(page: &[u8]) -> Option<PlainBlock<'_>> {
    let (before, block) = parts(page, BEGIN)?;
    let (block, after) = parts(block, END)?;
    let (numbers, lines) = parts(block, LINES)?;
    Some(PlainBlock { before, numbers, lines, after })
}

/// Returns the bytes before and after a marker.
fn parts<'b>(bytes: &'b [u8], marker: &str) -> Option<(&'b [u8], &'b [u8])> {
    let at = memmem::find(bytes, marker.as_bytes())?;
    Some((bytes.get(..at)?, bytes.get(at + marker.len()..)?))
}

/// Compresses bytes with zlib.
pub(super) fn compress_lines(lines: &[u8]) -> Result<Vec<u8>> {
    let mut packed = vec![0; compress_bound(lines.len())];
    let mut deflate = Deflate::new(LEVEL, true, WINDOW_BITS);
    let status = deflate.compress(lines, &mut packed, DeflateFlush::Finish);
    if !matches!(status, Ok(Status::StreamEnd)) {
        return Err(Error::invalid("the data of a page was not compressed"));
    }
    packed.truncate(usize::try_from(deflate.total_out()).unwrap_or(packed.len()));
    Ok(packed)
}
