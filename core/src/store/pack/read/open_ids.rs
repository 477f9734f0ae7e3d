//! The ids of an open pack: unverified at first, and verified on demand.
//!
//! As with the index of a sealed segment (`read/sealed.rs`), the first look-ups use unverified ids:
//! a found object is verified when it is read, and a reader that does not find an object verifies
//! all ids before it reports the object as missing. A pack may have a hundred times the objects of
//! a segment, so here each look-up also verifies a piece: many look-ups verify everything, and no
//! commit waits for all of it. If ids turn out to be damaged, they are computed from the objects,
//! as for a pack that lists none.

use std::mem;
use std::sync::{Mutex, OnceLock};

use bytes::Bytes;

use super::frames::Frames;
use super::ids::{IdsCache, PackIds};
use crate::object::{Checksum, ID_BYTES, ObjectId};
use crate::store::lock;
use crate::store::pack::format::index::IdIndex;
use crate::store::pack::format::layout::{IDS_CONTEXT, IdsInfo};
use crate::store::read::index::Filter;

/// Bytes of ids that a look-up verifies, which takes about as long as the look-up.
const PIECE_BYTES: usize = 16 << 10;

/// Bytes to hash before the ids in them are added to the filter, while they are in the processor's
/// cache.
const STRIDE_BYTES: usize = 128 << 10;

/// The ids of an open pack.
#[derive(Debug)]
pub(in crate::store::pack) struct OpenIds {
    info: IdsInfo,
    /// The listed ids, unverified.
    listed: Option<ListedIds>,
    verified: OnceLock<PackIds>,
    /// The progress of verification. A thread waits for `verified` only while it holds this lock.
    verifying: Mutex<IdVerification>,
    /// The place where the ids of a pack that lists none are stored.
    beside: Option<Box<dyn IdsCache>>,
}

/// The bytes between the header of a pack and its frames, unverified.
#[derive(Debug)]
struct ListedIds {
    bytes: Bytes,
    notes: Bytes,
    index: IdIndex,
}

/// The part of the ids that was hashed.
#[derive(Debug, Default)]
struct IdVerification {
    bytes: usize,
    /// `None` until the first byte was hashed.
    found: Option<(Checksum, Filter)>,
}

impl OpenIds {
    /// Opens the ids in the bytes between the header of a pack and its frames, unverified. Returns
    /// `None` if the number of bytes does not match `info`.
    pub(in crate::store::pack) fn listed(bytes: Bytes, info: &IdsInfo) -> Option<Self> {
        let (index, notes) = PackIds::divide(bytes.clone(), info)?;
        let listed = ListedIds { bytes, notes, index };
        Some(Self { listed: Some(listed), ..Self::unlisted(info) })
    }

    /// Returns the ids of a pack that lists none.
    pub(in crate::store::pack) fn unlisted(info: &IdsInfo) -> Self {
        let (verified, verifying) = (OnceLock::new(), Mutex::default());
        Self { info: *info, listed: None, verified, verifying, beside: None }
    }

    /// Sets the place where ids are stored if the pack lists none.
    pub(in crate::store::pack) fn set_cache(&mut self, beside: Box<dyn IdsCache>) {
        self.beside = Some(beside);
    }

    /// Returns true if the ids were verified or computed.
    pub(in crate::store::pack) fn is_verified(&self) -> bool {
        self.verified.get().is_some()
    }

    /// Verifies the listed ids. Returns true if they are damaged. Computes none.
    pub(in crate::store::pack) fn are_damaged(&self) -> bool {
        match (self.verified.get(), &self.listed) {
            (Some(verified), _) => verified.is_damaged,
            (None, Some(listed)) => !lock(&self.verifying).finish(listed, &self.info),
            (None, None) => false,
        }
    }

    /// Returns the verified ids: the listed ones, the ones stored next to the pack, or computed
    /// ones, which reads all objects.
    pub(in crate::store::pack) fn verified(&self, frames: &Frames) -> &PackIds {
        if let Some(verified) = self.verified.get() {
            return verified;
        }
        let mut verifying = lock(&self.verifying);
        if let Some(verified) = self.verified.get() {
            return verified;
        }
        let found = match &self.listed {
            Some(listed) if verifying.finish(listed, &self.info) => {
                let index = listed.index.with(verifying.take_filter());
                PackIds::found(index, listed.notes.clone(), &self.info)
            }
            Some(_) => PackIds::recompute(frames, &self.info),
            None => self.unlisted_ids(frames),
        };
        // All of the ids were read, and most packs are rarely searched.
        frames.release_pages();
        self.verified.get_or_init(|| found)
    }

    fn unlisted_ids(&self, frames: &Frames) -> PackIds {
        let kept = self.beside.as_deref().and_then(|beside| PackIds::kept(beside, &self.info));
        kept.unwrap_or_else(|| {
            let ids = PackIds::identified(frames, &self.info);
            if let Some((beside, stored)) = self.beside.as_deref().zip(ids.computed()) {
                beside.keep(&stored);
            }
            ids
        })
    }

    /// Returns the ids, possibly unverified: sufficient if the caller verifies the result.
    pub(in crate::store::pack) fn unverified(&self, frames: &Frames) -> &IdIndex {
        match (self.verified.get(), &self.listed) {
            (None, Some(listed)) => &listed.index,
            (Some(_), _) | (None, None) => &self.verified(frames).index,
        }
    }

    /// Returns the ordinal of an id. `None` is certain once the ids [are
    /// verified](Self::is_verified). The ordinal of a gone id is always certain.
    pub(in crate::store::pack) fn find(&self, id: &ObjectId, frames: &Frames) -> Option<u32> {
        let found = match &self.listed {
            Some(listed) if !self.is_verified() => {
                self.verify_next(listed, frames);
                let found = self.unverified(frames).find(id)?;
                (found < self.info.objects).then_some(found)
            }
            _ => None,
        };
        found.or_else(|| self.verified(frames).index.find(id))
    }

    /// Verifies another piece, unless another thread is doing so.
    fn verify_next(&self, listed: &ListedIds, frames: &Frames) {
        let Ok(mut verifying) = self.verifying.try_lock() else { return };
        verifying.take(listed, &self.info, PIECE_BYTES);
        let is_all = verifying.bytes == listed.bytes.len();
        drop(verifying);
        if is_all {
            self.verified(frames);
        }
    }
}

impl IdVerification {
    /// Hashes up to `bytes` more bytes.
    fn take(&mut self, listed: &ListedIds, info: &IdsInfo, bytes: usize) {
        let rest = listed.bytes.get(self.bytes..).unwrap_or_default();
        let piece = rest.get(..bytes).unwrap_or(rest);
        let column = info.len() as usize * ID_BYTES;
        let of_ids = column.saturating_sub(self.bytes).min(piece.len());
        let new = || (Checksum::new(IDS_CONTEXT), Filter::empty(info.len() as usize));
        let (checksum, filter) = self.found.get_or_insert_with(new);
        checksum.update(piece);
        filter.add(piece.get(..of_ids).unwrap_or_default());
        self.bytes += piece.len();
    }

    /// Hashes the rest. Returns true if the checksum matches.
    fn finish(&mut self, listed: &ListedIds, info: &IdsInfo) -> bool {
        loop {
            self.take(listed, info, STRIDE_BYTES);
            if self.bytes >= listed.bytes.len() {
                break;
            }
        }
        self.found.as_ref().is_some_and(|(checksum, _)| checksum.finish() == info.checksum)
    }

    /// Returns the filter of the hashed ids, and leaves an empty one.
    fn take_filter(&mut self) -> Filter {
        let filter = self.found.as_mut().map(|(_, filter)| mem::replace(filter, Filter::empty(0)));
        filter.unwrap_or_else(|| Filter::empty(0))
    }
}

#[cfg(test)]
mod tests {
    use bytes::Bytes;

    use super::*;
    use crate::object::{Kind, verify};
    use crate::store::pack::format::layout::HEADER_BYTES;
    use crate::store::pack::tests::damage::file;
    use crate::store::pack::tests::round_trip::{STORE, Sample, noise};
    use crate::store::pack::{BlockCache, IdsCache, Pack, PackId, PackLookup, Tier, Tombstone};

    /// A place that stores nothing.
    #[derive(Debug)]
    struct Nowhere;

    impl IdsCache for Nowhere {
        fn read(&self, _: usize) -> Option<Bytes> {
            None
        }

        fn keep(&self, _: &[u8]) {}
    }

    const OBJECTS: u32 = 2000;

    /// A pack whose ids take several pieces, with nodes that link to blobs, and a gone id.
    fn many() -> (Sample, Vec<u8>, PackId) {
        let mut sample = Sample::default();
        sample.gone.push((ObjectId::of(Kind::Blob, b"gone"), Kind::Blob, Tombstone::Elided));
        for number in 0..u64::from(OBJECTS) / 2 {
            let blob = noise(number, 40);
            let link = ObjectId::of(Kind::Blob, &blob);
            let node = [&[0x84, 1], &number.to_le_bytes()[..], link.as_bytes()].concat();
            sample.push(Kind::Blob, blob, 0);
            sample.push(Kind::Node, node, 0);
        }
        sample.items.sort_by_key(|item| item.kind == Kind::Blob);
        let dir = tempfile::tempdir().unwrap();
        let written = sample.write(dir.path(), Tier::Hot).unwrap();
        let bytes = std::fs::read(dir.path().join(written.id.file_name())).unwrap();
        (sample, bytes, written.id)
    }

    fn open(bytes: &[u8], id: PackId) -> Pack {
        Pack::open_with_cache(&file(bytes.to_vec()), id, STORE, Box::new(Nowhere)).unwrap()
    }

    #[test]
    fn a_few_are_found_before_all_are_verified_and_many_questions_verify_all() {
        let (sample, bytes, id) = many();
        let (pack, cache) = (open(&bytes, id), BlockCache::new(1 << 20));
        for (ordinal, item) in (0..).zip(&sample.items).take(2) {
            let kind = item.kind;
            assert_eq!(pack.find(&item.id), Some(PackLookup::Object { ordinal, kind }));
            verify(kind, &pack.read(ordinal, &cache).unwrap(), &item.id).unwrap();
        }
        assert_eq!(pack.find(&ObjectId::of(Kind::Blob, b"absent")), None);
        assert!(!pack.is_verified());
        let pieces = pack.footer.ids.end().unwrap() / PIECE_BYTES + 1;
        for item in sample.items.iter().take(pieces) {
            assert!(pack.find(&item.id).is_some());
        }
        assert!(pack.is_verified());
        assert_eq!((pack.problem(), pack.count_misindexed()), (None, 0));
        sample.assert_in(&pack);
    }

    #[test]
    fn that_an_id_has_gone_is_said_by_verified_ids() {
        let (sample, bytes, id) = many();
        let pack = open(&bytes, id);
        let gone = &sample.gone[0].0;
        assert_eq!(pack.find(gone), Some(PackLookup::Tombstone(Tombstone::Elided, Kind::Blob)));
        assert!(pack.is_verified());
        // The other reason: the note is one of these bytes.
        let mut damaged = bytes;
        damaged[HEADER_BYTES + (OBJECTS as usize + 1) * ID_BYTES + 1] ^= 3;
        let pack = open(&damaged, id);
        assert_eq!(pack.find(gone), Some(PackLookup::Tombstone(Tombstone::Elided, Kind::Blob)));
        assert!(pack.known_problem().is_some());
    }

    #[test]
    fn damaged_ids_are_computed_from_the_objects_and_the_damage_is_told() {
        let (sample, bytes, id) = many();
        let slots = HEADER_BYTES + (OBJECTS as usize + 1) * ID_BYTES + 2;
        for at in [HEADER_BYTES, HEADER_BYTES + 40_000, slots - 1, slots, slots + 3000] {
            let mut damaged = bytes.clone();
            damaged[at] ^= 0x51;
            assert!(Pack::open(&file(damaged.clone()), id, STORE).is_err(), "byte {at}");
            let pack = open(&damaged, id);
            assert!(pack.check_ids().is_err() && pack.known_problem().is_none(), "byte {at}");
            assert!(pack.problem().is_some() && pack.known_problem().is_some(), "byte {at}");
            sample.assert_in(&pack);
            // Look up damaged ids until all ids are verified.
            let pack = open(&damaged, id);
            for _ in 0..2 {
                for item in &sample.items {
                    let _ = pack.find(&item.id);
                }
            }
            assert!(pack.is_verified() && pack.known_problem().is_some(), "byte {at}");
            sample.assert_in(&pack);
        }
    }

    #[test]
    fn threads_that_ask_at_once_find_the_same() {
        let (sample, bytes, id) = many();
        let pack = open(&bytes, id);
        std::thread::scope(|scope| {
            for _ in 0..4 {
                scope.spawn(|| {
                    for (ordinal, item) in (0..).zip(&sample.items) {
                        let kind = item.kind;
                        assert_eq!(pack.find(&item.id), Some(PackLookup::Object { ordinal, kind }));
                    }
                    assert_eq!(pack.id_at(0), Some(sample.items[0].id));
                });
            }
        });
        assert!(pack.is_verified() && pack.problem().is_none());
    }
}
