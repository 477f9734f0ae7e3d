//! A bundle whose objects are found by their ids, which somebody kept: it is not read from its front.

use std::collections::BTreeSet;
use std::fmt;
use std::ops::Range;
use std::sync::Arc;

use super::super::BlockCache;
use super::super::index::Ids;
use super::super::layout::{BlockInfo, BlockKind, FRAME_HEADER_BYTES};
use super::read::BundleFile;
use crate::error::{Error, Result};
use crate::object::{ID_BYTES, Kind, Object, ObjectId, verify};
use crate::store::io::ReadAt;

/// Frames of nodes of up to so many bytes are read with those of commits.
const MAX_NODE_BYTES: u64 = 1 << 20;

/// So many bytes of the newest contents are read with them.
const MAX_NEWEST_BYTES: u64 = 256 << 10;

/// A bundle, and the ids of its objects in the order in which these lie.
pub(in crate::store) struct IndexedBundle {
    file: BundleFile,
    /// Of the objects, and of those outside behind them: links stand for either.
    ids: Ids,
}

impl IndexedBundle {
    /// Opens a bundle with these ids. Reads front, table and footer of the file, and nothing else.
    ///
    /// # Errors
    /// Those of [`BundleFile::open`], and `Corrupt` for ids that are not as many as objects.
    pub(in crate::store) fn open(file: Arc<dyn ReadAt>, ids: &[u8]) -> Result<Self> {
        let file = BundleFile::open(file)?;
        if ids.len() != (file.len() as usize).saturating_mul(ID_BYTES) {
            return Err(malformed());
        }
        let mut column = ids.to_vec();
        for (id, ..) in file.outside() {
            column.extend_from_slice(id.as_bytes());
        }
        let ids = Ids::build(column.into()).map_err(|_| malformed())?;
        Ok(Self { file, ids })
    }

    /// The ordinal of an object that lies in it.
    pub(in crate::store) fn find(&self, id: &ObjectId) -> Option<u32> {
        self.ids.find(id).filter(|ordinal| *ordinal < self.file.len())
    }

    /// The ordinals of the objects of a kind.
    pub(in crate::store) fn ordinals_of(&self, kind: Kind) -> impl Iterator<Item = u32> {
        let blocks = self.file.blocks.iter().filter(move |(.., found)| *found == kind);
        blocks.flat_map(|(first, objects, _)| *first..first.saturating_add(*objects))
    }

    /// An object with its id, verified. Costs at most three decompressions, those of large blobs aside.
    ///
    /// # Errors
    /// `Corrupt` when it does not verify, `Io` when it cannot be read.
    pub(in crate::store) fn read(
        &self,
        ordinal: u32,
        cache: &BlockCache,
    ) -> Result<(ObjectId, Object)> {
        let frames = &self.file.frames;
        let bytes = frames.read(ordinal, cache, |link| self.ids.id_at(link))?;
        let kind = frames.kind_at(ordinal).ok_or_else(malformed)?;
        let id = self.ids.id_at(ordinal).ok_or_else(malformed)?;
        verify(kind, &bytes, &id).map_err(|error| error.at(frames.place_of(ordinal)))?;
        Ok((id, Object { kind, bytes }))
    }

    /// Where the frames lie, by their numbers.
    pub(in crate::store) fn frames(&self) -> Vec<Range<u64>> {
        let bytes = |stored: u32| FRAME_HEADER_BYTES as u64 + u64::from(stored);
        let blocks = self.file.frames.blocks();
        blocks
            .map(|(_, info)| info.offset..info.offset.saturating_add(bytes(info.stored_bytes)))
            .collect()
    }

    /// The numbers of the frames that objects are read from, with their bases; of a large blob not those
    /// of its parts, which only its block tells.
    pub(in crate::store) fn frames_of(&self, ordinals: &[u32]) -> BTreeSet<u32> {
        let mut numbers = BTreeSet::new();
        for ordinal in ordinals {
            let mut next = self.file.frames.locate(*ordinal).map(|(number, ..)| number);
            while let Some(number) = next.filter(|number| numbers.insert(*number)) {
                next = self.file.frames.base_of(number);
            }
        }
        numbers
    }

    /// Returns true if these bytes are the frame with this number.
    pub(in crate::store) fn is_frame(&self, number: u32, bytes: &[u8]) -> bool {
        self.file.frames.is_frame(number, bytes)
    }

    /// Bytes in front of the frames.
    pub(in crate::store) fn front_bytes(&self) -> u64 {
        let first = self.file.frames.blocks().map(|(_, info)| info.offset).min();
        first.unwrap_or(self.file.footer.table_offset)
    }

    /// The place from which on lies all that tells of history: the frames of commits and tags, the table
    /// and the footer; those of nodes, if they have no more than [`MAX_NODE_BYTES`]; and then those of the
    /// newest contents, as many as build on no earlier ones and have no more than [`MAX_NEWEST_BYTES`].
    pub(in crate::store) fn tail(&self) -> u64 {
        let blocks: Vec<&BlockInfo> = self.file.frames.blocks().map(|(_, info)| info).collect();
        let first =
            |kind: Kind| blocks.iter().position(|info| info.kind == BlockKind::Objects(kind));
        let place = |number: usize| {
            blocks.get(number).map_or(self.file.footer.table_offset, |info| info.offset)
        };
        let commits = first(Kind::Commit).unwrap_or(blocks.len());
        let nodes = first(Kind::Node)
            .filter(|nodes| place(commits).saturating_sub(place(*nodes)) <= MAX_NODE_BYTES);
        let Some(nodes) = nodes else { return place(commits) };
        let is_newest = |number: &usize| {
            let builds_on_none = blocks.get(*number).is_some_and(|info| info.base.is_none());
            builds_on_none && place(nodes).saturating_sub(place(*number)) <= MAX_NEWEST_BYTES
        };
        place((0..nodes).rev().take_while(is_newest).last().unwrap_or(nodes))
    }
}

/// Content is not for messages.
impl fmt::Debug for IndexedBundle {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("IndexedBundle").field("file", &self.file).finish_non_exhaustive()
    }
}

fn malformed() -> Error {
    Error::malformed("the ids of a bundle", "each of its objects once")
}
