//! Measures the pack that a draft would produce, by compressing it in memory.

use bytes::Bytes;

use super::packer::Packer;
use crate::error::Result;
use crate::store::memory_file::MemoryFile;
use crate::store::pack::format::pack_draft::{PackDraft, PackFileSize};
use crate::store::pack::{BlockCache, Pack};

/// Most bytes of decoded blocks that are cached while sizes are computed.
const CACHE_BYTES: usize = 16 << 20;

/// The size of a measured pack and of its items.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct PackSize {
    /// Bytes of the file, without parity.
    pub bytes: u64,
    /// The share of each item in the file, including its index entry, in order.
    pub items: Vec<u64>,
}

impl PackDraft<'_> {
    /// Builds the pack in memory, and returns its size without parity.
    ///
    /// # Errors
    /// The errors of [`PackDraft::write`], except those of a disk.
    pub(in crate::store) fn measure(&self) -> Result<u64> {
        Ok(self.pack()?.0.bytes)
    }

    /// Measures the pack as [`PackDraft::measure`] does, with the share of each item.
    ///
    /// # Errors
    /// The errors of [`PackDraft::measure`].
    pub(in crate::store) fn measure_items(&self) -> Result<PackSize> {
        let (written, bytes) = self.pack()?;
        let pack = Pack::in_memory(bytes, written.id, self.store)?;
        let cache = BlockCache::new(CACHE_BYTES);
        let ordinals = 0..u32::try_from(self.items.len()).unwrap_or(u32::MAX);
        let items = ordinals.map(|ordinal| Ok(pack.sizes(ordinal, &cache)?.1));
        Ok(PackSize { bytes: written.bytes, items: items.collect::<Result<_>>()? })
    }

    fn pack(&self) -> Result<(PackFileSize, Bytes)> {
        let (ids, file) = (self.ids()?, MemoryFile::default());
        let written = Packer::new(self, &ids, &file).run()?;
        Ok((written, file.into_bytes().into()))
    }
}
