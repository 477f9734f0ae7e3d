//! Verifies every object of a pack, for an examination of the store.

use std::ops::Range;

use rayon::prelude::*;

use crate::error::{Error, ErrorKind, Result};
use crate::object::{Kind, ObjectId, Operation, verify};
use crate::store::pack::format::layout::{BlockInfo, BlockKind};
use crate::store::pack::{BlockCache, Pack, PackLookup, damaged_ids_error};
use crate::store::{Finding, FindingKind};

impl Pack {
    /// Returns true if the ids of the pack were computed from its objects.
    pub(in crate::store) fn is_computed(&self) -> bool {
        self.ids().is_computed
    }

    /// Returns the ids and notes on gone ones, if they were computed and are complete.
    pub(in crate::store) fn computed_ids(&self) -> Option<Vec<u8>> {
        self.ids().computed()
    }

    /// Verifies the ids, if not done before, and describes their problem: the listed ids are
    /// damaged, or some objects are unreadable, so that their ids cannot be computed. Look-ups do
    /// not find those objects, though they may be in the pack.
    pub(in crate::store) fn problem(&self) -> Option<String> {
        let lost = self.ids().problems.first().map(|first| {
            let unknown = self.unknown_count();
            format!("{unknown} of its objects cannot be identified: {first}")
        });
        if !self.ids().is_damaged {
            return lost;
        }
        let damage = damaged_ids_error(self.id);
        Some(lost.map_or_else(|| damage.to_string(), |lost| format!("{damage}, and {lost}")))
    }

    /// Returns the problem as a finding, if the ids were verified already.
    pub(in crate::store) fn known_problem(&self) -> Option<Finding> {
        if !self.ids.is_verified() {
            return None;
        }
        let (kind, place) = (FindingKind::Damage, self.id.file_name());
        self.problem().map(|message| Finding { kind, place, message })
    }

    /// Fails if some ids are unknown because of a temporary error of the disk.
    ///
    /// # Errors
    /// `Io`: the caller may try again.
    pub(in crate::store) fn check_ids_known(&self) -> Result<()> {
        match self.problem().filter(|_| self.ids().may_pass) {
            Some(message) => Err(Error::new(ErrorKind::Io, message)),
            None => Ok(()),
        }
    }

    /// Returns the number of objects and gone ids whose ids are unknown.
    pub(in crate::store) fn unknown_count(&self) -> u64 {
        let ordinals = 0..self.footer.ids.len();
        ordinals.filter(|at| self.ids().index.id_at(*at).is_none()).count() as u64
    }

    /// Counts the ids of the pack that the index misses or misplaces. Unknown ids are reported by
    /// [`problem`](Self::problem) instead.
    pub(in crate::store) fn count_misindexed(&self) -> usize {
        let ids = (0..self.len()).filter_map(|ordinal| Some((ordinal, self.id_at(ordinal)?)));
        let objects = ids.filter(|(ordinal, id)| {
            let found = self.find(id);
            !matches!(found, Some(PackLookup::Object { ordinal: at, .. }) if at == *ordinal)
        });
        let noted = self
            .tombstones()
            .filter(|(id, kind, why)| self.find(id) == Some(PackLookup::Tombstone(*why, *kind)));
        let known = match self.lists_ids() {
            true => self.tombstone_count() as usize,
            false => self.tombstones().count(),
        };
        let gone = known.saturating_sub(noted.count());
        objects.count() + gone
    }

    /// Reads every object; returns those that do not verify.
    pub(in crate::store) fn verify_objects(&self, cache: &BlockCache) -> Vec<(ObjectId, Error)> {
        let blocks: Vec<BlockInfo> = self.frames.blocks().map(|(_, block)| *block).collect();
        let objects = blocks.into_par_iter().filter(|b| matches!(b.kind, BlockKind::Objects(_)));
        let bad = objects.flat_map_iter(|block| {
            let verified = (block.first..block.first + block.objects).filter_map(|ordinal| {
                let (id, kind) = self.id_at(ordinal).zip(self.kind_at(ordinal))?;
                let read = self.read(ordinal, cache);
                let verified = read.and_then(|bytes| verify(kind, &bytes, &id));
                verified.err().map(|error| (id, error.at(self.place(ordinal))))
            });
            let bad: Vec<_> = verified.collect();
            self.frames.release_pages_behind(&block);
            bad
        });
        bad.collect()
    }

    /// Tries every object, block by block: returns ordinal, id, kind, and whether it verifies.
    /// Holds a block while its objects are read, and tries a block that cannot be decompressed only
    /// once.
    pub(in crate::store) fn try_objects(
        &self,
        cache: &BlockCache,
    ) -> impl Iterator<Item = (u32, ObjectId, Kind, bool)> {
        let blocks = self.frames.blocks().map(|(number, block)| (number, *block));
        let blocks = blocks.filter(|(_, b)| matches!(b.kind, BlockKind::Objects(_)));
        blocks.flat_map(move |(number, block)| {
            let open = self.block(number, cache).ok();
            (block.first..block.first + block.objects).filter_map(move |ordinal| {
                let (id, kind) = self.id_at(ordinal).zip(self.kind_at(ordinal))?;
                let read = open.as_ref().and_then(|open| open.read(ordinal, cache).ok());
                let is_good = read.is_some_and(|bytes| verify(kind, &bytes, &id).is_ok());
                Some((ordinal, id, kind, is_good))
            })
        })
    }

    /// Returns the objects of a kind, by ordinal.
    pub(in crate::store) fn of_kind(&self, kind: Kind) -> impl Iterator<Item = (u32, ObjectId)> {
        let ordinals = self.ordinals_of(kind).flatten();
        ordinals.filter_map(|ordinal| Some((ordinal, self.id_at(ordinal)?)))
    }

    /// Returns the ordinals of the objects of a kind, block by block.
    pub(in crate::store) fn ordinals_of(&self, kind: Kind) -> impl Iterator<Item = Range<u32>> {
        let blocks = self.frames.blocks().map(|(_, block)| *block);
        let blocks = blocks.filter(move |block| block.kind == BlockKind::Objects(kind));
        blocks.map(|block| block.first..block.first + block.objects)
    }

    /// Returns true if the frames of objects of a kind verify. Decompresses nothing.
    pub(in crate::store) fn has_valid_frames(&self, kind: Kind) -> bool {
        let blocks: Vec<_> = self.frames.blocks().map(|(number, block)| (number, *block)).collect();
        let of_kind = blocks.par_iter().filter(|(_, b)| b.kind == BlockKind::Objects(kind));
        of_kind.all(|(number, block)| self.frames.stored(*number, block).is_ok())
    }

    /// Returns the sequence and id of the newest readable operation in the pack.
    pub(in crate::store) fn newest_operation(&self, cache: &BlockCache) -> Option<(u64, ObjectId)> {
        self.operations(cache).max()
    }

    /// Returns the sequences and ids of the readable operations in the pack.
    pub(in crate::store) fn operations(
        &self,
        cache: &BlockCache,
    ) -> impl Iterator<Item = (u64, ObjectId)> {
        self.of_kind(Kind::Operation).filter_map(|(ordinal, id)| {
            let bytes = self.read(ordinal, cache).ok()?;
            verify(Kind::Operation, &bytes, &id).ok()?;
            Operation::decode(&bytes).ok().map(|operation| (operation.sequence, id))
        })
    }
}
