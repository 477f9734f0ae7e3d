//! Measures the pack that a draft would become: compressed as it would be, and kept nowhere.

use std::io;
use std::mem;
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use bytes::Bytes;

use super::draft::{PackDraft, PackWritten};
use super::packer::Packer;
use super::{BlockCache, Pack};
use crate::error::Result;
use crate::store::io::{Identity, IoFile, Mapping};

/// Bytes of decoded blocks that are kept while sizes are asked for.
const CACHE_BYTES: usize = 16 << 20;

/// The size of a pack that was not written, and of what would be in it.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct PackSize {
    /// Bytes of the file, without parity.
    pub bytes: u64,
    /// The part of each item in the file, with its place in the index, in order.
    pub items: Vec<u64>,
}

impl PackDraft<'_> {
    /// Makes the pack in memory, and says how large it is, without parity.
    ///
    /// # Errors
    /// Those of [`PackDraft::write`], but for those of a disk.
    pub(in crate::store) fn measure(&self) -> Result<u64> {
        Ok(self.make()?.0.bytes)
    }

    /// The same, with the part of each item.
    ///
    /// # Errors
    /// Those of [`PackDraft::measure`].
    pub(in crate::store) fn measure_items(&self) -> Result<PackSize> {
        let (written, bytes) = self.make()?;
        let pack = Pack::in_memory(bytes, written.id, self.store)?;
        let cache = BlockCache::new(CACHE_BYTES);
        let ordinals = 0..u32::try_from(self.items.len()).unwrap_or(u32::MAX);
        let items = ordinals.map(|ordinal| Ok(pack.sizes(ordinal, &cache)?.1));
        Ok(PackSize { bytes: written.bytes, items: items.collect::<Result<_>>()? })
    }

    fn make(&self) -> Result<(PackWritten, Bytes)> {
        let (ids, file) = (self.ids()?, MemoryFile::default());
        let written = Packer::new(self, &ids, &file).run()?;
        let bytes = mem::take(&mut *file.bytes());
        Ok((written, bytes.into()))
    }
}

/// A file that is nowhere.
#[derive(Debug, Default)]
struct MemoryFile(Mutex<Vec<u8>>);

impl MemoryFile {
    fn bytes(&self) -> std::sync::MutexGuard<'_, Vec<u8>> {
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
