//! Reads zstd streams that others wrote, in bounded memory.

use std::io::{self, BufRead};

pub(crate) use ::zstd::stream::read::Decoder as Stream;

/// The first bytes of a zstd stream.
pub(crate) const STREAM_MAGIC: &[u8] = &[0x28, 0xb5, 0x2f, 0xfd];

/// Logarithm of the largest window of a stream of others: what every decoder is to take (RFC 8878).
const STREAM_WINDOW_LOG: u32 = 23;

/// Reads a zstd stream that others wrote. Memory: its window, of 8 MiB at most. A stream that wants a
/// larger one is an error when it is read, and so is one that ends early.
///
/// # Errors
/// When zstd cannot be started.
pub(crate) fn stream<'r, R: BufRead + 'r>(input: R) -> io::Result<Stream<'r, R>> {
    let mut decoder = Stream::with_buffer(input)?;
    decoder.window_log_max(STREAM_WINDOW_LOG)?;
    Ok(decoder)
}
