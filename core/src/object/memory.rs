//! Objects in memory: the staging area of a transaction, and the store of tests.

use std::collections::HashMap;
use std::collections::hash_map::Entry;

use bytes::Bytes;

use super::{Kind, Object, ObjectId, ObjectSink, ObjectSource, check_size};
use crate::error::Result;

/// A map of objects by id.
#[derive(Debug, Default, Clone)]
pub struct Memory {
    objects: HashMap<ObjectId, Object>,
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
        self.objects.len()
    }

    /// Whether there is no object.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.objects.is_empty()
    }

    /// Bytes of all objects together.
    #[must_use]
    pub fn bytes(&self) -> usize {
        self.bytes
    }

    /// Takes one object out.
    pub fn remove(&mut self, id: &ObjectId) -> Option<Object> {
        let removed = self.objects.remove(id)?;
        self.bytes -= removed.bytes.len();
        Some(removed)
    }

    /// Every object, in no order.
    pub fn iter(&self) -> impl Iterator<Item = (&ObjectId, &Object)> {
        self.objects.iter()
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
            slot.insert(Object { kind, bytes });
        }
        Ok(id)
    }
}
