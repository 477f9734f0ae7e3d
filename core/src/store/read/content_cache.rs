//! Keeps contents that searches have read and verified in memory, for the next search of the same
//! handle.
//!
//! A server searches the same store again and again, and most of a search is reading, unpacking and
//! verifying contents. This cache holds the verified bytes themselves, so unverified bytes on disk
//! are never trusted. A search reads everything in the same order, so evicting the oldest entries
//! would always evict the next ones needed: when the cache is full, the first entries stay. A
//! reload of the files clears the cache.

use std::collections::HashMap;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{PoisonError, RwLock};

use bytes::Bytes;

use crate::object::{Kind, Object, ObjectId};

/// The overhead of a content in addition to its bytes: id, handle, and its share of the table.
const ENTRY_BYTES: usize = 96;

/// Verified contents by id, bounded in bytes.
#[derive(Debug, Default)]
pub(in crate::store) struct ContentCache {
    /// Zero by default.
    max_bytes: AtomicUsize,
    kept: RwLock<CachedContents>,
}

#[derive(Debug, Default)]
struct CachedContents {
    contents: HashMap<ObjectId, Bytes>,
    bytes: usize,
}

impl ContentCache {
    /// Sets the most bytes to keep.
    pub(in crate::store) fn set_room(&self, bytes: usize) {
        self.max_bytes.store(bytes, Ordering::Relaxed);
    }

    /// Returns the blob with an id, if it is kept.
    pub(in crate::store) fn find(&self, id: &ObjectId) -> Option<Object> {
        if self.room() == 0 {
            return None;
        }
        let kept = self.kept.read().unwrap_or_else(PoisonError::into_inner);
        let bytes = kept.contents.get(id)?.clone();
        Some(Object { kind: Kind::Blob, bytes })
    }

    /// Keeps a verified object, if it is a blob and there is room.
    pub(in crate::store) fn keep(&self, id: ObjectId, object: &Object) {
        let (room, bytes) = (self.room(), object.bytes.len().saturating_add(ENTRY_BYTES));
        if object.kind != Kind::Blob || bytes > room {
            return;
        }
        let mut kept = self.kept.write().unwrap_or_else(PoisonError::into_inner);
        if kept.bytes + bytes <= room {
            // A copy: a part of a block would keep all of it in memory.
            let content = Bytes::copy_from_slice(&object.bytes);
            if kept.contents.insert(id, content).is_none() {
                kept.bytes += bytes;
            }
        }
    }

    /// Drops all contents.
    pub(in crate::store) fn clear(&self) {
        *self.kept.write().unwrap_or_else(PoisonError::into_inner) = CachedContents::default();
    }

    fn room(&self) -> usize {
        self.max_bytes.load(Ordering::Relaxed)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn blob(bytes: &[u8]) -> (ObjectId, Object) {
        let object = Object { kind: Kind::Blob, bytes: Bytes::copy_from_slice(bytes) };
        (ObjectId::of(Kind::Blob, bytes), object)
    }

    #[test]
    fn only_blobs_are_kept_as_many_as_there_is_room_for_and_the_first_stay() {
        let kept = ContentCache::default();
        let (id, object) = blob(b"content");
        kept.keep(id, &object);
        assert_eq!(kept.find(&id), None, "the cache keeps nothing by default");
        kept.set_room(10 * (ENTRY_BYTES + 4));
        for number in 0..100_u32 {
            let (id, object) = blob(&number.to_le_bytes());
            kept.keep(id, &object);
            kept.keep(id, &object);
            assert_eq!(kept.find(&id).is_some(), number < 10);
        }
        assert_eq!(kept.find(&blob(&0_u32.to_le_bytes()).0), Some(blob(&0_u32.to_le_bytes()).1));
        kept.clear();
        let node = ObjectId::of(Kind::Node, b"node");
        kept.keep(node, &Object { kind: Kind::Node, bytes: Bytes::from_static(b"node") });
        assert_eq!(kept.find(&node), None);
        kept.keep(id, &object);
        assert_eq!(kept.find(&id), Some(object));
    }
}
