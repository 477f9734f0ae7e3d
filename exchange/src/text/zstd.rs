//! Reads zstd streams of other programs in bounded memory, writes streams, and measures the compressed
//! size of bytes.

use std::io::{self, BufRead, Write};

use ::zstd::stream::write::Encoder;

pub(crate) use ::zstd::stream::read::Decoder as Stream;

/// The first bytes of a zstd stream.
pub(crate) const STREAM_MAGIC: &[u8] = &[0x28, 0xb5, 0x2f, 0xfd];

/// Logarithm of the largest accepted window. Every decoder should support this size (RFC 8878).
const STREAM_WINDOW_LOG: u32 = 23;

/// Reads a zstd stream of another program. Memory: its window, 8 MiB at most. Reading fails if the
/// stream needs a larger window or is truncated.
///
/// # Errors
/// If zstd cannot be initialized.
pub(crate) fn stream<'r, R: BufRead + 'r>(input: R) -> io::Result<Stream<'r, R>> {
    let mut decoder = Stream::with_buffer(input)?;
    decoder.window_log_max(STREAM_WINDOW_LOG)?;
    Ok(decoder)
}

/// The compression level of written streams: that of the program `zstd`.
const WRITTEN_LEVEL: i32 = 3;

/// Writes the output of `write` as a zstd stream.
///
/// # Errors
/// `Io` if zstd or `out` fails, and the errors of `write`.
pub fn compress(
    out: &mut dyn Write,
    write: &mut dyn FnMut(&mut dyn Write) -> turntree::Result<()>,
) -> turntree::Result<()> {
    let failed = |error| turntree::Error::io("compress the output", error);
    let mut encoder = Encoder::new(out, WRITTEN_LEVEL).map_err(failed)?;
    write(&mut encoder)?;
    encoder.finish().map_err(failed)?;
    Ok(())
}

/// The compression level for measuring sizes.
const SIZE_LEVEL: i32 = 1;

/// Measures the compressed size of bytes without storing them. Memory: 40 MiB at most.
pub(crate) struct PackedSize(Encoder<'static, ByteCount>);

/// Counts the written bytes.
#[derive(Default)]
struct ByteCount(u64);

impl PackedSize {
    /// # Errors
    /// If zstd cannot be initialized.
    pub(crate) fn new() -> io::Result<Self> {
        let mut encoder = Encoder::new(ByteCount::default(), SIZE_LEVEL)?;
        encoder.window_log(STREAM_WINDOW_LOG)?;
        encoder.long_distance_matching(true)?;
        Ok(Self(encoder))
    }

    /// Adds bytes, which may reference the previous ones.
    ///
    /// # Errors
    /// If zstd fails.
    pub(crate) fn add(&mut self, bytes: &[u8]) -> io::Result<()> {
        self.0.write_all(bytes)
    }

    /// Returns the compressed size of the bytes added since the last call.
    ///
    /// # Errors
    /// If zstd fails.
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
