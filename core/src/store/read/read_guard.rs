//! Read guards: keep the objects that an open transaction relies on from being collected.
//!
//! A transaction relies on two kinds of objects that no ref may reference yet. The first are those
//! that it has appended itself: their segments stay locked as long as it lasts, and a locked
//! segment is never replaced. The second are other writers' objects that it found in the store and
//! did not write again. The files with these stay open. So they can be read, and written again, if
//! a collection unlinks the files before the transaction is finished.

use std::collections::HashMap;
use std::sync::Arc;

use super::view::{ObjectPlace, OpenFiles};
use crate::error::Result;
use crate::object::{Object, ObjectId};
use crate::store::format::segment::Location;
use crate::store::write::ownership::OwnedSegment;
use crate::store::{Store, lock, read};

/// The open transactions of a handle.
#[derive(Debug, Default)]
pub(in crate::store) struct ReadGuards {
    open: usize,
    /// Sealed segments that stay locked while a transaction is open.
    locked: Vec<OwnedSegment>,
    /// Former locations of objects in segments that were replaced while a transaction was open.
    replaced: HashMap<ObjectId, Location>,
}

/// Keeps the objects that a transaction relies on, from its beginning to its end.
#[derive(Debug)]
pub(crate) struct ReadGuard<'s> {
    store: &'s Store,
    files: Arc<OpenFiles>,
}

impl Store {
    /// Starts keeping the present content of the store.
    #[must_use]
    pub(crate) fn read_guard(&self) -> ReadGuard<'_> {
        lock(&self.read_guards).open += 1;
        ReadGuard { store: self, files: Arc::clone(&read(&self.view).files) }
    }

    /// Keeps the locations of objects in dropped segments, while a transaction is open.
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
    pub(in crate::store) fn keep_locked(&self, owned: OwnedSegment) {
        let mut read_guards = lock(&self.read_guards);
        if read_guards.open > 0 {
            read_guards.locked.push(owned);
        }
    }
}

impl ReadGuard<'_> {
    /// Reads and verifies the object `id` as it was in the store when the guard was created.
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
