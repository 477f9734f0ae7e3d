//! A cache of decoded blocks, bounded in bytes and shared by threads.
//!
//! Objects that are read together are in few blocks, so a block is decoded once and used often. A
//! thread that needs a block which another thread is decoding waits for it. Damage of a block is
//! cached as well: thousands of objects in it, or in blocks that have it as a base, may be read.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use crate::error::{Error, ErrorKind, Result};
use crate::store::pack::PackId;
use crate::store::pack::format::block::Block;

/// A block of a pack.
type BlockKey = (PackId, u32);

/// Blocks by pack and number. The least recently used one is evicted first.
#[derive(Debug)]
pub(in crate::store) struct BlockCache {
    max_bytes: usize,
    // Few enough for a linear search.
    slots: Mutex<Vec<CacheSlot>>,
    #[cfg(test)]
    decoded: std::sync::atomic::AtomicU64,
}

#[derive(Debug)]
struct CacheSlot {
    key: BlockKey,
    block: Arc<Mutex<Option<DecodedBlock>>>,
    bytes: usize,
}

/// A block, or its damage.
type DecodedBlock = Result<Arc<Block>, String>;

impl BlockCache {
    /// Returns a cache of at most `max_bytes`, which always keeps the most recently used block.
    pub(in crate::store) fn new(max_bytes: usize) -> Self {
        Self {
            max_bytes,
            slots: Mutex::default(),
            #[cfg(test)]
            decoded: std::sync::atomic::AtomicU64::new(0),
        }
    }

    /// Drops all blocks and recorded damage.
    pub(in crate::store) fn clear(&self) {
        lock(&self.slots).clear();
    }

    /// Returns the number of blocks that were decoded for this cache.
    #[cfg(test)]
    pub(in crate::store) fn decoded(&self) -> u64 {
        self.decoded.load(std::sync::atomic::Ordering::Relaxed)
    }

    /// Returns the block `number` of a pack, from the cache or from `decode`.
    pub(in crate::store::pack) fn block(
        &self,
        pack: PackId,
        number: u32,
        decode: impl FnOnce() -> Result<Block>,
    ) -> Result<Arc<Block>> {
        let key = (pack, number);
        let slot = self.slot(key);
        // Held while decoding. A block waits at most for its base. Bases never form a cycle.
        let mut block = lock(&slot);
        match &*block {
            Some(Ok(block)) => return Ok(Arc::clone(block)),
            Some(Err(damage)) => return Err(Error::new(ErrorKind::Corrupt, damage.clone())),
            None => {}
        }
        let decoded = match decode() {
            Ok(decoded) => decoded,
            Err(error) if error.kind() == ErrorKind::Corrupt => {
                let damage = error.to_string();
                let bytes = damage.len();
                *block = Some(Err(damage));
                drop(block);
                self.account(key, bytes);
                return Err(error);
            }
            Err(error) => {
                self.forget(key);
                return Err(error);
            }
        };
        #[cfg(test)]
        self.decoded.fetch_add(1, std::sync::atomic::Ordering::Relaxed);
        let decoded = Arc::new(decoded);
        *block = Some(Ok(Arc::clone(&decoded)));
        drop(block);
        self.account(key, decoded.memory_bytes());
        Ok(decoded)
    }

    /// Returns the slot for a block, and marks it as the most recently used.
    fn slot(&self, key: BlockKey) -> Arc<Mutex<Option<DecodedBlock>>> {
        let mut slots = lock(&self.slots);
        let slot = match slots.iter().position(|slot| slot.key == key) {
            Some(at) => slots.remove(at),
            None => CacheSlot { key, block: Arc::default(), bytes: 0 },
        };
        let block = Arc::clone(&slot.block);
        slots.push(slot);
        block
    }

    fn forget(&self, key: BlockKey) {
        lock(&self.slots).retain(|slot| slot.key != key);
    }

    /// Records the size of a block, and evicts others to make room for it.
    fn account(&self, key: BlockKey, bytes: usize) {
        let mut slots = lock(&self.slots);
        for slot in slots.iter_mut().filter(|slot| slot.key == key) {
            slot.bytes = bytes;
        }
        let mut all: usize = slots.iter().map(|slot| slot.bytes).sum();
        slots.retain(|slot| {
            // A block of size zero is being decoded.
            let keep = all <= self.max_bytes || slot.key == key || slot.bytes == 0;
            if !keep {
                all -= slot.bytes;
            }
            keep
        });
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
