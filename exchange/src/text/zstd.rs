//! Reads zstd streams that others wrote, in bounded memory, and says what size zstd makes of bytes.

use std::io::{self, BufRead, Write};

use ::zstd::stream::write::Encoder;

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

/// The level of what is compressed to know its size.
const SIZE_LEVEL: i32 = 1;

/// The size that zstd would make of some bytes, which are kept nowhere. Memory: 40 MiB at most.
pub(crate) struct PackedSize(Encoder<'static, ByteCount>);

/// Counts what is written.
#[derive(Default)]
struct ByteCount(u64);

impl PackedSize {
    /// # Errors
    /// When zstd cannot be started.
    pub(crate) fn new() -> io::Result<Self> {
        let mut encoder = Encoder::new(ByteCount::default(), SIZE_LEVEL)?;
        encoder.window_log(STREAM_WINDOW_LOG)?;
        encoder.long_distance_matching(true)?;
        Ok(Self(encoder))
    }

    /// Adds bytes behind those of before, which it may refer to.
    ///
    /// # Errors
    /// When zstd fails.
    pub(crate) fn add(&mut self, bytes: &[u8]) -> io::Result<()> {
        self.0.write_all(bytes)
    }

    /// Returns the size of what was added since the last time.
    ///
    /// # Errors
    /// When zstd fails.
    pub(crate) fn take(&mut self) -> io::Result<u64> {
        self.0.flush()?;
        Ok(std::mem::take(&mut self.0.get_mut().0))
    }
}

impl Write for ByteCount {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.0 += bytes.len() as u64;
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}
