//! Objects in memory: the staging area of a transaction, and the store of tests.

use std::collections::HashMap;
use std::collections::hash_map::Entry;

use bytes::Bytes;

use super::{Kind, Object, ObjectId, ObjectSink, ObjectSource, check_size};
use crate::error::Result;

/// Objects by id, in the order in which they were written.
#[derive(Debug, Default, Clone)]
pub struct Memory {
    objects: HashMap<ObjectId, Object>,
    order: Vec<ObjectId>,
    bytes: usize,
}

impl Memory {
    /// Nothing yet.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// Number of objects.
    #[must_use]
    pub fn len(&self) -> usize {
        self.order.len()
    }

    /// Returns true if there is no object.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.order.is_empty()
    }

    /// Bytes of all objects together.
    #[must_use]
    pub fn bytes(&self) -> usize {
        self.bytes
    }

    /// Every object, in the order in which they were written.
    pub fn iter(&self) -> impl Iterator<Item = (&ObjectId, &Object)> {
        self.order.iter().filter_map(|id| self.objects.get_key_value(id))
    }

    /// Every object, out of here, in the same order: what is read together lies together.
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
