//! A page whose data is compressed, as one that is mailed: browsers inflate it themselves.

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use turntree::error::{Error, Result};
use zlib_rs::{Deflate, DeflateFlush, Status, compress_bound};

/// Where the data of a page begins, and the same where it is compressed.
const BEGIN: &str = "id=\"data\">\n";
const BEGIN_COMPRESSED: &str = "id=\"data\" data-deflate>";

/// Where it ends: nothing in the data is markup.
const END: &str = "</script>";

/// How hard it is compressed.
const LEVEL: i32 = 9;

/// The logarithm of the window, as large as the format has it.
const WINDOW_BITS: u8 = 15;

/// Returns the same page with its data as zlib in base64. Costs twice the page in memory.
///
/// # Errors
/// `InvalidInput` for what [`export_page`](super::export_page) has not written.
pub fn compress_page(page: &[u8]) -> Result<Vec<u8>> {
    let parts = std::str::from_utf8(page).ok().and_then(|page| {
        let (head, rest) = page.split_once(BEGIN)?;
        let (data, end) = rest.split_once(END)?;
        Some((head, data, end))
    });
    let (head, data, end) =
        parts.ok_or_else(|| Error::invalid("what is compressed is not a page: it has no data"))?;
    let mut packed = vec![0; compress_bound(data.len())];
    let mut deflate = Deflate::new(LEVEL, true, WINDOW_BITS);
    let status = deflate.compress(data.as_bytes(), &mut packed, DeflateFlush::Finish);
    if !matches!(status, Ok(Status::StreamEnd)) {
        return Err(Error::invalid("the data of a page was not compressed"));
    }
    packed.truncate(usize::try_from(deflate.total_out()).unwrap_or(packed.len()));
    Ok([head, BEGIN_COMPRESSED, &STANDARD.encode(packed), END, end].concat().into_bytes())
}
