//! A page whose data is compressed, as one that is mailed: browsers inflate a block when it is read.

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use turntree::error::{Error, Result};
use zlib_rs::{Deflate, DeflateFlush, Status, compress_bound};

use super::blocks::{BEGIN, COMPRESSED, END, LINES};

/// How hard it is compressed.
const LEVEL: i32 = 9;

/// The logarithm of the window, as large as the format has it.
const WINDOW_BITS: u8 = 15;

/// Returns the same page with each block of its data as zlib in base64. Costs twice the page in memory.
///
/// # Errors
/// `InvalidInput` for what [`export_page`](super::export_page) has not written.
pub fn compress_page(page: &[u8]) -> Result<Vec<u8>> {
    let foreign = || Error::invalid("what is compressed is not a page: it has no data");
    let mut rest = std::str::from_utf8(page).map_err(|_| foreign())?;
    let mut compressed = String::with_capacity(page.len() / 2);
    let mut blocks = 0;
    while let Some((before, block)) = rest.split_once(BEGIN) {
        let (lines, after) = block.split_once(END).ok_or_else(foreign)?;
        let (numbers, lines) = lines.split_once(LINES).ok_or_else(foreign)?;
        compressed.extend([before, BEGIN, numbers, COMPRESSED]);
        STANDARD.encode_string(packed(lines.as_bytes())?, &mut compressed);
        compressed.push_str(END);
        (rest, blocks) = (after, blocks + 1);
    }
    if blocks == 0 {
        return Err(foreign());
    }
    compressed.push_str(rest);
    Ok(compressed.into_bytes())
}

/// Returns some bytes as zlib.
pub(super) fn packed(lines: &[u8]) -> Result<Vec<u8>> {
    let mut packed = vec![0; compress_bound(lines.len())];
    let mut deflate = Deflate::new(LEVEL, true, WINDOW_BITS);
    let status = deflate.compress(lines, &mut packed, DeflateFlush::Finish);
    if !matches!(status, Ok(Status::StreamEnd)) {
        return Err(Error::invalid("the data of a page was not compressed"));
    }
    packed.truncate(usize::try_from(deflate.total_out()).unwrap_or(packed.len()));
    Ok(packed)
}
