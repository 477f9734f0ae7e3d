//! Compresses the data of a page, for example for mail. Browsers inflate each block on demand.

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use turntree::error::{Error, Result};
use zlib_rs::{Deflate, DeflateFlush, Status, compress_bound};

use super::blocks::{BEGIN, COMPRESSED, END, LINES};

/// The compression level.
const LEVEL: i32 = 9;

/// The logarithm of the window size, the maximum of the format.
const WINDOW_BITS: u8 = 15;

/// Returns the page with each block of its data as zlib in base64. Needs twice the page in memory.
///
/// # Errors
/// `InvalidInput` for input that [`export_page`](super::export_page) did not write.
pub fn compress_page(page: &[u8]) -> Result<Vec<u8>> {
    let foreign = || Error::invalid("the compressed text is not a page: it has no data");
    let mut rest = std::str::from_utf8(page).map_err(|_| foreign())?;
    let mut compressed = String::with_capacity(page.len() / 2);
    let mut blocks = 0;
    while let Some((before, block)) = rest.split_once(BEGIN) {
        let (lines, after) = block.split_once(END).ok_or_else(foreign)?;
        let (numbers, lines) = lines.split_once(LINES).ok_or_else(foreign)?;
        compressed.extend([before, BEGIN, numbers, COMPRESSED]);
        STANDARD.encode_string(compress_lines(lines.as_bytes())?, &mut compressed);
        compressed.push_str(END);
        (rest, blocks) = (after, blocks + 1);
    }
    if blocks == 0 {
        return Err(foreign());
    }
    compressed.push_str(rest);
    Ok(compressed.into_bytes())
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
