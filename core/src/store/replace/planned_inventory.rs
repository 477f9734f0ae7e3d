//! Builds the inventory that one more commit would produce, for dry runs.
//!
//! The objects of that commit are in a segment in memory. Nothing is written.

use std::sync::Arc;

use crate::error::Result;
use crate::object::{Kind, Object, ObjectId, ObjectSource};
use crate::store::Store;
use crate::store::format::codec::Encoder;
use crate::store::format::id::SegmentId;
use crate::store::format::segment::{CHECKSUM_BYTES, Location, RecordBuilder, SegmentFile};
use crate::store::memory_file::MemoryFile;
use crate::store::read::inventory::Inventory;
use crate::store::read::refs::OperationDraft;

/// The name of the segment in memory. Segments on disk have random names.
const PLANNED: SegmentId = SegmentId([0; 16]);

impl Store {
    /// Returns the inventory as if these objects and the operation of the draft had been committed.
    /// Writes nothing.
    ///
    /// # Errors
    /// `Io` when the journal cannot be read, and the errors that a commit of the draft would
    /// return.
    pub(crate) fn planned_inventory(
        &self,
        objects: Vec<(ObjectId, Object)>,
        draft: &OperationDraft,
    ) -> Result<Inventory<'_>> {
        let mut found = self.inventory_files()?;
        let mut refs = (*found.refs).clone();
        let operation = refs.operation(draft, 0)?;
        let bytes = operation.encode();
        let id = ObjectId::of(Kind::Operation, &bytes);
        refs.apply(id, &operation);
        found.refs = Arc::new(refs);

        let mut fresh = Vec::new();
        for (id, object) in objects {
            if !self.contains(&id)? {
                fresh.push((id, object));
            }
        }
        fresh.push((id, Object { kind: Kind::Operation, bytes: bytes.into() }));
        let (mut batch, mut encoder) = (RecordBuilder::batch(fresh.len()), Encoder::new()?);
        for (id, object) in &fresh {
            batch.push(*id, object.kind, &object.bytes, &mut encoder);
        }
        let record = batch.finish(PLANNED, 1, [0; CHECKSUM_BYTES], 0);
        found.segments.push((PLANNED, record.bytes.len() as u64, true));
        let file = Arc::new(MemoryFile::of(record.bytes));
        let segment = Arc::new(SegmentFile { id: PLANNED, file });
        let located = |(id, stored)| (id, Location { segment: Arc::clone(&segment), stored });
        found.active.extend(record.entries.into_iter().map(located));
        Ok(Inventory::new(self, found))
    }
}
