//! The content of a file in a context: writes it, counts it, and compares it with a file on disk.

use std::fs::File;
use std::io::{self, BufReader, BufWriter, Read, Seek, Write};

use bytes::Bytes;

use super::durable::FileSystem;
use super::folder::FolderEntry;
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

/// The content of a file that does not have its own name yet.
#[derive(Debug)]
pub(in crate::workspace) struct StoredFile {
    file: File,
    bytes: u64,
    check: ContentCheck,
}

/// How the content is verified before the file gets its name.
#[derive(Debug)]
enum ContentCheck {
    /// It is read back after the sync: a file system outside of the kernel may lose a write.
    Digest([u8; 32]),
    /// The kernel keeps the written bytes and reports those that do not reach the disk. Only
    /// another process can change them, which changes the entry.
    Entry(FolderEntry),
}

impl StoredFile {
    /// Writes the output of `write` to a new, empty `file`.
    ///
    /// # Errors
    /// Errors of `write`, and `Io` if writing fails or another process writes to the file.
    pub(in crate::workspace) fn write(
        file: File,
        file_system: &FileSystem,
        write: impl FnOnce(&mut dyn Write) -> Result<()>,
    ) -> Result<Self> {
        let reads_back = !file_system.answers_from_memory();
        let checksum = reads_back.then(|| Checksum::new(CHECKSUM));
        let mut out = CountingWriter { out: BufWriter::new(&file), checksum, bytes: 0 };
        write(&mut out)?;
        out.flush().map_err(|error| Error::io("write the content", error))?;
        let (checksum, bytes) = (out.checksum.take(), out.bytes);
        drop(out);
        let check = match checksum {
            Some(checksum) => ContentCheck::Digest(checksum.finish()),
            None => ContentCheck::Entry(entry_of(&file)?),
        };
        Ok(Self { file, bytes, check })
    }

    /// Returns its size in bytes.
    pub(in crate::workspace) const fn bytes(&self) -> u64 {
        self.bytes
    }

    /// Makes it durable, and reads it back if the file system may lose a write.
    ///
    /// # Errors
    /// `Io` if that fails, or other bytes are read.
    pub(in crate::workspace) fn sync(&self) -> Result<()> {
        self.file.sync_all().map_err(|error| Error::io("sync the content", error))?;
        let ContentCheck::Digest(written) = &self.check else { return Ok(()) };
        let found =
            digest(&self.file).map_err(|error| Error::io("read the content back", error))?;
        if found == *written {
            return Ok(());
        }
        let other = "the written bytes do not read back: the disk or another process changed them";
        Err(Error::new(ErrorKind::Io, other))
    }

    /// Refuses a file that another process changed.
    ///
    /// # Errors
    /// `Io` if its size is not that of the written bytes, or it changed after the write.
    pub(in crate::workspace) fn expect_unchanged(&self) -> Result<()> {
        let ContentCheck::Entry(written) = &self.check else { return Ok(()) };
        if written.size() == i128::from(self.bytes)
            && entry_of(&self.file)?.is_unchanged_since(written)
        {
            return Ok(());
        }
        Err(Error::new(ErrorKind::Io, "another process changed the file while it was written"))
    }
}

fn entry_of(file: &File) -> Result<FolderEntry> {
    FolderEntry::of(file).map_err(|error| Error::io("inspect the content", error))
}

fn digest(mut file: &File) -> io::Result<[u8; 32]> {
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

/// Counts the bytes that pass through, and hashes them if there is a checksum.
struct CountingWriter<W> {
    out: W,
    checksum: Option<Checksum>,
    bytes: u64,
}

impl<W: Write> Write for CountingWriter<W> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let written = self.out.write(bytes)?;
        if let Some(checksum) = &mut self.checksum {
            checksum.update(bytes.get(..written).unwrap_or_default());
        }
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
