//! Counts the steps of long work, so that another thread can show how far it is.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use bytes::Bytes;

use super::Store;
use crate::error::{Error, Result};
use crate::object::{Kind, Object, ObjectId, ObjectSource};

/// The steps of some work: those that are done, and all that are known so far.
#[derive(Debug, Default)]
pub struct Steps {
    done: AtomicU64,
    all: AtomicU64,
}

impl Steps {
    /// Adds steps that are to be done.
    pub fn begin(&self, steps: u64) {
        self.all.fetch_add(steps, Ordering::Relaxed);
    }

    /// Adds a step that is done.
    pub fn pass(&self) {
        self.done.fetch_add(1, Ordering::Relaxed);
    }

    /// Returns the number of steps that are done, and of all steps.
    #[must_use]
    pub fn count(&self) -> (u64, u64) {
        let done = self.done.load(Ordering::Relaxed);
        (done, self.all.load(Ordering::Relaxed).max(done))
    }
}

impl Store {
    /// Returns the steps of the packs and bundles that this handle writes: one for each object.
    #[must_use]
    pub fn packing(&self) -> &Arc<Steps> {
        &self.packing
    }
}

/// A source that counts each object that is read for a pack.
pub(crate) struct CountedSource<'a> {
    source: &'a (dyn ObjectSource + Sync),
    steps: &'a Steps,
}

impl<'a> CountedSource<'a> {
    /// Counts the reads of `objects` objects.
    pub(crate) fn new(
        source: &'a (dyn ObjectSource + Sync),
        steps: &'a Steps,
        objects: usize,
    ) -> Self {
        steps.begin(objects as u64);
        Self { source, steps }
    }
}

impl ObjectSource for CountedSource<'_> {
    fn read(&self, id: &ObjectId) -> Result<Option<Object>> {
        self.source.read(id)
    }

    fn contains(&self, id: &ObjectId) -> Result<bool> {
        self.source.contains(id)
    }

    fn read_as(&self, kind: Kind, id: &ObjectId) -> Result<Bytes> {
        self.steps.pass();
        self.source.read_as(kind, id)
    }

    fn missing(&self, kind: Kind, id: &ObjectId) -> Error {
        self.source.missing(kind, id)
    }

    fn read_all(&self, kind: Kind, ids: &[ObjectId]) -> Result<Vec<Bytes>> {
        self.source.read_all(kind, ids)
    }
}
