//! Measures the pack that a draft would become: compressed as it would be, and kept nowhere.

use bytes::Bytes;

use super::draft::{PackDraft, PackWritten};
use super::packer::Packer;
use super::{BlockCache, Pack};
use crate::error::Result;
use crate::store::memory_file::MemoryFile;

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
        Ok((written, file.into_bytes().into()))
    }
}
