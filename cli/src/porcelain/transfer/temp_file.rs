//! Temporary files: files without a name, and new files that are verified after writing.

use std::fs;
use std::io::{self, Read, Write};
use std::path::Path;
use std::sync::Arc;

use turntree::Error;
use turntree::local::random_bytes;
use turntree::object::Checksum;
use turntree::store::{Io, IoFile, RealIo};
use turntree::workspace::save;

use crate::view::error::Result;

/// The context of the hash that verifies the file.
const CONTEXT: &str = "turntree v1 sealed bundle";

/// A file without a name, which is deleted with the process.
pub(crate) struct Spool(Arc<dyn IoFile>);

impl Spool {
    /// Creates an empty file, on the disk of a directory.
    pub(crate) fn create(dir: &Path) -> turntree::Result<Self> {
        let name: String = random_bytes().iter().map(|byte| format!("{byte:02x}")).collect();
        let path = dir.join(format!(".{name}.tmp"));
        let failed = |error| Error::io(format!("make a file in {}", dir.display()), error);
        let file = RealIo.create(&path).map_err(failed)?;
        RealIo.remove(&path).map_err(failed)?;
        Ok(Self(file))
    }

    /// The file to write to.
    pub(crate) fn file(&self) -> &Arc<dyn IoFile> {
        &self.0
    }

    /// Returns a sequential writer.
    pub(crate) fn writer(&self) -> impl Write {
        TempFileWriter { file: &*self.0, at: 0 }
    }

    /// Returns a sequential reader.
    pub(crate) fn reader(&self) -> impl Read {
        TempFileReader { file: &*self.0, at: 0 }
    }
}

struct TempFileWriter<'a> {
    file: &'a dyn IoFile,
    at: u64,
}

impl Write for TempFileWriter<'_> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.file.write_at(bytes, self.at)?;
        self.at += bytes.len() as u64;
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

struct TempFileReader<'a> {
    file: &'a dyn IoFile,
    at: u64,
}

impl Read for TempFileReader<'_> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let read = self.file.read_at(buffer, self.at)?;
        self.at += read as u64;
        Ok(read)
    }
}

/// Writes a new file, and reads it back.
///
/// # Errors
/// `InvalidInput` if it exists, `Io`, and `Corrupt` if other bytes are read back; no file
/// is left then.
pub(crate) fn save_checked(
    path: &Path,
    write: impl FnOnce(&mut dyn Write) -> io::Result<()>,
) -> Result<()> {
    let mut sum = Checksum::new(CONTEXT);
    let failed = |error| Error::io(format!("write {}", path.display()), error);
    save(path, false, |out| {
        let mut out = Summed { out, sum: &mut sum };
        write(&mut out).map_err(failed)
    })?;
    let mut found = Checksum::new(CONTEXT);
    let mut nowhere = io::sink();
    let mut out = Summed { out: &mut nowhere, sum: &mut found };
    let read = fs::File::open(path).and_then(|mut file| io::copy(&mut file, &mut out));
    if read.is_ok() && found.finish() == sum.finish() {
        return Ok(());
    }
    let _ = fs::remove_file(path);
    Err(Error::malformed(path.display(), "the bytes that were written").into())
}

/// A writer that also computes the checksum.
struct Summed<'a> {
    out: &'a mut dyn Write,
    sum: &'a mut Checksum,
}

impl Write for Summed<'_> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let written = self.out.write(bytes)?;
        self.sum.update(bytes.get(..written).unwrap_or_default());
        Ok(written)
    }

    fn flush(&mut self) -> io::Result<()> {
        self.out.flush()
    }
}
