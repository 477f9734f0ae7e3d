//! Objects in memory: the staging area of a transaction, and the store in tests.

use std::collections::HashMap;
use std::collections::hash_map::Entry;

use bytes::Bytes;

use super::{Kind, Object, ObjectId, ObjectSink, ObjectSource, check_size};
use crate::error::Result;

/// Objects by id, in write order.
#[derive(Debug, Default, Clone)]
pub struct Memory {
    objects: HashMap<ObjectId, Object>,
    order: Vec<ObjectId>,
    bytes: usize,
}

impl Memory {
    /// Creates an empty memory.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// Returns the number of objects.
    #[must_use]
    pub fn len(&self) -> usize {
        self.order.len()
    }

    /// Returns true if there are no objects.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.order.is_empty()
    }

    /// Returns the bytes of all objects.
    #[must_use]
    pub fn bytes(&self) -> usize {
        self.bytes
    }

    /// Iterates over the objects in write order.
    pub fn iter(&self) -> impl Iterator<Item = (&ObjectId, &Object)> {
        self.order.iter().filter_map(|id| self.objects.get_key_value(id))
    }

    /// Consumes the memory and returns the objects in write order, which keeps objects that are
    /// read together adjacent.
    #[must_use]
    pub fn into_objects(mut self) -> Vec<(ObjectId, Object)> {
        let take = |id| self.objects.remove(&id).map(|object| (id, object));
        self.order.into_iter().filter_map(take).collect()
    }
}

impl ObjectSource for Memory {
    fn read(&self, id: &ObjectId) -> Result<Option<Object>> {
        Ok(self.objects.get(id).cloned())
    }

    fn contains(&self, id: &ObjectId) -> Result<bool> {
        Ok(self.objects.contains_key(id))
    }
}

impl ObjectSink for Memory {
    fn write(&mut self, kind: Kind, bytes: Bytes) -> Result<ObjectId> {
        check_size(kind, &bytes)?;
        let id = ObjectId::of(kind, &bytes);
        if let Entry::Vacant(slot) = self.objects.entry(id) {
            self.bytes += bytes.len();
            self.order.push(id);
            slot.insert(Object { kind, bytes });
        }
        Ok(id)
    }
}
