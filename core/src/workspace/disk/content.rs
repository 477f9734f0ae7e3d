//! The content of a file in a context: writes it, counts it, and compares it with a file on disk.

use std::fs::File;
use std::io::{self, BufReader, BufWriter, Read, Seek, Write};

use bytes::Bytes;

use crate::context::{Context, export_messages, export_source};
use crate::error::{Error, ErrorKind, Result};
use crate::object::{Checksum, Kind, ObjectId, ObjectSource};

/// The key of the checksum that verifies written content.
const CHECKSUM: &str = "turntree v1 restored file";

/// Bytes per read.
const CHUNK_BYTES: usize = 64 << 10;

/// The source of a file's bytes.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(in crate::workspace) enum Content {
    Blob(ObjectId),
    /// The conversation of this agent.
    Messages(String),
    /// The transcript.
    Transcript,
}

impl Content {
    /// Returns the bytes of a blob; used for link targets, which are short.
    pub(in crate::workspace) fn bytes(&self, source: &dyn ObjectSource) -> Result<Bytes> {
        match self {
            Self::Blob(id) => source.read_as(Kind::Blob, id),
            Self::Messages(_) | Self::Transcript => Ok(Bytes::new()),
        }
    }

    /// Writes the content to `out`.
    pub(in crate::workspace) fn write(
        &self,
        source: &dyn ObjectSource,
        context: &Context,
        out: &mut dyn Write,
    ) -> Result<()> {
        match self {
            Self::Blob(id) => out
                .write_all(&source.read_as(Kind::Blob, id)?)
                .map_err(|error| Error::io("write the content", error)),
            Self::Messages(agent) => {
                export_messages(source, context, agent, &|_| true, out).map(drop)
            }
            Self::Transcript => export_source(source, context, out).map(drop),
        }
    }

    /// Returns true if `file` has exactly this content.
    pub(in crate::workspace) fn is_content_of(
        &self,
        source: &dyn ObjectSource,
        context: &Context,
        file: File,
    ) -> Result<bool> {
        let mut comparing = ComparingWriter { file: BufReader::new(file), same: true };
        self.write(source, context, &mut comparing)?;
        comparing.reaches_end().map_err(|error| Error::io("read", error))
    }
}

/// Writes the output of `write` to a new, empty `file`, syncs it, and verifies it by reading it
/// back. Returns its size.
///
/// # Errors
/// `Io` if writing fails, or the file reads back differently.
pub(in crate::workspace) fn store(
    file: &mut File,
    write: impl FnOnce(&mut dyn Write) -> Result<()>,
) -> Result<u64> {
    let checksum = Checksum::new(CHECKSUM);
    let mut out = HashingWriter { out: BufWriter::new(&*file), checksum, bytes: 0 };
    write(&mut out)?;
    out.flush().map_err(|error| Error::io("write the content", error))?;
    let (written, bytes) = (out.checksum.finish(), out.bytes);
    drop(out);
    file.sync_all().map_err(|error| Error::io("sync the content", error))?;
    let found = digest(file).map_err(|error| Error::io("read the content back", error))?;
    if found != written {
        let other = "the written bytes do not read back: the disk or another process changed them";
        return Err(Error::new(ErrorKind::Io, other));
    }
    Ok(bytes)
}

fn digest(file: &mut File) -> io::Result<[u8; 32]> {
    file.rewind()?;
    let mut checksum = Checksum::new(CHECKSUM);
    let mut chunk = vec![0; CHUNK_BYTES];
    loop {
        match file.read(&mut chunk) {
            Ok(0) => return Ok(checksum.finish()),
            Ok(read) => drop(checksum.update(chunk.get(..read).unwrap_or_default())),
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => return Err(error),
        }
    }
}

/// Counts and hashes the bytes that pass through.
struct HashingWriter<W> {
    out: W,
    checksum: Checksum,
    bytes: u64,
}

impl<W: Write> Write for HashingWriter<W> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let written = self.out.write(bytes)?;
        self.checksum.update(bytes.get(..written).unwrap_or_default());
        self.bytes += written as u64;
        Ok(written)
    }

    fn flush(&mut self) -> io::Result<()> {
        self.out.flush()
    }
}

/// Compares written bytes with a file, without holding either in memory.
struct ComparingWriter<R> {
    file: R,
    same: bool,
}

impl<R: Read> ComparingWriter<R> {
    fn reaches_end(mut self) -> io::Result<bool> {
        Ok(self.same && self.file.read(&mut [0])? == 0)
    }
}

impl<R: Read> Write for ComparingWriter<R> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        if self.same {
            let mut found = vec![0; bytes.len()];
            self.same = match self.file.read_exact(&mut found) {
                Ok(()) => found == bytes,
                Err(error) if error.kind() == io::ErrorKind::UnexpectedEof => false,
                Err(error) => return Err(error),
            };
        }
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}
