//! Reads the rest of a damaged bundle.
//!
//! The salt of the frames is the checksum of the front. So a reader with an intact front finds
//! every good frame without the table and the footer, which a torn file lacks. The id of an object
//! depends on its link targets. So a lost block also loses the objects that link to its content,
//! directly or not, and no others.

use std::sync::Arc;

use super::super::{BlockCache, PackId};
use super::read::{BundleFile, CACHE_BYTES, is_plausible, object_blocks};
use super::{Footer, MAX_FRONT_BYTES, OUTSIDE_BYTES, front_checksum, read_outside, salt};
use crate::error::{Error, Result};
use crate::object::{Kind, Object, ObjectId};
use crate::store::format::codec::frame_sizes;
use crate::store::io::ReadAt;
use crate::store::medium::Medium;
use crate::store::pack::format::layout::{BlockInfo, BlockKind, max_unlisted_objects};
use crate::store::pack::read::frames::{FrameContainer, Frames};
use crate::store::pack::read::rebuild::find_frames;

/// Bytes per read: as many as one damaged byte costs in an encrypted file.
const PIECE_BYTES: usize = 64 << 10;

impl BundleFile {
    /// Opens a bundle with a lost or damaged end, by its front and its frames. `counts` must return
    /// the number of objects and of outside ids from the text of the front. Memory holds the whole
    /// file.
    ///
    /// # Errors
    /// `Corrupt` when the front is damaged, or no frame is intact; the errors of `counts`; `Io`
    /// when it cannot be read.
    pub fn open_damaged(
        file: &Arc<dyn ReadAt>,
        counts: &dyn Fn(&str) -> Result<(u32, u32)>,
    ) -> Result<Self> {
        let map = read_zero_filled(&**file)?;
        let bytes = map.len() as u64;
        let end = map.windows(2).position(|pair| pair == b"\n\n").map_or(0, |at| at + 2);
        let front = map.get(..end).map(<[u8]>::to_vec).unwrap_or_default();
        let front = String::from_utf8(front).map_err(|_| damaged_front())?;
        let (objects, outside) = counts(&front)?;
        let ids_end = (outside as usize).saturating_mul(OUTSIDE_BYTES).saturating_add(end);
        let told = map.get(ids_end..).ok_or_else(damaged_front)?;
        let (stored, operations_bytes) = frame_sizes(told).ok_or_else(damaged_front)?;
        let operations = told.get(..stored).map(<[u8]>::to_vec).unwrap_or_default();
        let start = ids_end.saturating_add(stored);
        let checksum = front_checksum(map.get(..start).ok_or_else(damaged_front)?);
        let salt = salt(&checksum);
        let (mut table, _) = find_frames(&map, &salt, start, None);
        let stored_bytes = u32::try_from(stored).unwrap_or(u32::MAX);
        let fits = u64::from(objects) <= max_unlisted_objects(bytes)
            && end as u64 <= MAX_FRONT_BYTES
            && is_plausible(stored_bytes, operations_bytes);
        if !fits || table.iter().all(Option::is_none) {
            return Err(damaged_front());
        }
        for block in &mut table {
            *block = block.filter(|block| fits_in(block, objects));
        }
        drop_overlapping(&mut table);
        let ids = map.get(end..ids_end).unwrap_or_default();
        let outside: Option<Vec<_>> = ids.chunks(OUTSIDE_BYTES).map(read_outside).collect();
        let outside = outside.ok_or_else(damaged_front)?;
        let blocks = object_blocks(&table);
        let raw = table.iter().flatten().map(|block| u64::from(block.raw_bytes)).sum();
        let footer = Footer {
            objects,
            outside: u32::try_from(outside.len()).unwrap_or(u32::MAX),
            parts: 0,
            blocks: u32::try_from(table.len()).unwrap_or(u32::MAX),
            operations: stored_bytes,
            front_bytes: end as u64,
            raw_bytes: raw,
            table_offset: 0,
            operations_bytes,
            front: checksum,
            table: [0; 32],
            frames: [0; 32],
        };
        let frames = Frames::new(
            PackId(checksum),
            FrameContainer::Bundle,
            Medium::Memory(bytes::Bytes::from(map).into()),
            salt,
            table,
        );
        let name = ObjectId::from_bytes(checksum);
        Ok(Self { footer, name, bytes, front, outside, operations, frames, blocks })
    }

    /// Passes each readable object with a known id to `visit`, with its ordinal, link targets
    /// first. Passes at most `limit` bytes.
    ///
    /// # Errors
    /// `LimitExceeded`, and the errors of `visit`.
    pub fn salvage(
        &self,
        limit: u64,
        visit: &mut dyn FnMut(u32, ObjectId, Object) -> Result<()>,
    ) -> Result<()> {
        let cache = BlockCache::new(CACHE_BYTES);
        let mut ids: Vec<Option<ObjectId>> = vec![None; self.footer.objects as usize];
        let mut given = 0_u64;
        for (first, objects, kind) in &self.blocks {
            let number = self.frames.locate(*first).map(|(number, ..)| number);
            let Ok(block) = self.frames.decode(number.unwrap_or(u32::MAX), &cache) else {
                continue;
            };
            for ordinal in *first..first.saturating_add(*objects) {
                let id_at = |link: u32| match ids.get(link as usize) {
                    Some(known) => *known,
                    None => self.outside_at(link),
                };
                let Ok(bytes) = self.frames.read_in(&block, ordinal, &cache, id_at) else {
                    continue;
                };
                given = given.saturating_add(bytes.len() as u64);
                if given > limit {
                    return Err(Error::limit("bytes in the bundle", limit, given));
                }
                let bytes = block.unshared(bytes);
                let id = ObjectId::of(*kind, &bytes);
                if let Some(place) = ids.get_mut(ordinal as usize) {
                    *place = Some(id);
                }
                visit(ordinal, id, Object { kind: *kind, bytes })?;
            }
        }
        Ok(())
    }

    /// Returns the ordinals of all objects of these kinds in the known blocks.
    pub fn ordinals_of(&self, wanted: impl Fn(Kind) -> bool) -> impl Iterator<Item = u32> {
        let blocks = self.blocks.iter().filter(move |(.., kind)| wanted(*kind));
        blocks.flat_map(|(first, objects, _)| *first..first.saturating_add(*objects))
    }
}

/// Returns true if the objects that a block declares can be among `objects` objects.
fn fits_in(block: &BlockInfo, objects: u32) -> bool {
    let end = block.first.checked_add(block.objects);
    match block.kind {
        BlockKind::Objects(_) => end.is_some_and(|end| end <= objects),
        BlockKind::Parts => true,
        BlockKind::Tombstone => false,
    }
}

/// Drops blocks that overlap an earlier one, so that each object is read once, however many frames
/// declare it.
fn drop_overlapping(table: &mut [Option<BlockInfo>]) {
    let has_objects = |block: &BlockInfo| matches!(block.kind, BlockKind::Objects(_));
    let mut order: Vec<&mut Option<BlockInfo>> =
        table.iter_mut().filter(|block| block.as_ref().is_some_and(has_objects)).collect();
    order.sort_by_key(|block| block.as_ref().map(|block| block.first));
    let mut end = 0;
    for slot in order {
        let Some(block) = slot else { continue };
        match block.first >= end {
            true => end = block.first.saturating_add(block.objects),
            false => *slot = None,
        }
    }
}

/// Reads the bytes of a file; unreadable ones are zeros.
fn read_zero_filled(file: &dyn ReadAt) -> Result<Vec<u8>> {
    let bytes = file.size().map_err(|error| Error::io("read the bundle", error))?;
    let mut map = vec![0; usize::try_from(bytes).unwrap_or(usize::MAX)];
    for (at, piece) in (0..).step_by(PIECE_BYTES).zip(map.chunks_mut(PIECE_BYTES)) {
        if file.read_at(piece, at).is_err() {
            piece.fill(0);
        }
    }
    Ok(map)
}

fn damaged_front() -> Error {
    Error::new(
        crate::ErrorKind::Corrupt,
        "the front of the bundle is damaged, and the bundle has no copy of it",
    )
}
