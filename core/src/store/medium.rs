//! The bytes of an immutable file: mapped if the disk has them unencrypted, otherwise read and
//! decrypted piece by piece.

use std::fmt;
use std::io;
use std::sync::Arc;

use bytes::Bytes;

use super::io::{IoFile, Mapping, ReadAt};

/// Bytes at any offset of a file.
pub(in crate::store) enum Medium {
    /// In memory, such as a mapping: nothing is copied.
    Memory(Mapping),
    /// Read piece by piece; with the number of bytes.
    File(Arc<dyn ReadAt>, u64),
}

impl Medium {
    /// Opens the bytes of a file: mapped, if mapping reads nothing.
    ///
    /// # Errors
    /// When it cannot be mapped, or its size cannot be read.
    pub(in crate::store) fn of(file: &Arc<dyn IoFile>) -> io::Result<Self> {
        // An empty file cannot be mapped.
        Ok(match file.size()? {
            0 => Self::Memory(Bytes::new().into()),
            _ if file.is_mappable() => Self::Memory(file.map()?),
            bytes => Self::File(Arc::new(Arc::clone(file)), bytes),
        })
    }

    /// Returns `len` bytes from `offset`, or `None` if the file ends before.
    ///
    /// # Errors
    /// When they cannot be read.
    pub(in crate::store) fn get(&self, offset: u64, len: usize) -> io::Result<Option<Bytes>> {
        match self {
            Self::Memory(map) => {
                let range =
                    usize::try_from(offset).ok().and_then(|at| Some(at..at.checked_add(len)?));
                let map = map.bytes();
                Ok(range.filter(|range| range.end <= map.len()).map(|range| map.slice(range)))
            }
            Self::File(file, size) => {
                // Check the length before allocating: it may come from a damaged file.
                if offset.checked_add(len as u64).is_none_or(|end| end > *size) {
                    return Ok(None);
                }
                let mut bytes = vec![0; len];
                let read = file.read_at(&mut bytes, offset)?;
                Ok((read == len).then(|| bytes.into()))
            }
        }
    }

    /// Returns true if all bytes are available without reading, as in a mapping.
    pub(in crate::store) const fn is_in_memory(&self) -> bool {
        matches!(self, Self::Memory(_))
    }

    /// Releases the memory of mapped pages; see [`Mapping::release_pages`].
    pub(in crate::store) fn release_pages(&self) {
        if let Self::Memory(map) = self {
            map.release_pages();
        }
    }

    /// Returns the number of bytes.
    pub(in crate::store) fn size(&self) -> u64 {
        match self {
            Self::Memory(map) => map.bytes().len() as u64,
            Self::File(_, bytes) => *bytes,
        }
    }
}

impl fmt::Debug for Medium {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Memory(map) => write!(f, "Memory({} bytes)", map.bytes().len()),
            Self::File(file, _) => f.debug_tuple("File").field(file).finish(),
        }
    }
}
