//! Objects through a repository: it is a source of the objects in its store, and answers the
//! questions about the store that most callers have.

use std::path::Path;

use bytes::Bytes;

use super::Repository;
use crate::error::{Error, Result};
use crate::object::{Kind, Object, ObjectId, ObjectSource};
use crate::store::{Finding, StoreSummary, Tombstone};

impl Repository {
    /// Returns the directory of the store, as it was passed to [`Repository::open`].
    #[must_use]
    pub fn dir(&self) -> &Path {
        self.store().dir()
    }

    /// Returns the id of the store, which it has from its creation.
    #[must_use]
    pub fn store_id(&self) -> [u8; 16] {
        self.store().id()
    }

    /// Reads commits of other processes since the last call. Costs a directory listing and one read
    /// for each active segment of the journal.
    ///
    /// # Errors
    /// `Io` when the journal cannot be read, `Locked` when collections follow one another too fast,
    /// `Conflict` when the keys of the store have changed: open it again.
    pub fn refresh(&self) -> Result<()> {
        self.store().refresh()
    }

    /// Returns a number that changes when this handle notices that a collection has removed files.
    /// Objects that existed before may be missing after that, so caches of them end with it.
    #[must_use]
    pub fn epoch(&self) -> u64 {
        self.store().epoch()
    }

    /// Returns the reason why an object was removed on purpose; `None` if it exists or never
    /// existed.
    #[must_use]
    pub fn tombstone(&self, id: &ObjectId) -> Option<Tombstone> {
        self.store().tombstone(id)
    }

    /// Returns the damage that was noticed while files were read.
    #[must_use]
    pub fn findings(&self) -> Vec<Finding> {
        self.store().findings()
    }

    /// Counts the files and objects of the store.
    ///
    /// # Errors
    /// `Io` when a file cannot be read.
    pub fn summary(&self) -> Result<StoreSummary> {
        self.store().summary()
    }
}

impl ObjectSource for Repository {
    fn read(&self, id: &ObjectId) -> Result<Option<Object>> {
        self.store().read(id)
    }

    fn contains(&self, id: &ObjectId) -> Result<bool> {
        self.store().contains(id)
    }

    fn read_as(&self, kind: Kind, id: &ObjectId) -> Result<Bytes> {
        self.store().read_as(kind, id)
    }

    fn missing(&self, kind: Kind, id: &ObjectId) -> Error {
        self.store().missing(kind, id)
    }

    fn read_all(&self, kind: Kind, ids: &[ObjectId]) -> Result<Vec<Bytes>> {
        self.store().read_all(kind, ids)
    }
}
