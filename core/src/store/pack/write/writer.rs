//! Writes a pack, reads everything back, and only then renames it to its final name.
//!
//! So a pack under its name is complete. Until then its file is `<salt>.tmp`.

use std::io::ErrorKind as IoErrorKind;
use std::path::Path;
use std::sync::Arc;

use rayon::prelude::*;

use super::packer::Packer;
use crate::error::{Error, Result};
use crate::object::{ObjectId, verify};
use crate::store::dir::failed;
use crate::store::format::id::hex;
use crate::store::io::{Access, Io, IoFile};
use crate::store::pack::format::index::IdIndex;
use crate::store::pack::format::layout::{BlockInfo, BlockKind, MAX_OBJECTS};
use crate::store::pack::format::pack_draft::{PackDraft, PackFileSize};
use crate::store::pack::{BlockCache, Pack, PackId, PackLookup};

/// Most bytes of decoded blocks that are cached while reading back: bases, and parts.
const CACHE_BYTES: usize = 8 << 20;

impl PackDraft<'_> {
    /// Writes the pack into the directory `packs`. It is durable under its name when this returns.
    /// After an error no file remains.
    ///
    /// # Errors
    /// `InvalidInput` when the draft is empty or an id is repeated, the errors of the source,
    /// `Corrupt` when the pack does not read back, `Io` when the disk refuses.
    pub(in crate::store) fn write(&self, io: &dyn Io, packs: &Path) -> Result<PackFileSize> {
        let ids = self.ids()?;
        let temporary = packs.join(format!("{}.tmp", hex(&self.salt)));
        let failed = failed("write", &temporary);
        let file = io.create(&temporary).map_err(&failed)?;
        let written = Packer::new(self, &ids, &*file).run().map_err(|e| e.at(temporary.display()));
        let written = written.and_then(|written| {
            file.sync_data().map_err(&failed)?;
            self.check(&file, written.id)?;
            self.publish(io, packs, &temporary, written.id)?;
            Ok(written)
        });
        if written.is_err() {
            // It may have its final name already; ignore a failure.
            let _ = io.remove(&temporary);
        }
        written
    }

    /// Builds the index of its ids.
    pub(in crate::store::pack) fn ids(&self) -> Result<IdIndex> {
        let count = self.items.len() + self.gone.len();
        if count == 0 {
            return Err(Error::invalid("a pack of no objects"));
        }
        if count > MAX_OBJECTS as usize {
            return Err(Error::limit("objects of a pack", MAX_OBJECTS.into(), count as u64));
        }
        let mut column = Vec::with_capacity(count * size_of::<ObjectId>());
        let gone = self.gone.iter().map(|(id, ..)| id);
        for id in self.items.iter().map(|item| &item.id).chain(gone) {
            column.extend_from_slice(id.as_bytes());
        }
        let twice = |id| Error::invalid(format!("{id} occurs twice in one pack"));
        IdIndex::build(column.into()).map_err(twice)
    }

    /// Reads everything back.
    fn check(&self, file: &Arc<dyn IoFile>, id: PackId) -> Result<()> {
        let pack = Pack::open(file, id, self.store)?;
        let cache = BlockCache::new(CACHE_BYTES);
        let blocks: Vec<(u32, &BlockInfo)> = pack.frames.blocks().collect();
        let objects =
            blocks.into_par_iter().filter(|(_, b)| matches!(b.kind, BlockKind::Objects(_)));
        objects.try_for_each(|(number, block)| {
            let open = pack.block(number, &cache)?;
            pack.frames.release_pages_behind(block);
            (block.first..block.first + block.objects).try_for_each(|ordinal| {
                let item = self.items.get(ordinal as usize);
                let item = item.ok_or_else(|| Error::corrupt(id.file_name(), "an item", "none"))?;
                if pack.find(&item.id) != Some(PackLookup::Object { ordinal, kind: item.kind }) {
                    return Err(Error::malformed(id.file_name(), item.id));
                }
                verify(item.kind, &open.read(ordinal, &cache)?, &item.id)
            })
        })?;
        let findings = pack.verify_frames();
        match findings.first() {
            Some(finding) => Err(Error::corrupt(&finding.place, "good frames", &finding.message)),
            None => Ok(()),
        }
    }

    fn publish(&self, io: &dyn Io, packs: &Path, temporary: &Path, id: PackId) -> Result<()> {
        let path = packs.join(id.file_name());
        let failed = failed("publish", &path);
        match io.publish(temporary, &path) {
            Err(source) if source.kind() == IoErrorKind::AlreadyExists => {
                self.check(&io.open_named(&path, Access::Read)?, id)?;
                io.remove(temporary).map_err(&failed)?;
            }
            published => published.map_err(&failed)?,
        }
        io.sync_dir(packs).map_err(&failed).inspect_err(|_| {
            let _ = io.remove(&path);
        })
    }
}
