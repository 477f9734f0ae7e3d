//! Leases: what an open transaction relies on is not collected under it.
//!
//! A transaction relies on two kinds of objects to which no ref may lead. Those it has appended
//! itself: the segments they are in stay locked as long as it lasts, and a locked segment is never
//! replaced. And those of others that it found in the store and did not write again: the files they
//! are in stay open, so that they can be read, and written again, if a collection takes the names
//! away before the transaction is finished.

use std::collections::HashMap;
use std::sync::Arc;

use super::view::{ObjectPlace, OpenFiles};
use crate::error::Result;
use crate::object::{Object, ObjectId};
use crate::store::format::segment::Location;
use crate::store::write::ownership::Owned;
use crate::store::{Store, lock, read};

/// The open transactions of a handle.
#[derive(Debug, Default)]
pub(in crate::store) struct ReadGuards {
    open: usize,
    /// Sealed segments that stay locked while there is any.
    locked: Vec<Owned>,
    /// Former locations of objects in segments that were replaced while there was any.
    replaced: HashMap<ObjectId, Location>,
}

/// Keeps what a transaction relies on, from its beginning to its end.
#[derive(Debug)]
pub(crate) struct ReadGuard<'s> {
    store: &'s Store,
    files: Arc<OpenFiles>,
}

impl Store {
    /// Begins to keep what is in the store now.
    #[must_use]
    pub(crate) fn read_guard(&self) -> ReadGuard<'_> {
        lock(&self.read_guards).open += 1;
        ReadGuard { store: self, files: Arc::clone(&read(&self.view).files) }
    }

    /// Keeps where objects lay in segments that are no longer read, while a transaction is open.
    pub(in crate::store) fn keep_replaced(&self, objects: Vec<(ObjectId, Location)>) {
        let mut read_guards = lock(&self.read_guards);
        if read_guards.open > 0 {
            read_guards.replaced.extend(objects);
        }
    }

    /// Returns true if a transaction is open on this handle.
    pub(in crate::store) fn has_read_guard(&self) -> bool {
        lock(&self.read_guards).open > 0
    }

    /// Keeps a sealed segment locked while a transaction is open.
    pub(in crate::store) fn keep_locked(&self, owned: Owned) {
        let mut read_guards = lock(&self.read_guards);
        if read_guards.open > 0 {
            read_guards.locked.push(owned);
        }
    }
}

impl ReadGuard<'_> {
    /// The object `id` as it was in the store when the lease began, verified.
    ///
    /// # Errors
    /// `Corrupt` when its bytes do not verify.
    pub(crate) fn read(&self, id: &ObjectId) -> Result<Option<Object>> {
        let replaced = lock(&self.store.read_guards).replaced.get(id).cloned();
        let place = replaced.map(ObjectPlace::Active).or_else(|| self.files.place(id));
        place.map(|place| place.read(id, &self.store.blocks)).transpose()
    }
}

impl Drop for ReadGuard<'_> {
    fn drop(&mut self) {
        let mut read_guards = lock(&self.store.read_guards);
        read_guards.open -= 1;
        if read_guards.open == 0 {
            read_guards.locked.clear();
            read_guards.replaced.clear();
        }
    }
}
