//! Reads many objects: front to back, on all processors.
//!
//! A context is thousands of small objects, and most of the work is to decompress and verify them.
//! They are read in storage order, so that the disk is read in one direction.

use std::borrow::Borrow;

use bytes::Bytes;
use rayon::prelude::*;

use super::pages::stretches_of;
use super::view::{ObjectPlace, ReadAhead};
use crate::error::{Error, Result};
use crate::object::{Kind, Object, ObjectId, ObjectSource, check_ids};
use crate::store::pack::{BlockCache, OpenBlock};
use crate::store::{Store, read, tombstone_error};

/// Fewer objects than this are not worth waking another thread for.
const OBJECTS_FOR_THREADS: usize = 64;

/// Bytes of objects to read before verifying them together and passing them on.
const BATCH_BYTES: usize = 1 << 20;

/// An object to read: its position in the request, its id, and its place.
pub(super) type WantedObject = (usize, ObjectId, ObjectPlace);

impl Store {
    /// Returns the bytes of the objects `ids`, in the order of `ids`. Each must exist and be of
    /// `kind`.
    pub(in crate::store) fn read_many(&self, kind: Kind, ids: &[ObjectId]) -> Result<Vec<Bytes>> {
        let mut all = vec![Bytes::new(); ids.len()];
        let mut missing: Vec<WantedObject> = Vec::new();
        let mut absent: Vec<(usize, ObjectId)> = Vec::new();
        for (at, (id, slot)) in ids.iter().zip(&mut all).enumerate() {
            match self.cache.find(id) {
                Some(object) => *slot = of_kind(kind, id, object)?,
                None => match read(&self.view).place(id) {
                    Some(place) => missing.push((at, *id, place)),
                    None => absent.push((at, *id)),
                },
            }
        }
        for (at, object) in self.read_absent(kind, &absent)? {
            if let (Some(slot), Some(id)) = (all.get_mut(at), ids.get(at)) {
                *slot = of_kind(kind, id, object)?;
            }
        }
        missing.sort_unstable_by_key(|(_, _, place)| place.position());
        let units = missing.chunk_by(|(_, _, a), (_, _, b)| a.unit() == b.unit());
        // If something is damaged there may be other copies.
        let read = |unit: &[WantedObject]| {
            self.read_unit(kind, unit).or_else(|_| self.read_each(kind, unit))
        };
        let found: Vec<Vec<(usize, Bytes)>> = if missing.len() <= OBJECTS_FOR_THREADS {
            units.map(read).collect::<Result<_>>()?
        } else {
            let units: Vec<&[WantedObject]> = units.collect();
            units.into_par_iter().map(read).collect::<Result<_>>()?
        };
        for (at, bytes) in found.into_iter().flatten() {
            if let Some(slot) = all.get_mut(at) {
                *slot = bytes;
            }
        }
        Ok(all)
    }

    /// Reads objects without a local copy from the remote; returns each with its position.
    fn read_absent(
        &self,
        kind: Kind,
        absent: &[(usize, ObjectId)],
    ) -> Result<Vec<(usize, Object)>> {
        if absent.is_empty() {
            return Ok(Vec::new());
        }
        for (_, id) in absent {
            if let Some(why) = self.tombstone(id) {
                return Err(tombstone_error(id, why));
            }
        }
        let ids: Vec<ObjectId> = absent.iter().map(|(_, id)| *id).collect();
        let mut found = Vec::with_capacity(ids.len());
        let mut is_found = vec![false; ids.len()];
        for (number, object) in self.read_distant(&ids)? {
            let Some((at, id)) = absent.get(number) else { continue };
            if let Some(slot) = is_found.get_mut(number) {
                *slot = true;
            }
            self.cache.insert(*id, object.clone());
            found.push((*at, object));
        }
        match is_found.iter().zip(&ids).find(|(is_found, _)| !**is_found) {
            Some((_, id)) => Err(self.missing(kind, id)),
            None => Ok(found),
        }
    }

    /// Reads the objects `ids` and passes each to `visit` with its position in `ids`, or with the
    /// error of reading it. Runs in storage order on all processors; any thread may call `visit`.
    /// Objects are not cached, so memory holds only the units that the threads work on.
    pub fn visit(&self, ids: &[ObjectId], visit: &(dyn Fn(usize, Result<Object>) + Sync)) {
        let mut found: Vec<WantedObject> = Vec::with_capacity(ids.len());
        for (at, id) in ids.iter().enumerate() {
            let place = read(&self.view).place(id);
            match place {
                Some(place) => found.push((at, *id, place)),
                None => {
                    let absent =
                        |object: Option<Object>| object.ok_or_else(|| self.missing(Kind::Blob, id));
                    visit(at, self.read(id).and_then(absent));
                }
            }
        }
        found.sort_unstable_by_key(|(_, _, place)| place.position());
        let units: Vec<&[WantedObject]> =
            found.chunk_by(|(_, _, a), (_, _, b)| a.unit() == b.unit()).collect();
        units.into_par_iter().for_each(|unit| self.visit_unit(unit, visit));
    }

    /// Reads objects of one unit, and passes each or its error to `visit`.
    pub(super) fn visit_unit(
        &self,
        unit: &[WantedObject],
        visit: &(dyn Fn(usize, Result<Object>) + Sync),
    ) {
        let open = OpenUnit::of(unit, &self.blocks);
        self.note_pages(stretches_of(unit.len(), open.raw_bytes()));
        // There may be another copy.
        let give_read = |(at, id, _): &WantedObject, object: Result<Object>| {
            visit(*at, object.or_else(|error| self.read_stored(id)?.ok_or(error)));
        };
        let (mut batch, mut bytes) = (Vec::new(), 0);
        for missing in unit {
            match open.read(missing, &self.blocks) {
                Ok(object) => {
                    bytes += object.bytes.len();
                    batch.push((missing, object));
                }
                Err(error) => give_read(missing, Err(error)),
            }
            if bytes >= BATCH_BYTES {
                for (missing, object) in verified(std::mem::take(&mut batch)) {
                    give_read(missing, object);
                }
                bytes = 0;
            }
        }
        for (missing, object) in verified(batch) {
            give_read(missing, object);
        }
    }

    /// Reads objects of one unit. Objects of a block, or of a part of a segment, share one
    /// allocation: the block itself, if they are most of it.
    fn read_unit(&self, kind: Kind, unit: &[WantedObject]) -> Result<Vec<(usize, Bytes)>> {
        let open = OpenUnit::of(unit, &self.blocks);
        let found = unit.iter().map(|missing| Ok((missing, open.read(missing, &self.blocks)?)));
        let found = verified(found.collect::<Result<Vec<_>>>()?).into_iter();
        let found = found.map(|((at, id, _), object)| Ok((*at, *id, of_kind(kind, id, object?)?)));
        let mut read = found.collect::<Result<Vec<_>>>()?;
        let unit_bytes = open.raw_bytes();
        self.note_pages(stretches_of(unit.len(), unit_bytes));
        let len = read.iter().map(|(_, _, bytes)| bytes.len()).sum();
        if len < unit_bytes / 2 {
            copy_together(&mut read, len);
        }
        let keep = |(at, id, bytes): (usize, ObjectId, Bytes)| {
            self.cache.insert(id, Object { kind, bytes: bytes.clone() });
            (at, bytes)
        };
        Ok(read.into_iter().map(keep).collect())
    }

    fn read_each(&self, kind: Kind, unit: &[WantedObject]) -> Result<Vec<(usize, Bytes)>> {
        unit.iter().map(|(at, id, _)| Ok((*at, self.read_as(kind, id)?))).collect()
    }
}

/// The opened block or segment part from which objects of one unit are read.
struct OpenUnit<'u> {
    /// Held while its objects are read, so that no other thread evicts it from the cache. `None`
    /// for a damaged block; then reading each object returns the error.
    block: Option<OpenBlock<'u>>,
    ahead: ReadAhead,
}

impl<'u> OpenUnit<'u> {
    fn of(unit: &'u [WantedObject], blocks: &BlockCache) -> Self {
        let block = match unit.first() {
            Some((_, _, ObjectPlace::Packed(pack, _, first))) => {
                pack.block(pack.block_of(*first).unwrap_or_default(), blocks).ok()
            }
            _ => None,
        };
        Self { block, ahead: ReadAhead::of(unit.iter().map(|(_, _, place)| place)) }
    }

    /// Returns the number of bytes that were read.
    fn raw_bytes(&self) -> usize {
        self.block.as_ref().map_or(self.ahead.len(), OpenBlock::raw_bytes)
    }

    /// Reads one of the objects without verifying it.
    fn read(&self, (_, id, place): &WantedObject, blocks: &BlockCache) -> Result<Object> {
        match (&self.block, place) {
            (Some(block), ObjectPlace::Packed(_, kind, ordinal)) => {
                Ok(Object { kind: *kind, bytes: block.read(*ordinal, blocks)? })
            }
            _ => place.unverified(&self.ahead, id, blocks),
        }
    }
}

/// Verifies objects that were read: returns each, or an error if its bytes do not match its id.
pub(super) fn verified<M: Borrow<WantedObject>>(
    read: Vec<(M, Object)>,
) -> Vec<(M, Result<Object>)> {
    let objects: Vec<_> =
        read.iter().map(|(missing, object)| (&missing.borrow().1, object)).collect();
    let are_right = check_ids(&objects);
    let verify = |((missing, object), is_right): ((M, Object), bool)| {
        let (_, id, place) = missing.borrow();
        let object = if is_right { Ok(object) } else { place.verified(object, id) };
        (missing, object)
    };
    read.into_iter().zip(are_right).map(verify).collect()
}

/// Copies objects of `len` bytes in total to an allocation of their own, so that they do not keep a
/// mostly unused block alive.
fn copy_together(objects: &mut [(usize, ObjectId, Bytes)], len: usize) {
    let mut together = Vec::with_capacity(len);
    for (_, _, bytes) in &*objects {
        together.extend_from_slice(bytes);
    }
    let mut rest = Bytes::from(together);
    for (_, _, bytes) in objects {
        *bytes = rest.split_to(bytes.len());
    }
}

fn of_kind(kind: Kind, id: &ObjectId, object: Object) -> Result<Bytes> {
    match object.kind == kind {
        true => Ok(object.bytes),
        false => Err(Error::corrupt(id, kind, object.kind)),
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;
    use std::sync::{Arc, Mutex};

    use super::*;
    use crate::ErrorKind;
    use crate::object::ObjectSource;
    use crate::store::{NewStore, OpenOptions, RealIo};

    #[test]
    fn many_are_read_as_each_alone_in_the_order_asked_for() {
        let dir = tempfile::tempdir().unwrap();
        let dir = dir.path().join("store");
        Store::create(&RealIo, &dir, &NewStore { id: [1; 16] }).unwrap();
        let open = |seed| Store::open(Arc::new(RealIo), &dir, OpenOptions::new([seed; 16]));
        let objects = (0..500_u32).map(|n| {
            let bytes = Bytes::from(format!("{n} ").repeat(100));
            (ObjectId::of(Kind::Blob, &bytes), Object { kind: Kind::Blob, bytes })
        });
        let objects: Vec<_> = objects.collect();
        open(2).unwrap().append(objects.clone()).unwrap();

        let store = open(3).unwrap();
        let mut ids: Vec<_> = objects.iter().rev().map(|(id, _)| *id).collect();
        ids.extend_from_within(..7);
        for cached in [false, true] {
            let all = store.read_all(Kind::Blob, &ids).unwrap();
            for (id, bytes) in ids.iter().zip(all) {
                assert_eq!(store.read_as(Kind::Blob, id).unwrap(), bytes, "cached: {cached}");
            }
        }
        // All objects are read in runs, a few objects one by one.
        for step in [1, 90] {
            let asked: Vec<ObjectId> = ids.iter().step_by(step).copied().collect();
            let visited = Mutex::new(BTreeMap::new());
            store.visit(&asked, &|at, object| {
                visited.lock().unwrap().insert(at, object.unwrap().bytes);
            });
            let visited = visited.into_inner().unwrap();
            assert_eq!(visited.len(), asked.len());
            for (at, bytes) in visited {
                assert_eq!(store.read_as(Kind::Blob, &asked[at]).unwrap(), bytes);
            }
        }
        ids.push(ObjectId::of(Kind::Blob, b"absent"));
        let error = |kind| store.read_all(kind, &ids).unwrap_err().kind();
        assert_eq!(error(Kind::Blob), ErrorKind::NotFound);
        assert_eq!(error(Kind::Node), ErrorKind::Corrupt);
    }
}
