//! Reads a bundle, which may come from an untrusted source.

use std::fmt;
use std::sync::Arc;

use super::super::{BlockCache, PackId};
use super::{
    FOOTER_BYTES, Footer, MAX_FRONT_BYTES, MAX_OPERATIONS_BYTES, OUTSIDE_BYTES, Outside,
    front_checksum, read_outside, salt, unreadable,
};
use crate::error::{Error, Result};
use crate::object::{Kind, Object, ObjectId};
use crate::store::format::codec::{decompress_block, is_plausible_block};
use crate::store::io::ReadAt;
use crate::store::medium::Medium;
use crate::store::pack::format::layout::{
    BlockInfo, BlockKind, FRAME_HEADER_BYTES, TABLE_ENTRY_BYTES, decode_table,
    max_unlisted_objects, table_checksum,
};
use crate::store::pack::read::frames::{FrameContainer, Frames};

/// Most bytes of decoded blocks that are cached while reading: bases, and parts.
pub(super) const CACHE_BYTES: usize = 24 << 20;

/// An open bundle.
pub struct BundleFile {
    pub(super) footer: Footer,
    pub(super) name: ObjectId,
    pub(super) bytes: u64,
    pub(super) front: String,
    pub(super) outside: Vec<(ObjectId, Kind, Outside)>,
    /// The stored bytes of the operations.
    pub(super) operations: Vec<u8>,
    pub(super) frames: Frames,
    /// First ordinal, objects and kind of each block of objects.
    pub(super) blocks: Vec<(u32, u32, Kind)>,
}

impl BundleFile {
    /// Opens a bundle and verifies everything except its frames. Reads some kilobytes, 34 bytes for
    /// each outside id, and some for each operation.
    ///
    /// # Errors
    /// `Corrupt` when it is not a complete bundle, `Io` when it cannot be read.
    pub fn open(file: Arc<dyn ReadAt>) -> Result<Self> {
        let bytes = file.size().map_err(unreadable)?;
        let read = |at: u64, len: usize| -> Result<Vec<u8>> {
            let mut buffer = vec![0; len];
            match file.read_at(&mut buffer, at).map_err(unreadable)? {
                read if read == len => Ok(buffer),
                _ => Err(refuse(at, "more bytes", "the end")),
            }
        };
        let footer_at = bytes.checked_sub(FOOTER_BYTES as u64);
        let footer_at = footer_at.ok_or_else(|| refuse(0, "a bundle", "too few bytes"))?;
        let footer = read(footer_at, FOOTER_BYTES)?;
        let footer = footer.first_chunk().and_then(Footer::decode);
        let (footer, name) =
            footer.ok_or_else(|| malformed(footer_at, "the footer of a bundle"))?;
        let totals = footer.totals().filter(|totals| {
            let table = u64::from(footer.blocks) * TABLE_ENTRY_BYTES as u64;
            totals.start <= totals.end
                && totals.end.checked_add(table) == Some(footer_at)
                && footer.front_bytes <= MAX_FRONT_BYTES
                && is_plausible(footer.operations, footer.operations_bytes)
                && u64::from(footer.blocks) <= bytes / FRAME_HEADER_BYTES as u64
                && u64::from(footer.objects) <= max_unlisted_objects(bytes)
        });
        let totals = totals.ok_or_else(|| malformed(footer_at, "object counts in range"))?;

        let len = |bytes: u64| usize::try_from(bytes).unwrap_or(usize::MAX);
        let mut front = read(0, len(totals.start))?;
        if front_checksum(&front) != footer.front {
            return Err(malformed(0, "the manifest of that bundle"));
        }
        let operations = front.split_off(front.len() - footer.operations as usize);
        let outside = front.split_off(len(footer.front_bytes));
        let outside: Option<Vec<_>> = outside.chunks(OUTSIDE_BYTES).map(read_outside).collect();
        let outside =
            outside.ok_or_else(|| malformed(footer.front_bytes, "ids of outside objects"))?;
        let front = String::from_utf8(front).map_err(|_| malformed(0, "text in UTF-8"))?;

        let table = read(totals.end, len(footer_at - totals.end))?;
        let whole = table_checksum(&table) == footer.table;
        let table = Some(table).filter(|_| whole).and_then(|table| decode_table(&table, &totals));
        let table = table.ok_or_else(|| malformed(totals.end, "a table of blocks"))?;
        let table: Vec<_> = table.into_iter().map(Some).collect();
        let blocks = object_blocks(&table);
        let salt = salt(&footer.front);
        let frames = Frames::new(
            PackId(name),
            FrameContainer::Bundle,
            Medium::File(file, bytes),
            salt,
            table,
        );
        let name = ObjectId::from_bytes(name);
        Ok(Self { footer, name, bytes, front, outside, operations, frames, blocks })
    }

    /// Returns the checksum of the whole file.
    #[must_use]
    pub fn checksum(&self) -> ObjectId {
        self.name
    }

    /// Returns the size of the file.
    #[must_use]
    pub fn file_bytes(&self) -> u64 {
        self.bytes
    }

    /// Returns the number of objects.
    #[must_use]
    pub fn len(&self) -> u32 {
        self.footer.objects
    }

    /// Returns true if it holds no object.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.footer.objects == 0
    }

    /// Returns the declared bytes of the objects: [`BundleFile::visit`] never passes more.
    #[must_use]
    pub fn raw_bytes(&self) -> u64 {
        self.footer.raw_bytes
    }

    /// Returns the manifest, as text.
    #[must_use]
    pub fn front(&self) -> &str {
        &self.front
    }

    /// Returns the ids of referenced objects outside of the bundle.
    #[must_use]
    pub fn outside(&self) -> &[(ObjectId, Kind, Outside)] {
        &self.outside
    }

    /// Returns the operations, at most 16 MiB. The layer above defines their encoding.
    ///
    /// # Errors
    /// `Corrupt` when they do not decompress.
    pub fn operations(&self) -> Result<Vec<u8>> {
        let raw_bytes = u32::try_from(self.footer.operations_bytes).unwrap_or(u32::MAX);
        decompress_block(&self.operations, &[], raw_bytes).map_err(|error| {
            let place = "the operations of the bundle";
            Error::malformed(place, "a valid zstd frame").with_source(error)
        })
    }

    /// Verifies every byte, and passes each object with its id to `visit`, link targets first.
    ///
    /// Memory holds three blocks, the object, and 32 bytes for each object.
    ///
    /// # Errors
    /// `Corrupt` when something does not verify, and the errors of `visit`.
    pub fn visit(&self, visit: &mut dyn FnMut(ObjectId, Object) -> Result<()>) -> Result<()> {
        let (errors, headers) = self.frames.verify();
        if let Some(error) = errors.into_iter().next() {
            return Err(error);
        }
        if headers != self.footer.frames {
            return Err(malformed(0, "the frames that the footer names"));
        }
        let cache = BlockCache::new(CACHE_BYTES);
        let mut ids: Vec<ObjectId> = Vec::new();
        let mut left = self.footer.raw_bytes;
        for (first, objects, kind) in &self.blocks {
            for ordinal in *first..first.saturating_add(*objects) {
                let number = self.frames.locate(ordinal).map(|(number, ..)| number);
                let block = self.frames.decode(number.unwrap_or(u32::MAX), &cache)?;
                let size = self.frames.with_entry(ordinal, &cache, |entry, _| entry.raw_bytes)?;
                left = left.checked_sub(size.into()).ok_or_else(|| self.size_error())?;
                let bytes =
                    self.frames.read_in(&block, ordinal, &cache, |link| self.id_at(&ids, link))?;
                let bytes = block.unshared(bytes);
                let id = ObjectId::of(*kind, &bytes);
                ids.push(id);
                visit(id, Object { kind: *kind, bytes })?;
            }
        }
        if left == 0 { Ok(()) } else { Err(self.size_error()) }
    }

    /// Resolves a link, if the id of its target is already known.
    fn id_at(&self, ids: &[ObjectId], link: u32) -> Option<ObjectId> {
        match link < self.footer.objects {
            true => ids.get(link as usize).copied(),
            false => self.outside_at(link),
        }
    }

    /// Returns the outside id with this ordinal.
    pub(super) fn outside_at(&self, link: u32) -> Option<ObjectId> {
        let outside = link.checked_sub(self.footer.objects)?;
        self.outside.get(outside as usize).map(|(id, ..)| *id)
    }

    fn size_error(&self) -> Error {
        let expected = format_args!("{} bytes of objects", self.footer.raw_bytes);
        Error::malformed("the bundle", expected)
    }
}

/// Omits content, which must not appear in messages.
impl fmt::Debug for BundleFile {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("BundleFile").field("checksum", &self.name).finish_non_exhaustive()
    }
}

/// Returns first ordinal, objects and kind of the blocks of objects, ascending.
pub(super) fn object_blocks(table: &[Option<BlockInfo>]) -> Vec<(u32, u32, Kind)> {
    let blocks = table.iter().flatten().filter_map(|block| match block.kind {
        BlockKind::Objects(kind) => Some((block.first, block.objects, kind)),
        BlockKind::Tombstone | BlockKind::Parts => None,
    });
    blocks.collect()
}

/// Checks the declared size of the operations, before anything is allocated.
pub(super) fn is_plausible(stored_bytes: u32, raw_bytes: u64) -> bool {
    let raw = u32::try_from(raw_bytes).is_ok_and(|raw| is_plausible_block(stored_bytes, raw));
    raw && raw_bytes <= MAX_OPERATIONS_BYTES
}

fn refuse(at: u64, expected: &str, found: &str) -> Error {
    Error::corrupt(format_args!("the bundle at {at}"), expected, found)
}

fn malformed(at: u64, expected: &str) -> Error {
    Error::malformed(format_args!("the bundle at {at}"), expected)
}
