//! Whole files in memory, read. Windows removes or replaces no file that a process has mapped, so a
//! reader would keep a collection in another process from freeing space.

use std::fs::File;
use std::io;

use bytes::Bytes;

use super::file::read_at;

/// True if mapping a file reads nothing, and keeps no other process from removing or replacing it.
pub(crate) const MAPS_FILES: bool = false;

/// A whole file in memory.
#[derive(Debug, Clone)]
pub struct Mapping(Bytes);

impl Mapping {
    /// Reads a file.
    ///
    /// # Errors
    /// When the system refuses, or the file ends before its length.
    pub(crate) fn of(file: &File) -> io::Result<Self> {
        let length = usize::try_from(file.metadata()?.len()).map_err(io::Error::other)?;
        let mut bytes = vec![0; length];
        let mut filled = 0;
        while let Some(rest) = bytes.get_mut(filled..).filter(|rest| !rest.is_empty()) {
            match read_at(file, rest, filled as u64)? {
                0 => return Err(io::ErrorKind::UnexpectedEof.into()),
                read => filled += read,
            }
        }
        Ok(Self(bytes.into()))
    }

    /// Returns the bytes of the file.
    #[must_use]
    pub const fn bytes(&self) -> &Bytes {
        &self.0
    }

    /// Does nothing: the bytes were read, and no other copy of them is at hand.
    pub fn release_pages(&self) {}
}

impl From<Bytes> for Mapping {
    fn from(bytes: Bytes) -> Self {
        Self(bytes)
    }
}
