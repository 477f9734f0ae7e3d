//! A file in memory, for temporary content that is never stored.

use std::io;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use bytes::Bytes;

use super::io::{Identity, IoFile, Mapping};

/// A file without a path.
#[derive(Debug, Default)]
pub(in crate::store) struct MemoryFile(Mutex<Vec<u8>>);

impl MemoryFile {
    /// Returns a file with these bytes.
    pub(in crate::store) fn of(bytes: Vec<u8>) -> Self {
        Self(Mutex::new(bytes))
    }

    /// Returns the content of the file.
    pub(in crate::store) fn into_bytes(self) -> Vec<u8> {
        self.0.into_inner().unwrap_or_else(PoisonError::into_inner)
    }

    fn bytes(&self) -> MutexGuard<'_, Vec<u8>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl IoFile for MemoryFile {
    fn read_at(&self, buffer: &mut [u8], offset: u64) -> io::Result<usize> {
        let bytes = self.bytes();
        let rest = usize::try_from(offset).ok().and_then(|offset| bytes.get(offset..));
        let read = rest.unwrap_or_default().iter().zip(buffer);
        Ok(read.map(|(from, to)| *to = *from).count())
    }

    fn write_at(&self, new: &[u8], offset: u64) -> io::Result<()> {
        let mut bytes = self.bytes();
        let start = usize::try_from(offset).map_err(|_| io::ErrorKind::FileTooLarge)?;
        let end = start.checked_add(new.len()).ok_or(io::ErrorKind::FileTooLarge)?;
        if bytes.len() < end {
            bytes.resize(end, 0);
        }
        if let Some(place) = bytes.get_mut(start..end) {
            place.copy_from_slice(new);
        }
        Ok(())
    }

    fn sync_data(&self) -> io::Result<()> {
        Ok(())
    }

    fn size(&self) -> io::Result<u64> {
        Ok(self.bytes().len() as u64)
    }

    fn lock(&self, _timeout: Duration) -> io::Result<bool> {
        Err(io::ErrorKind::Unsupported.into())
    }

    fn unlock(&self) -> io::Result<()> {
        Err(io::ErrorKind::Unsupported.into())
    }

    fn identity(&self) -> io::Result<Identity> {
        Err(io::ErrorKind::Unsupported.into())
    }

    fn map(&self) -> io::Result<Mapping> {
        Ok(Bytes::copy_from_slice(&self.bytes()).into())
    }
}
