//! Decompresses transcripts that are compressed with zstd, such as old ones of Codex, while they
//! are read.

use std::io::{self, BufRead, BufReader, Cursor, Read};

use turntree::error::{Error, Result};

use super::zstd::{STREAM_MAGIC, Stream, stream};

/// Number of bytes at the start of a file that [`detect`](crate::detect) examines.
pub const HEAD_BYTES: usize = 64 << 10;

/// The first bytes of an SQLite database.
pub(crate) const DATABASE_MAGIC: &[u8] = b"SQLite format 3\0";

/// Maximum compression ratio of a stream. Transcripts have a ratio of about ten, and a single
/// repeated line one of thousands.
const MAX_RATIO: u64 = 500;
const MIN_ALLOWED_BYTES: u64 = 64 << 20;

/// Reads the start of a transcript, as much as [`detect`](crate::detect) examines. Decompresses
/// zstd.
///
/// # Errors
/// `InvalidInput` if it is compressed and damaged, `Io` if it is unreadable.
pub fn read_head(input: impl BufRead) -> Result<Vec<u8>> {
    Ok(decompress(Box::new(input))?.0)
}

/// Returns the start of a transcript and a reader of all of it, decompressed if necessary. Memory
/// for the decompression: 8 MiB at most.
///
/// # Errors
/// `InvalidInput` if it is compressed and damaged, `Io` if it is unreadable. The reader reports
/// later damage, and output over 64 MiB plus 500 times the input.
pub fn decompress<'r>(
    mut input: Box<dyn BufRead + 'r>,
) -> Result<(Vec<u8>, Box<dyn BufRead + 'r>)> {
    let head = read_beginning(&mut input)?;
    if !head.starts_with(STREAM_MAGIC) {
        return Ok((head, input));
    }
    let input = CountingReader { input: Cursor::new(head).chain(input), count: 0 };
    let stream = stream(input);
    let stream = stream.map_err(|error| Error::io("unpack the transcript", error))?;
    let bounded = BoundedStream { stream, read: 0 };
    let mut input = BufReader::with_capacity(HEAD_BYTES, bounded);
    Ok((read_beginning(&mut input)?, Box::new(input)))
}

fn read_beginning(input: &mut impl BufRead) -> Result<Vec<u8>> {
    let mut head = Vec::with_capacity(HEAD_BYTES);
    let read = input.take(HEAD_BYTES as u64).read_to_end(&mut head);
    read.map_err(|error| read_error("read the transcript", error))?;
    Ok(head)
}

/// Returns the error of a failed read: `InvalidInput` for damaged or excessive compressed data,
/// else `Io`.
pub(crate) fn read_error(action: impl Into<String>, error: io::Error) -> Error {
    match error.kind() {
        io::ErrorKind::InvalidData => {
            Error::invalid(format!("{}: expected a whole zstd stream", action.into()))
                .with_source(error)
        }
        _ => Error::io(action, error),
    }
}

/// A reader that counts the consumed bytes.
struct CountingReader<R> {
    input: R,
    count: u64,
}

impl<R: BufRead> Read for CountingReader<R> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let read = self.input.read(buffer)?;
        self.count += read as u64;
        Ok(read)
    }
}

impl<R: BufRead> BufRead for CountingReader<R> {
    fn fill_buf(&mut self) -> io::Result<&[u8]> {
        self.input.fill_buf()
    }

    fn consume(&mut self, amount: usize) {
        self.count += amount as u64;
        self.input.consume(amount);
    }
}

/// A stream with a bounded compression ratio.
struct BoundedStream<'r, R> {
    stream: Stream<'r, CountingReader<R>>,
    read: u64,
}

impl<R: BufRead> Read for BoundedStream<'_, R> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let read = self.stream.read(buffer).map_err(|error| match error.raw_os_error() {
            Some(_) => error,
            None => io::Error::new(io::ErrorKind::InvalidData, error),
        })?;
        self.read += read as u64;
        let taken = self.stream.get_ref().count;
        let allowed = MIN_ALLOWED_BYTES.saturating_add(taken.saturating_mul(MAX_RATIO));
        if self.read > allowed {
            let message = format!("{taken} bytes unpack to more than {allowed}");
            return Err(io::Error::new(io::ErrorKind::InvalidData, message));
        }
        Ok(read)
    }
}
