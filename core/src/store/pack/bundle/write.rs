//! Writes the file of a bundle, from front to back.

use std::sync::Arc;

use super::super::Tier;
use super::read::BundleFile;
use super::{
    Footer, MAX_FRONT_BYTES, MAX_OPERATIONS_BYTES, Outside, front_checksum, push_outside, salt,
};
use crate::error::{Error, Result};
use crate::object::{Kind, ObjectId, ObjectSource};
use crate::store::format::codec::compress_block;
use crate::store::format::id::StoreId;
use crate::store::io::IoFile;
use crate::store::pack::format::index::IdIndex;
use crate::store::pack::format::layout::{MAX_OBJECTS, encode_table, table_checksum};
use crate::store::pack::format::pack_draft::{PackDraft, PackItem};
use crate::store::pack::write::packer::Packer;

/// The content of a bundle to write.
pub struct BundleDraft<'a> {
    /// The manifest, as text.
    pub front: &'a str,
    /// Each object once, after all of its link targets.
    pub items: &'a [PackItem],
    /// Ids of referenced objects outside of the bundle.
    pub outside: &'a [(ObjectId, Kind, Outside)],
    /// The operations, encoded.
    pub operations: &'a [u8],
    /// A source of every item.
    pub source: &'a (dyn ObjectSource + Sync),
    /// The effort of compression.
    pub tier: Tier,
}

/// The size of the written file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub struct BundleWritten {
    /// The checksum of the whole file.
    pub checksum: ObjectId,
    /// Bytes of the file.
    pub bytes: u64,
    /// Number of objects.
    pub objects: u32,
    /// Bytes of the objects.
    pub raw_bytes: u64,
}

impl BundleDraft<'_> {
    /// Writes the bundle into an empty file, syncs it, and reads everything back.
    ///
    /// Costs the compression of all objects, and memory for some blocks and 40 bytes an object.
    ///
    /// # Errors
    /// The errors of the source, `LimitExceeded` when the content exceeds a limit of bundles,
    /// `InvalidInput` when an id is repeated or an object precedes one of its link targets,
    /// `Corrupt` when the file does not read back, `Io` when the disk refuses.
    pub fn write(&self, file: &Arc<dyn IoFile>) -> Result<BundleWritten> {
        let ids = self.ids()?;
        let mut front = self.front.as_bytes().to_vec();
        let front_bytes = front.len() as u64;
        if front_bytes > MAX_FRONT_BYTES {
            return Err(Error::limit("bytes of a manifest", MAX_FRONT_BYTES, front_bytes));
        }
        for outside in self.outside {
            push_outside(&mut front, outside);
        }
        let operations = self.operations()?;
        front.extend_from_slice(&operations);
        let checksum = front_checksum(&front);
        let draft = PackDraft {
            store: StoreId([0; 16]),
            salt: salt(&checksum),
            tier: self.tier,
            lists_ids: false,
            items: self.items,
            gone: &[],
            source: self.source,
        };
        let write = |bytes: &[u8], at| {
            let failed = |error| Error::io("write the bundle", error);
            file.write_at(bytes, at).map_err(failed)
        };
        write(&front, 0)?;
        let frames = Packer::new(&draft, &ids, &**file).write_in_order(front.len() as u64)?;
        let mut end = encode_table(&frames.blocks);
        let footer = Footer {
            objects: count(self.items.len()),
            outside: count(self.outside.len()),
            parts: frames.parts,
            blocks: count(frames.blocks.len()),
            operations: count(operations.len()),
            front_bytes,
            raw_bytes: frames.raw_bytes,
            table_offset: frames.end,
            operations_bytes: self.operations.len() as u64,
            front: checksum,
            table: table_checksum(&end),
            frames: frames.headers,
        };
        let (footer, name) = footer.encode();
        end.extend_from_slice(&footer);
        write(&end, frames.end)?;
        file.sync_data().map_err(|error| Error::io("write the bundle", error))?;
        self.check(file)?;
        Ok(BundleWritten {
            checksum: ObjectId::from_bytes(name),
            bytes: frames.end + end.len() as u64,
            objects: count(self.items.len()),
            raw_bytes: frames.raw_bytes,
        })
    }

    /// Encodes the operations for storage.
    fn operations(&self) -> Result<Vec<u8>> {
        let bytes = self.operations.len() as u64;
        if bytes > MAX_OPERATIONS_BYTES {
            return Err(Error::limit("bytes of operations", MAX_OPERATIONS_BYTES, bytes));
        }
        compress_block(self.operations, &[], self.tier.parameters().effort)
            .map_err(|error| Error::io("compress the operations", error))
    }

    fn ids(&self) -> Result<IdIndex> {
        let count = self.items.len() + self.outside.len();
        if count > MAX_OBJECTS as usize {
            return Err(Error::limit("objects of a bundle", MAX_OBJECTS.into(), count as u64));
        }
        let mut column = Vec::with_capacity(count * size_of::<ObjectId>());
        let outside = self.outside.iter().map(|(id, ..)| id);
        for id in self.items.iter().map(|item| &item.id).chain(outside) {
            column.extend_from_slice(id.as_bytes());
        }
        let twice = |id| Error::invalid(format!("{id} occurs twice in one bundle"));
        IdIndex::build(column.into()).map_err(twice)
    }

    /// Reads everything back.
    fn check(&self, file: &Arc<dyn IoFile>) -> Result<()> {
        let bundle = BundleFile::open(Arc::new(Arc::clone(file)))?;
        let mut items = self.items.iter();
        bundle.visit(&mut |id, object| match items.next() {
            Some(item) if (item.id, item.kind) == (id, object.kind) => Ok(()),
            _ => Err(Error::malformed("the new bundle", "the objects that were written")),
        })
    }
}

/// Converts a length that a limit keeps within 32 bits.
fn count(len: usize) -> u32 {
    u32::try_from(len).unwrap_or(u32::MAX)
}
