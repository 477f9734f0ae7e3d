//! A cache of verified objects, bounded in bytes.
//!
//! Two generations: a used entry moves to the young one. When the young one has filled half of the
//! budget it becomes the old one, and entries of the previous old one are dropped. A look-up costs
//! one hash look-up, and entries have no links between them.

use std::collections::HashMap;
use std::sync::{Mutex, MutexGuard, PoisonError};

use crate::object::{Object, ObjectId};

/// The overhead of an entry in addition to its bytes: id, kind, handle, and its share of the table.
const ENTRY_BYTES: usize = 128;

/// Verified objects by id.
#[derive(Debug)]
pub(in crate::store) struct Cache {
    generation_bytes: usize,
    generations: Mutex<Generations>,
}

#[derive(Debug, Default)]
struct Generations {
    young: HashMap<ObjectId, Object>,
    young_bytes: usize,
    old: HashMap<ObjectId, Object>,
}

impl Cache {
    /// Returns a cache of at most `bytes`, including its own tables.
    pub(in crate::store) fn new(bytes: usize) -> Self {
        Self { generation_bytes: bytes / 2, generations: Mutex::default() }
    }

    pub(in crate::store) fn find(&self, id: &ObjectId) -> Option<Object> {
        let mut generations = self.lock();
        if let Some(object) = generations.young.get(id) {
            return Some(object.clone());
        }
        let object = generations.old.remove(id)?;
        generations.insert(*id, object.clone(), self.generation_bytes);
        Some(object)
    }

    /// Caches a verified object, unless it would fill a generation alone.
    pub(in crate::store) fn insert(&self, id: ObjectId, object: Object) {
        if object.bytes.len() + ENTRY_BYTES <= self.generation_bytes {
            self.lock().insert(id, object, self.generation_bytes);
        }
    }

    /// Drops all entries.
    pub(in crate::store) fn clear(&self) {
        *self.lock() = Generations::default();
    }

    fn lock(&self) -> MutexGuard<'_, Generations> {
        self.generations.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Generations {
    fn insert(&mut self, id: ObjectId, object: Object, generation_bytes: usize) {
        let bytes = object.bytes.len() + ENTRY_BYTES;
        if self.young_bytes + bytes > generation_bytes {
            self.old = std::mem::take(&mut self.young);
            self.young_bytes = 0;
        }
        if self.young.insert(id, object).is_none() {
            self.young_bytes += bytes;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::object::Kind;

    #[test]
    fn what_is_used_stays_and_the_bytes_stay_bounded() {
        let cache = Cache::new(20 * (ENTRY_BYTES + 4));
        let object = |n: u32| {
            let bytes = n.to_le_bytes().to_vec();
            (ObjectId::of(Kind::Blob, &bytes), Object { kind: Kind::Blob, bytes: bytes.into() })
        };
        let (favourite, value) = object(0);
        cache.insert(favourite, value.clone());
        for n in 1..1000 {
            let (id, object) = object(n);
            cache.insert(id, object);
            assert_eq!(cache.find(&favourite), Some(value.clone()));
            let kept = cache.lock();
            assert!(kept.young.len() + kept.old.len() <= 20);
        }
        assert_eq!(cache.find(&object(1).0), None);
    }
}
