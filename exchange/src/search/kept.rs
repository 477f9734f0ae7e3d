//! An index in memory, kept from one search to the next by who stays open longer than one.
//!
//! An encrypted store has no index beside it, since that would lie in the clear. Who asks it once makes one
//! in memory, which reads every content; a server keeps that and takes up what is new. It is of one epoch
//! of the store: a redaction and a collection begin another one, and what they took away is to be in no
//! memory, so the index goes with them and is made again.

use std::sync::{Mutex, MutexGuard, PoisonError, TryLockError};

use turntree::store::Store;

use super::index::{Index, Trouble};

/// An index in memory, once one was needed; see [`search_keeping`](super::search_keeping).
#[derive(Debug, Default)]
pub struct KeptIndex(Mutex<Option<IndexOfEpoch>>);

#[derive(Debug)]
struct IndexOfEpoch {
    index: Index,
    /// The store, and its epoch before anything was taken up.
    store: [u8; 16],
    epoch: u64,
}

impl KeptIndex {
    /// Drops the index: nothing of a store stays in memory.
    pub fn let_go(&self) {
        *self.lock() = None;
    }

    /// The same, but returns false while a search uses the index.
    #[must_use]
    pub fn try_let_go(&self) -> bool {
        match self.0.try_lock() {
            Ok(mut kept) => *kept = None,
            Err(TryLockError::Poisoned(kept)) => *kept.into_inner() = None,
            Err(TryLockError::WouldBlock) => return false,
        }
        true
    }

    /// Lets `work` use the index of a store, which is empty where none was kept. It stays only if that
    /// succeeds.
    pub(super) fn with<T>(
        &self,
        store: &Store,
        work: impl FnOnce(&Index) -> Result<T, Trouble>,
    ) -> Result<T, Trouble> {
        let mut kept = self.lock();
        let (id, epoch) = (store.id(), store.epoch());
        let of_now = |kept: &IndexOfEpoch| (kept.store, kept.epoch) == (id, epoch);
        let index = match kept.take().filter(of_now) {
            Some(kept) => kept.index,
            None => Index::in_memory(store)?,
        };
        let done = work(&index)?;
        *kept = Some(IndexOfEpoch { index, store: id, epoch });
        Ok(done)
    }

    fn lock(&self) -> MutexGuard<'_, Option<IndexOfEpoch>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
