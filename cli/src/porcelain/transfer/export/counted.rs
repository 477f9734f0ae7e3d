//! Counts the messages that an export reads, so that its progress can be shown.

use bytes::Bytes;
use turntree::error::{Error, Result};
use turntree::object::{Kind, Object, ObjectId, ObjectSource};
use turntree::store::Steps;

/// A source that counts each blob that is read from it.
pub(super) struct CountedBlobs<'a> {
    source: &'a dyn ObjectSource,
    steps: &'a Steps,
}

impl<'a> CountedBlobs<'a> {
    pub(super) const fn new(source: &'a dyn ObjectSource, steps: &'a Steps) -> Self {
        Self { source, steps }
    }
}

impl ObjectSource for CountedBlobs<'_> {
    fn read(&self, id: &ObjectId) -> Result<Option<Object>> {
        self.source.read(id)
    }

    fn contains(&self, id: &ObjectId) -> Result<bool> {
        self.source.contains(id)
    }

    fn read_as(&self, kind: Kind, id: &ObjectId) -> Result<Bytes> {
        if kind == Kind::Blob {
            self.steps.pass();
        }
        self.source.read_as(kind, id)
    }

    fn missing(&self, kind: Kind, id: &ObjectId) -> Error {
        self.source.missing(kind, id)
    }

    fn read_all(&self, kind: Kind, ids: &[ObjectId]) -> Result<Vec<Bytes>> {
        if kind == Kind::Blob {
            ids.iter().for_each(|_| self.steps.pass());
        }
        self.source.read_all(kind, ids)
    }
}
