//! What a store shows: where every object lies, the refs, and what was found to be wrong.

use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;

use bytes::Bytes;

use super::index::Sealed;
use super::refs::RefTable;
use super::scan::FoundOperation;
use super::segment::{SegmentFile, SegmentId, Stored};
use super::{Finding, codec};
use crate::error::{Error, Result};
use crate::object::{IdPrefix, Kind, Object, ObjectId, verify};

/// Where an object lies in a segment that is not sealed.
#[derive(Debug, Clone)]
pub(super) struct Location {
    pub(super) segment: Arc<SegmentFile>,
    pub(super) stored: Stored,
}

/// Where an object is read from.
#[derive(Debug, Clone)]
pub(super) enum Place {
    /// A file that is still written to: read with a system call.
    Active(Location),
    /// A file in memory.
    Sealed(Arc<Sealed>, Stored),
}

/// Everything visible to readers. Cheap to look at, changed only for moments.
#[derive(Debug, Default)]
pub(super) struct View {
    /// Objects in active segments.
    pub(super) active: HashMap<ObjectId, Location>,
    /// Immutable files with an index of their own, searched after the active ones, newest last.
    pub(super) sealed: Vec<Arc<Sealed>>,
    pub(super) refs: Arc<RefTable>,
    pub(super) findings: Vec<Finding>,
}

impl View {
    pub(super) fn place(&self, id: &ObjectId) -> Option<Place> {
        if let Some(location) = self.active.get(id) {
            return Some(Place::Active(location.clone()));
        }
        self.sealed.iter().rev().find_map(|sealed| {
            sealed.find(id).map(|stored| Place::Sealed(Arc::clone(sealed), stored))
        })
    }

    pub(super) fn contains(&self, id: &ObjectId) -> bool {
        self.active.contains_key(id) || self.sealed.iter().any(|sealed| sealed.find(id).is_some())
    }

    /// Up to `limit` objects whose ids start with `prefix`, in order.
    pub(super) fn find(&self, prefix: &IdPrefix, limit: usize) -> Vec<(ObjectId, Kind)> {
        let mut found = BTreeMap::new();
        for sealed in &self.sealed {
            found.extend(sealed.starting_with(prefix).take(limit));
        }
        let active = self.active.iter().filter(|(id, _)| prefix.matches(id));
        found.extend(active.map(|(id, location)| (*id, location.stored.kind)));
        found.into_iter().take(limit).collect()
    }

    pub(super) fn apply(&mut self, found: &FoundOperation) {
        Arc::make_mut(&mut self.refs).apply(found.id, &found.operation);
    }
}

impl Place {
    /// The object `id`, which lies here, verified.
    pub(super) fn read(&self, id: &ObjectId) -> Result<Object> {
        let stored = self.stored();
        let damaged = |source| {
            let what = format_args!("{} of {id}", stored.kind);
            Error::corrupt(self.segment().place(stored.offset), what, "other bytes")
                .with_source(source)
        };
        let bytes = codec::decode(stored.codec, self.stored_bytes()?, stored.raw_bytes);
        let bytes = bytes.map_err(damaged)?;
        verify(stored.kind, &bytes, id).map_err(|e| e.at(self.segment().place(stored.offset)))?;
        Ok(Object { kind: stored.kind, bytes })
    }

    fn stored_bytes(&self) -> Result<Bytes> {
        let (stored, segment) = (self.stored(), self.segment());
        let short = || Error::corrupt(segment.place(stored.offset), "an object", "the end");
        match self {
            Self::Sealed(sealed, _) => sealed.bytes(stored).ok_or_else(short),
            Self::Active(_) => {
                // The size is not taken on trust: the batch lay wholly inside the file.
                let mut bytes = vec![0; stored.stored_bytes as usize];
                let read = segment.file.read_at(&mut bytes, stored.offset).map_err(|source| {
                    Error::io(format!("read {}", segment.place(stored.offset)), source)
                })?;
                if read < bytes.len() {
                    return Err(short());
                }
                Ok(bytes.into())
            }
        }
    }

    /// The file and the offset in it: what is read in this order is read from front to back.
    pub(super) fn position(&self) -> (SegmentId, u64) {
        (self.segment().id, self.stored().offset)
    }

    fn stored(&self) -> &Stored {
        match self {
            Self::Active(location) => &location.stored,
            Self::Sealed(_, stored) => stored,
        }
    }

    fn segment(&self) -> &SegmentFile {
        match self {
            Self::Active(location) => &location.segment,
            Self::Sealed(sealed, _) => sealed.segment(),
        }
    }
}
