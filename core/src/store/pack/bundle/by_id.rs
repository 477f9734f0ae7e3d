//! A bundle with known ids, so that objects can be read at random instead of from its front.

use std::collections::BTreeSet;
use std::fmt;
use std::ops::Range;
use std::sync::Arc;

use super::super::BlockCache;
use super::read::BundleFile;
use crate::error::{Error, Result};
use crate::object::{ID_BYTES, Kind, Object, ObjectId, verify};
use crate::store::io::ReadAt;
use crate::store::pack::format::index::IdIndex;
use crate::store::pack::format::layout::{BlockInfo, BlockKind, FRAME_HEADER_BYTES};

/// Frames of nodes up to this total size are read together with those of commits.
const MAX_NODE_BYTES: u64 = 1 << 20;

/// Most bytes of the newest contents to read together with them.
const MAX_NEWEST_BYTES: u64 = 256 << 10;

/// A bundle, and the ids of its objects in storage order.
pub(in crate::store) struct IndexedBundle {
    file: BundleFile,
    /// The ids of the objects, then of the outside objects: links are ordinals of both.
    ids: IdIndex,
}

impl IndexedBundle {
    /// Opens a bundle with these ids. Reads front, table and footer of the file, and nothing else.
    ///
    /// # Errors
    /// The errors of [`BundleFile::open`], and `Corrupt` if the number of ids differs from that of
    /// objects.
    pub(in crate::store) fn open(file: Arc<dyn ReadAt>, ids: &[u8]) -> Result<Self> {
        let file = BundleFile::open(file)?;
        if ids.len() != (file.len() as usize).saturating_mul(ID_BYTES) {
            return Err(malformed());
        }
        let mut column = ids.to_vec();
        for (id, ..) in file.outside() {
            column.extend_from_slice(id.as_bytes());
        }
        let ids = IdIndex::build(column.into()).map_err(|_| malformed())?;
        Ok(Self { file, ids })
    }

    /// Returns the ordinal of an object in the bundle.
    pub(in crate::store) fn find(&self, id: &ObjectId) -> Option<u32> {
        self.ids.find(id).filter(|ordinal| *ordinal < self.file.len())
    }

    /// Returns the ordinals of the objects of a kind.
    pub(in crate::store) fn ordinals_of(&self, kind: Kind) -> impl Iterator<Item = u32> {
        let blocks = self.file.blocks.iter().filter(move |(.., found)| *found == kind);
        blocks.flat_map(|(first, objects, _)| *first..first.saturating_add(*objects))
    }

    /// Reads and verifies an object; returns it with its id. Costs at most three decompressions,
    /// except for large blobs.
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

    /// Returns the byte ranges of the frames, by their numbers.
    pub(in crate::store) fn frames(&self) -> Vec<Range<u64>> {
        let bytes = |stored: u32| FRAME_HEADER_BYTES as u64 + u64::from(stored);
        let blocks = self.file.frames.blocks();
        blocks
            .map(|(_, info)| info.offset..info.offset.saturating_add(bytes(info.stored_bytes)))
            .collect()
    }

    /// Returns the numbers of the frames needed to read objects, including their bases. Excludes
    /// the frames of the parts of a large blob, which are known only from its block.
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

    /// Returns the number of bytes before the frames.
    pub(in crate::store) fn front_bytes(&self) -> u64 {
        let first = self.file.frames.blocks().map(|(_, info)| info.offset).min();
        first.unwrap_or(self.file.footer.table_offset)
    }

    /// Returns the offset from which everything about history follows: the frames of commits and
    /// tags, the table and the footer. Also includes the frames of nodes, if they have at most
    /// [`MAX_NODE_BYTES`], and then those of the newest contents without a base, up to
    /// [`MAX_NEWEST_BYTES`].
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

/// Omits content, which must not appear in messages.
impl fmt::Debug for IndexedBundle {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("IndexedBundle").field("file", &self.file).finish_non_exhaustive()
    }
}

fn malformed() -> Error {
    Error::malformed("the ids of a bundle", "each of its objects exactly once")
}
