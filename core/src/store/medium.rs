//! The bytes of a file that nobody writes to any more: mapped where the disk has them as they are,
//! and read where they are made on reading.

use std::fmt;
use std::io;
use std::sync::Arc;

use bytes::Bytes;

use super::io::{IoFile, Mapping, ReadAt};

/// Bytes to be had at any place.
pub(in crate::store) enum Medium {
    /// In memory, as a map is: nothing is copied.
    Memory(Mapping),
    /// To be read, piece by piece, and how many bytes there are.
    File(Arc<dyn ReadAt>, u64),
}

impl Medium {
    /// The bytes of a file: mapped, if that costs no reading.
    ///
    /// # Errors
    /// When it cannot be mapped, or its size not be had.
    pub(in crate::store) fn of(file: &Arc<dyn IoFile>) -> io::Result<Self> {
        // A file of no bytes cannot be mapped.
        Ok(match file.size()? {
            0 => Self::Memory(Bytes::new().into()),
            _ if file.is_mappable() => Self::Memory(file.map()?),
            bytes => Self::File(Arc::new(Arc::clone(file)), bytes),
        })
    }

    /// The `len` bytes from `offset` on; nothing when there are fewer.
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
                // Before any memory is taken on the word of a file.
                if offset.checked_add(len as u64).is_none_or(|end| end > *size) {
                    return Ok(None);
                }
                let mut bytes = vec![0; len];
                let read = file.read_at(&mut bytes, offset)?;
                Ok((read == len).then(|| bytes.into()))
            }
        }
    }

    /// Returns true if all of it is there without reading, as it is of a map.
    pub(in crate::store) const fn is_in_memory(&self) -> bool {
        matches!(self, Self::Memory(_))
    }

    /// Gives back the memory of what was read of a map; see [`Mapping::let_pages_go`].
    pub(in crate::store) fn let_pages_go(&self) {
        if let Self::Memory(map) = self {
            map.let_pages_go();
        }
    }

    /// The number of bytes.
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
