//! Bytes that are readable at any offset: in memory or in a file.

use std::fs::File;
use std::io;

use bytes::Bytes;
use turntree::platform::read_at;

/// A source of bytes.
#[derive(Debug)]
pub(super) enum Source {
    Bytes(Bytes),
    File(File),
}

impl Source {
    pub(super) fn len(&self) -> io::Result<u64> {
        match self {
            Self::Bytes(bytes) => Ok(bytes.len() as u64),
            Self::File(file) => Ok(file.metadata()?.len()),
        }
    }

    fn read_at(&self, at: u64, buffer: &mut [u8]) -> io::Result<usize> {
        match self {
            Self::Bytes(bytes) => {
                let start = usize::try_from(at).unwrap_or(usize::MAX);
                let rest = bytes.get(start..).unwrap_or_default();
                let count = rest.len().min(buffer.len());
                if let (Some(from), Some(to)) = (rest.get(..count), buffer.get_mut(..count)) {
                    to.copy_from_slice(from);
                }
                Ok(count)
            }
            Self::File(file) => read_at(file, buffer, at),
        }
    }

    /// Fills `buffer`. Returns false if there are too few bytes.
    pub(super) fn fill_at(&self, mut at: u64, mut buffer: &mut [u8]) -> io::Result<bool> {
        while !buffer.is_empty() {
            match self.read_at(at, buffer) {
                Ok(0) => return Ok(false),
                Ok(count) => {
                    buffer = buffer.get_mut(count..).unwrap_or_default();
                    at += count as u64;
                }
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => return Err(error),
            }
        }
        Ok(true)
    }
}
