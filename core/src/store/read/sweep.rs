//! Sweeps: every object of a kind, file by file in the order in which they lie; and whether what leads
//! to objects is whole, without following it.
//!
//! Whoever follows history reads a block as often as it is led there. A sweep unpacks each block once
//! and needs no list of ids, so memory holds what the threads are at.

use std::collections::HashSet;
use std::ops::Range;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use rayon::prelude::*;

use super::batch_read::Missing;
use super::sealed::Sealed;
use super::view::ObjectPlace;
use crate::error::Result;
use crate::object::{Kind, Object, ObjectId};
use crate::store::format::id::SegmentId;
use crate::store::pack::PackId;
use crate::store::{FindingKind, KNOWN_LOSSES_REF, Store, lock, read};

/// Is given objects, each with its id, or why it cannot be read; from any thread.
type GivenObject<'a> = &'a (dyn Fn(ObjectId, Result<Object>) + Sync);

/// What a store has in which every commit and node was as it was stored, once all of it was.
#[derive(Debug, Default)]
pub(in crate::store) struct WholeFiles {
    packs: HashSet<PackId>,
    segments: HashSet<SegmentId>,
    /// Commits and nodes in segments that may still grow.
    active: HashSet<ObjectId>,
}

impl Store {
    /// Reads every object of a kind in the files of this store and gives each to `visit`, verified, or
    /// why it cannot be read: on all processors, in the order in which they lie. One of which writers
    /// stored two copies may come twice. What was dropped or redacted does not come. Nothing comes any more
    /// soon after `goes_on` says no. Blobs that [are kept](Self::keep_contents) are not read.
    pub fn sweep(&self, kind: Kind, visit: GivenObject<'_>, goes_on: &(dyn Fn() -> bool + Sync)) {
        let files = Arc::clone(&read(&self.view).files);
        // Who goes through everything believes that what he is not given is not there.
        files.verify_indexes();
        for (number, pack) in files.packs.iter().enumerate() {
            let newer = files.packs.get(number + 1..).unwrap_or_default();
            // What was taken out of an older pack is named by a newer one.
            let newer: Vec<_> = newer.iter().filter(|pack| pack.gone_len() > 0).collect();
            let blocks: Vec<Range<u32>> = pack.ordinals_of(kind).collect();
            blocks.into_par_iter().filter(|_| goes_on()).for_each(|block| {
                let ids = block.filter_map(|ordinal| Some((ordinal, pack.id_at(ordinal)?)));
                let is_here = |id: &ObjectId| newer.iter().all(|pack| pack.find(id).is_none());
                let read_here = ids.filter(|(_, id)| is_here(id));
                let place =
                    |(ordinal, id)| (id, ObjectPlace::Packed(Arc::clone(pack), kind, ordinal));
                self.give(read_here.map(place), visit);
            });
        }
        for sealed in files.sealed.iter().filter(|_| goes_on()) {
            self.sweep_sealed(sealed, kind, visit);
        }
        if goes_on() {
            self.give_sorted(self.active_of(kind), visit);
        }
    }

    /// Keeps the blobs that sweeps of this handle read from now on in memory, verified, up to so many bytes,
    /// so that the next sweep does not read, unpack and verify them again: for who searches the same store
    /// time and again. They go when this handle sees that a collection has taken files away.
    pub fn keep_contents(&self, max_bytes: usize) {
        self.contents.set_room(max_bytes);
    }

    /// The objects of a kind that the files have; one that lies in two counts twice.
    #[must_use]
    pub fn count(&self, kind: Kind) -> u64 {
        let view = read(&self.view);
        let active = view.active.values().filter(|at| at.stored.kind == kind).count();
        let sealed = view.files.sealed.iter().map(|sealed| {
            let count = sealed.entries().filter(|(_, stored)| stored.kind == kind).count();
            sealed.let_pages_go();
            count
        });
        let packed = view.files.packs.iter().flat_map(|pack| pack.ordinals_of(kind));
        let packed = packed.map(|block| u64::from(block.end - block.start)).sum::<u64>();
        (active + sealed.sum::<usize>()) as u64 + packed
    }

    /// Returns true if whatever refs lead to is sure to be here and readable, contents aside: no damage was
    /// noticed, no loss was accepted, nothing lies elsewhere, and every commit and node is as it was
    /// stored, when this handle looked at it first. Reads their frames in packs, which it does not unpack,
    /// and those in the journal, as far as they are new since the last time.
    #[must_use]
    pub fn leads_everywhere(&self) -> bool {
        let files = Arc::clone(&read(&self.view).files);
        files.verify_indexes();
        let is_damage = |finding: &super::super::Finding| finding.kind == FindingKind::Damage;
        if self.refs().value(KNOWN_LOSSES_REF).is_some()
            || self.has_distant()
            || self.findings().iter().any(is_damage)
        {
            return false;
        }
        let known = Arc::clone(&lock(&self.whole));
        let mut whole = WholeFiles {
            packs: files.packs.iter().map(|pack| pack.id()).collect(),
            segments: files.sealed.iter().map(|sealed| sealed.segment().id).collect(),
            active: HashSet::new(),
        };
        let is_whole = [Kind::Commit, Kind::Node].into_iter().all(|kind| {
            let mut unknown = files.packs.iter().filter(|pack| !known.packs.contains(&pack.id()));
            let is_whole = AtomicBool::new(unknown.all(|pack| pack.frames_verify(kind)));
            let visit = |_: ObjectId, object: Result<Object>| {
                is_whole.fetch_and(object.is_ok(), Ordering::Relaxed);
            };
            for sealed in &files.sealed {
                let is_unknown = !known.segments.contains(&sealed.segment().id);
                if is_unknown && is_whole.load(Ordering::Relaxed) {
                    self.sweep_sealed(sealed, kind, &visit);
                }
            }
            let mut active = self.active_of(kind);
            whole.active.extend(active.iter().map(|(id, _)| *id));
            active.retain(|(id, _)| !known.active.contains(id));
            self.give_sorted(active, &visit);
            is_whole.into_inner()
        });
        if is_whole {
            *lock(&self.whole) = Arc::new(whole);
        }
        is_whole
    }

    fn sweep_sealed(&self, sealed: &Arc<Sealed>, kind: Kind, visit: GivenObject<'_>) {
        let wanted = sealed.entries().filter(|(_, stored)| stored.kind == kind);
        let place = |(id, stored)| (id, ObjectPlace::Sealed(Arc::clone(sealed), stored));
        self.give_sorted(wanted.map(place).collect(), visit);
        sealed.let_pages_go();
    }

    /// The objects of a kind in segments that may still grow.
    fn active_of(&self, kind: Kind) -> Vec<(ObjectId, ObjectPlace)> {
        let view = read(&self.view);
        let wanted = view.active.iter().filter(|(_, at)| at.stored.kind == kind);
        wanted.map(|(id, at)| (*id, ObjectPlace::Active(at.clone()))).collect()
    }

    /// Gives objects of segments, unit by unit.
    fn give_sorted(&self, mut places: Vec<(ObjectId, ObjectPlace)>, visit: GivenObject<'_>) {
        places.sort_unstable_by_key(|(_, place)| place.position());
        let units: Vec<_> = places.chunk_by(|(_, a), (_, b)| a.unit() == b.unit()).collect();
        units.into_par_iter().for_each(|unit| self.give(unit.iter().cloned(), visit));
    }

    /// Gives objects that lie together.
    fn give(&self, places: impl Iterator<Item = (ObjectId, ObjectPlace)>, visit: GivenObject<'_>) {
        let unread = places.filter(|(id, _)| match self.contents.find(id) {
            Some(kept) => {
                visit(*id, Ok(kept));
                false
            }
            None => true,
        });
        let unit: Vec<Missing> =
            unread.enumerate().map(|(at, (id, place))| (at, id, place)).collect();
        if unit.is_empty() {
            return;
        }
        self.visit_unit(&unit, &|at, object| {
            if let Some((_, id, _)) = unit.get(at) {
                if let Ok(object) = &object {
                    self.contents.keep(*id, object);
                }
                visit(*id, object);
            }
        });
    }
}
