//! The ids of an open pack, listed in it or computed from its objects.

use std::fmt;

use bytes::Bytes;

use super::frames::Frames;
use super::identify::IdentifiedObjects;
use crate::object::{ID_BYTES, Kind, ObjectId};
use crate::store::pack::format::index::{IdIndex, UNKNOWN};
use crate::store::pack::format::layout::{
    GONE_NOTE_BYTES, HEADER_BYTES, IdsInfo, ids_checksum, note,
};
use crate::store::pack::{BlockCache, Tombstone};

/// Most bytes of decoded blocks that are cached while ids are computed.
const CACHE_BYTES: usize = 32 << 20;

/// The ids of a pack, verified.
#[derive(Debug)]
pub(in crate::store::pack) struct PackIds {
    /// The ids of objects, then of gone ones.
    pub(in crate::store::pack) index: IdIndex,
    objects: u32,
    /// Kind and reason of each gone id.
    pub(in crate::store::pack) notes: Bytes,
    /// True if the ids were computed, which reads all objects.
    pub(in crate::store::pack) is_computed: bool,
    /// True if the pack lists ids and they are damaged.
    pub(super) is_damaged: bool,
    /// The reasons why some ids are unknown.
    pub(super) problems: Vec<String>,
    /// True if a temporary error is among the reasons: all ids may be known the next time.
    pub(super) may_pass: bool,
}

/// A place that stores the computed ids of a pack for the next process.
pub(in crate::store) trait IdsCache: fmt::Debug + Send + Sync {
    /// Returns the `bytes` stored bytes of ids and notes, if they exist and are intact.
    fn read(&self, bytes: usize) -> Option<Bytes>;

    /// Stores the bytes of ids and notes. May fail silently.
    fn keep(&self, ids: &[u8]);
}

impl PackIds {
    /// Reads and verifies the ids listed in the bytes of a pack.
    pub(in crate::store::pack) fn read(pack: &Bytes, info: &IdsInfo) -> Option<Self> {
        let end = info.end().filter(|end| *end <= pack.len() && info.is_listed())?;
        let front = pack.slice(HEADER_BYTES..end);
        let (index, notes) = Self::divide(front.clone(), info)?;
        (ids_checksum([&*front]) == info.checksum).then(|| Self::found(index, notes, info))
    }

    /// Splits the bytes between header and frames into ids and notes, if their number matches
    /// `info`.
    pub(super) fn divide(mut rest: Bytes, info: &IdsInfo) -> Option<(IdIndex, Bytes)> {
        let [column, notes, slots] = info.bytes()?;
        if rest.len() != column.checked_add(notes)?.checked_add(slots)? {
            return None;
        }
        let column = rest.split_to(column);
        let notes = rest.split_to(notes);
        Some((IdIndex::open(column, rest, info.slots)?, notes))
    }

    /// Reads the stored ids of a pack that lists none.
    pub(in crate::store::pack) fn kept(beside: &dyn IdsCache, info: &IdsInfo) -> Option<Self> {
        let column = (info.len() as usize).checked_mul(ID_BYTES)?;
        let notes = (info.gone as usize).checked_mul(GONE_NOTE_BYTES)?;
        let mut rest = beside.read(column.checked_add(notes)?)?;
        let index = IdIndex::build(rest.split_to(column)).ok()?;
        Some(Self::found(index, rest, info))
    }

    /// Returns the ids of a verified index, with the notes on gone ones.
    pub(in crate::store::pack) fn found(index: IdIndex, notes: Bytes, info: &IdsInfo) -> Self {
        let (objects, problems) = (info.objects, Vec::new());
        let (is_computed, is_damaged, may_pass) = (false, false, false);
        Self { index, objects, notes, is_computed, is_damaged, problems, may_pass }
    }

    /// Computes the ids of the readable objects, with the reasons why others are unknown. Reads all
    /// objects. Uses no other threads, since those may wait for the result.
    pub(super) fn identified(frames: &Frames, info: &IdsInfo) -> Self {
        let cache = BlockCache::new(CACHE_BYTES);
        let found = IdentifiedObjects::read(frames, None, &cache);
        let mut column = vec![0; info.len() as usize * ID_BYTES];
        for (ordinal, slot) in (0..).zip(column.chunks_exact_mut(ID_BYTES)) {
            slot.copy_from_slice(
                found.id_at(ordinal).as_ref().map_or(&UNKNOWN, |id| id.as_bytes()),
            );
        }
        let mut notes = vec![0; info.gone as usize * GONE_NOTE_BYTES];
        for (ordinal, (gone, kind)) in found.gone() {
            let at = ordinal.checked_sub(info.objects).map(|at| at as usize * GONE_NOTE_BYTES);
            if let Some(note) = at.and_then(|at| notes.get_mut(at..at + GONE_NOTE_BYTES)) {
                note.copy_from_slice(&[kind.code(), gone.code()]);
            }
        }
        let (mut problems, may_pass, objects) = (found.problems, found.may_pass, info.objects);
        let index = IdIndex::build(column.into()).unwrap_or_else(|twice| {
            problems.push(format!("{twice} occurs twice"));
            IdIndex::unknown(info.len())
        });
        let (notes, is_computed, is_damaged) = (notes.into(), true, false);
        Self { index, objects, notes, is_computed, is_damaged, problems, may_pass }
    }

    /// Computes the ids of the objects of a pack whose listed ids are damaged.
    pub(super) fn recompute(frames: &Frames, info: &IdsInfo) -> Self {
        let mut ids = Self::identified(frames, info);
        ids.is_damaged = true;
        ids
    }

    /// Returns the bytes of ids and notes, if they were computed and are complete.
    pub(super) fn computed(&self) -> Option<Vec<u8>> {
        let is_whole = self.is_computed && self.problems.is_empty();
        is_whole.then(|| [&**self.index.stored().0, &*self.notes].concat())
    }

    /// Returns the ids without content.
    pub(in crate::store::pack) fn tombstones(
        &self,
    ) -> impl Iterator<Item = (ObjectId, Kind, Tombstone)> {
        (self.objects..self.index.len()).filter_map(|ordinal| {
            let (gone, kind) = note(&self.notes, ordinal - self.objects)?;
            Some((self.index.id_at(ordinal)?, kind, gone))
        })
    }
}
