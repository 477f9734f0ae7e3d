//! Sweeps read every object of a kind, file by file in storage order. Also checks that all commits
//! and nodes are intact, without following references.
//!
//! Following history reads a block once for each reference to it. A sweep unpacks each block once
//! and needs no list of ids, so memory holds only the units that the threads work on.

use std::collections::HashSet;
use std::ops::Range;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use rayon::prelude::*;

use super::batch_read::WantedObject;
use super::sealed::SealedSegment;
use super::view::ObjectPlace;
use crate::error::Result;
use crate::object::{Kind, Object, ObjectId};
use crate::store::format::id::SegmentId;
use crate::store::pack::PackId;
use crate::store::{FindingKind, KNOWN_LOSSES_REF, Store, lock, read};

/// Called with each object and its id, or with the error of reading it; from any thread.
type ObjectVisitor<'a> = &'a (dyn Fn(ObjectId, Result<Object>) + Sync);

/// The files and objects whose commits and nodes were all verified before.
#[derive(Debug, Default)]
pub(in crate::store) struct WholeFiles {
    packs: HashSet<PackId>,
    segments: HashSet<SegmentId>,
    /// Commits and nodes in segments that may still grow.
    active: HashSet<ObjectId>,
}

impl Store {
    /// Reads every object of a kind in the local files and passes each to `visit`, verified, or
    /// with the error of reading it. Runs on all processors, in storage order. An object with two
    /// copies may be passed twice. Elided and redacted objects are not passed. Stops soon after
    /// `goes_on` returns false. Blobs that [are kept](Self::keep_contents) are not read.
    pub fn sweep(&self, kind: Kind, visit: ObjectVisitor<'_>, goes_on: &(dyn Fn() -> bool + Sync)) {
        let files = Arc::clone(&read(&self.view).files);
        // A full sweep must not miss an object because of a damaged index.
        files.verify_indexes();
        for (number, pack) in files.packs.iter().enumerate() {
            let newer = files.packs.get(number + 1..).unwrap_or_default();
            // Newer packs have tombstones of objects removed from an older pack.
            let newer: Vec<_> = newer.iter().filter(|pack| pack.tombstone_count() > 0).collect();
            let blocks: Vec<Range<u32>> = pack.ordinals_of(kind).collect();
            blocks.into_par_iter().filter(|_| goes_on()).for_each(|block| {
                let ids = block.filter_map(|ordinal| Some((ordinal, pack.id_at(ordinal)?)));
                let is_here = |id: &ObjectId| newer.iter().all(|pack| pack.find(id).is_none());
                let read_here = ids.filter(|(_, id)| is_here(id));
                let place =
                    |(ordinal, id)| (id, ObjectPlace::Packed(Arc::clone(pack), kind, ordinal));
                self.visit_places(read_here.map(place), visit);
            });
        }
        for sealed in files.sealed.iter().filter(|_| goes_on()) {
            self.sweep_sealed(sealed, kind, visit);
        }
        if goes_on() {
            self.visit_sorted_places(self.active_objects(kind), visit);
        }
    }

    /// Keeps the blobs that sweeps of this handle read from now on in memory, verified, up to
    /// `max_bytes`. Then the next sweep does not read, unpack and verify them again: for repeated
    /// searches of the same store. They are dropped when this handle notices that a collection has
    /// removed files.
    pub fn keep_contents(&self, max_bytes: usize) {
        self.contents.set_room(max_bytes);
    }

    /// Counts the objects of a kind in the local files. An object in two files counts twice.
    #[must_use]
    pub fn count(&self, kind: Kind) -> u64 {
        let view = read(&self.view);
        let active = view.active.values().filter(|at| at.stored.kind == kind).count();
        let sealed = view.files.sealed.iter().map(|sealed| {
            let count = sealed.entries().filter(|(_, stored)| stored.kind == kind).count();
            sealed.release_pages();
            count
        });
        let packed = view.files.packs.iter().flat_map(|pack| pack.ordinals_of(kind));
        let packed = packed.map(|block| u64::from(block.end - block.start)).sum::<u64>();
        (active + sealed.sum::<usize>()) as u64 + packed
    }

    /// Returns true if everything reachable from the refs, except contents, is certain to be local
    /// and readable: no damage was noticed, no loss was accepted, no object is remote-only, and
    /// every commit and node was intact when this handle checked it first. Reads their frames in
    /// packs without unpacking them, and their records in the journal, as far as they are new since
    /// the last call.
    #[must_use]
    pub fn has_all_reachable(&self) -> bool {
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
            let is_whole = AtomicBool::new(unknown.all(|pack| pack.has_valid_frames(kind)));
            let visit = |_: ObjectId, object: Result<Object>| {
                is_whole.fetch_and(object.is_ok(), Ordering::Relaxed);
            };
            for sealed in &files.sealed {
                let is_unknown = !known.segments.contains(&sealed.segment().id);
                if is_unknown && is_whole.load(Ordering::Relaxed) {
                    self.sweep_sealed(sealed, kind, &visit);
                }
            }
            let mut active = self.active_objects(kind);
            whole.active.extend(active.iter().map(|(id, _)| *id));
            active.retain(|(id, _)| !known.active.contains(id));
            self.visit_sorted_places(active, &visit);
            is_whole.into_inner()
        });
        if is_whole {
            *lock(&self.whole) = Arc::new(whole);
        }
        is_whole
    }

    fn sweep_sealed(&self, sealed: &Arc<SealedSegment>, kind: Kind, visit: ObjectVisitor<'_>) {
        let wanted = sealed.entries().filter(|(_, stored)| stored.kind == kind);
        let place = |(id, stored)| (id, ObjectPlace::Sealed(Arc::clone(sealed), stored));
        self.visit_sorted_places(wanted.map(place).collect(), visit);
        sealed.release_pages();
    }

    /// Returns the objects of a kind in segments that may still grow.
    fn active_objects(&self, kind: Kind) -> Vec<(ObjectId, ObjectPlace)> {
        let view = read(&self.view);
        let wanted = view.active.iter().filter(|(_, at)| at.stored.kind == kind);
        wanted.map(|(id, at)| (*id, ObjectPlace::Active(at.clone()))).collect()
    }

    /// Passes objects of segments to `visit`, unit by unit.
    fn visit_sorted_places(
        &self,
        mut places: Vec<(ObjectId, ObjectPlace)>,
        visit: ObjectVisitor<'_>,
    ) {
        places.sort_unstable_by_key(|(_, place)| place.position());
        let units: Vec<_> = places.chunk_by(|(_, a), (_, b)| a.unit() == b.unit()).collect();
        units.into_par_iter().for_each(|unit| self.visit_places(unit.iter().cloned(), visit));
    }

    /// Passes objects of one unit to `visit`.
    fn visit_places(
        &self,
        places: impl Iterator<Item = (ObjectId, ObjectPlace)>,
        visit: ObjectVisitor<'_>,
    ) {
        let unread = places.filter(|(id, _)| match self.contents.find(id) {
            Some(kept) => {
                visit(*id, Ok(kept));
                false
            }
            None => true,
        });
        let unit: Vec<WantedObject> =
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
