//! Reads a pack by its frames alone, when other parts of it are damaged.
//!
//! Frames are found one after another, and after a damaged one by searching. Payloads may contain
//! bytes that look like a frame. So a frame must have the salt of the pack, which was unpredictable
//! when payloads were written, and two valid checksums.
//!
//! If the ids of the pack do not verify, or it lists none, they are computed from the objects
//! (`identify.rs`). Objects with links need the ids of their targets first, and are lost if a
//! target is lost.

use std::mem;
use std::sync::Arc;

use bytes::Bytes;

use super::frames::{FrameContainer, Frames};
use super::identify::IdentifiedObjects;
use super::ids::PackIds;
use crate::error::{Error, Result};
use crate::object::{Kind, ObjectId};
use crate::store::format::id::StoreId;
use crate::store::io::IoFile;
use crate::store::medium::Medium;
use crate::store::pack::format::layout::{
    BlockInfo, FRAME_HEADER_BYTES, FRAME_MAGIC, Footer, FrameHeader, HEADER_BYTES, PackHeader,
    Salt, stored_checksum,
};
use crate::store::pack::{BlockCache, Pack, PackId, Tombstone, map};
use crate::store::{Finding, FindingKind};

/// The content of a pack, as read from its frames.
#[derive(Debug)]
pub(in crate::store) struct RecoveredObjects {
    id: PackId,
    frames: Frames,
    /// The ids that the pack holds, if they verify.
    known: Option<PackIds>,
    /// The readable objects and gone ids.
    found: IdentifiedObjects,
    findings: Vec<Finding>,
}

impl RecoveredObjects {
    /// Reads every frame of the pack and hashes every object.
    ///
    /// # Errors
    /// `Corrupt` when it is a pack of another store, or its salt is unknown, `Io` when it cannot be
    /// mapped. All other problems are in [`RecoveredObjects::findings`].
    pub(in crate::store) fn read_frames(
        file: &Arc<dyn IoFile>,
        id: PackId,
        store: StoreId,
        cache: &BlockCache,
    ) -> Result<Self> {
        let map = map(&**file, id)?;
        let header = PackHeader::decode(&map).map(|(header, _)| header);
        let place = format!("packs/{}", id.file_name());
        if header.as_ref().is_some_and(|header| header.store != store) {
            return Err(Error::corrupt(place, "a pack of this store", "a pack of another store"));
        }
        let footer = Footer::decode(&map).map(|(footer, _)| footer);
        let salts = [header.as_ref().map(|h| h.salt), footer.as_ref().map(|f| f.salt)];
        let salt = salts.into_iter().flatten().next().or_else(|| first_salt(&map));
        let salt = salt.ok_or_else(|| Error::corrupt(&place, "a pack", "no part that verifies"))?;

        let infos = [header.as_ref().map(|h| h.ids), footer.as_ref().map(|f| f.ids)];
        let known = infos.iter().flatten().find_map(|info| PackIds::read(&map, info));
        let start = infos.into_iter().flatten().next().and_then(|info| info.end());
        let end = footer.and_then(|footer| usize::try_from(footer.table_offset).ok());
        let (table, gaps) = find_frames(&map, &salt, start.unwrap_or(HEADER_BYTES), end);
        let frames = Frames::new(id, FrameContainer::Pack, Medium::Memory(map.into()), salt, table);
        let found =
            IdentifiedObjects::read(&frames, known.as_ref().map(|known| &known.index), cache);
        let mut rebuilt = Self { id, frames, known, found, findings: Vec::new() };
        for (from, to) in gaps {
            rebuilt.report(format_args!("at {from}: no good frame up to {to}"));
        }
        if let Err(error) = Pack::open(file, id, store) {
            rebuilt.report(format_args!("cannot be opened: {error}"));
        }
        for problem in mem::take(&mut rebuilt.found.problems) {
            rebuilt.report(format_args!("{problem}"));
        }
        Ok(rebuilt)
    }

    /// Returns the readable objects, in order of their ordinals.
    pub(in crate::store) fn objects(&self) -> impl Iterator<Item = (u32, ObjectId, Kind)> {
        self.found.ids().filter_map(|(at, id)| Some((at, id, self.frames.kind_at(at)?)))
    }

    /// Returns the ids without content, in order of their ordinals.
    pub(in crate::store) fn tombstones(&self) -> impl Iterator<Item = (ObjectId, Kind, Tombstone)> {
        let found = self.found.gone();
        let found =
            found.filter_map(|(at, (gone, kind))| Some((self.found.id_at(at)?, kind, gone)));
        self.known.iter().flat_map(PackIds::tombstones).chain(found)
    }

    /// Returns the damage, and the objects lost by it.
    pub(in crate::store) fn findings(&self) -> &[Finding] {
        &self.findings
    }

    /// Returns the bytes of an object, unverified.
    ///
    /// # Errors
    /// `Corrupt` when the block does not verify.
    pub(in crate::store) fn read(&self, ordinal: u32, cache: &BlockCache) -> Result<Bytes> {
        self.frames.read(ordinal, cache, |link| match &self.known {
            Some(known) => known.index.id_at(link),
            None => self.found.id_at(link),
        })
    }

    fn report(&mut self, message: std::fmt::Arguments<'_>) {
        self.findings.push(Finding {
            kind: FindingKind::Damage,
            place: format!("packs/{}", self.id.file_name()),
            message: message.to_string(),
        });
    }
}

/// Returns the salt of the first good frame. Only ids precede it, and they are digests.
fn first_salt(map: &[u8]) -> Option<Salt> {
    let mut places = (0..).zip(map.windows(FRAME_MAGIC.len()));
    places.find_map(|(at, bytes): (usize, _)| {
        let frame = map.get(at..).filter(|_| *bytes == FRAME_MAGIC)?;
        let salt = frame.get(FRAME_MAGIC.len()..)?.first_chunk()?;
        FrameHeader::decode(frame, at as u64, salt).map(|_| *salt)
    })
}

/// Returns the frames with this salt, by their numbers, and the ranges without one from `start` to
/// `end`, if `end` is known.
pub(in crate::store::pack) fn find_frames(
    map: &[u8],
    salt: &Salt,
    start: usize,
    end: Option<usize>,
) -> (Vec<Option<BlockInfo>>, Vec<(usize, usize)>) {
    let mut scan = FrameScan { map, salt, table: Vec::new(), gaps: Vec::new() };
    scan.run(start, end);
    (scan.table, scan.gaps)
}

/// A search for the frames of a pack.
struct FrameScan<'a> {
    map: &'a [u8],
    salt: &'a Salt,
    table: Vec<Option<BlockInfo>>,
    /// Ranges of the file without a valid frame: from, to.
    gaps: Vec<(usize, usize)>,
}

impl FrameScan<'_> {
    /// Reads all frames from `at` to `end`, if `end` is known.
    fn run(&mut self, mut at: usize, end: Option<usize>) {
        while let Some((start, next)) = self.next_frame(at) {
            if start > at {
                self.gaps.push((at, start));
            }
            at = next;
        }
        if let Some(end) = end.filter(|end| *end > at) {
            self.gaps.push((at, end));
        }
    }

    /// Adds the first good frame at or after `from`, and returns its start and end.
    fn next_frame(&mut self, from: usize) -> Option<(usize, usize)> {
        let mut at = from;
        loop {
            let rest = self.map.get(at..)?;
            at += rest.windows(FRAME_MAGIC.len()).position(|bytes| *bytes == FRAME_MAGIC)?;
            if let Some(end) = self.take_frame(at) {
                return Some((at, end));
            }
            at += 1;
        }
    }

    fn take_frame(&mut self, at: usize) -> Option<usize> {
        let frame = self.map.get(at..)?;
        let (header, _) = FrameHeader::decode(frame, at as u64, self.salt)?;
        let end = FRAME_HEADER_BYTES.checked_add(header.block.stored_bytes as usize)?;
        if stored_checksum(frame.get(FRAME_HEADER_BYTES..end)?) != header.stored {
            return None;
        }
        // As many frames as its number fit before it, so this allocates no more than the file.
        let number = header.number as usize;
        if number >= self.table.len() {
            self.table.resize(number + 1, None);
        }
        let known = self.table.get_mut(number)?;
        known.is_none().then(|| *known = Some(header.block))?;
        at.checked_add(end)
    }
}
