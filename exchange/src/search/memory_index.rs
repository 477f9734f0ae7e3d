//! Keeps an in-memory index between the searches of one process.
//!
//! An encrypted store has no index on disk, because that would hold its words in plaintext. A
//! single search builds one in memory, which reads all content. A server keeps that index and adds
//! only new turns. The index belongs to one epoch of the store. A redaction or a collection starts
//! a new epoch, and the content that it deleted must not stay in memory, so the index is dropped
//! and rebuilt.

use std::sync::{Mutex, MutexGuard, PoisonError, TryLockError};

use turntree::repo::Repository;

use super::index::{Index, IndexError};

/// An in-memory index, built by the first search that needs it; see
/// [`search_with_index`](super::search_with_index).
#[derive(Debug, Default)]
pub struct MemoryIndex(Mutex<Option<CachedIndex>>);

#[derive(Debug)]
struct CachedIndex {
    index: Index,
    /// The id of the store, and its epoch before the index read anything.
    store: [u8; 16],
    epoch: u64,
}

impl MemoryIndex {
    /// Drops the index, so that no content of a store stays in memory.
    pub fn clear(&self) {
        *self.lock() = None;
    }

    /// Drops the index, or returns false if a search is using it.
    #[must_use]
    pub fn try_clear(&self) -> bool {
        match self.0.try_lock() {
            Ok(mut cached) => *cached = None,
            Err(TryLockError::Poisoned(cached)) => *cached.into_inner() = None,
            Err(TryLockError::WouldBlock) => return false,
        }
        true
    }

    /// Calls `work` with the index of a store, empty if none is kept. Keeps the index only if
    /// `work` succeeds.
    pub(super) fn with<T>(
        &self,
        repo: &Repository,
        work: impl FnOnce(&Index) -> Result<T, IndexError>,
    ) -> Result<T, IndexError> {
        let mut cached = self.lock();
        let (id, epoch) = (repo.store_id(), repo.epoch());
        let of_now = |cached: &CachedIndex| (cached.store, cached.epoch) == (id, epoch);
        let index = match cached.take().filter(of_now) {
            Some(cached) => cached.index,
            None => Index::in_memory(repo)?,
        };
        let done = work(&index)?;
        *cached = Some(CachedIndex { index, store: id, epoch });
        Ok(done)
    }

    fn lock(&self) -> MutexGuard<'_, Option<CachedIndex>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
