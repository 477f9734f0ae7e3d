//! Seals segments: a full segment, or an idle segment too many, gets an index and is mapped.
//!
//! A crash is safe after every step: the index is a record like any other; the manifest that lists
//! the segment is a new file; and a segment whose index no manifest lists is read like any other,
//! until a writer seals it again.

use std::sync::Arc;

use super::ownership::OwnedSegment;
use super::publish::{ManifestEdit, PublishOutcome};
use crate::error::{Error, Result};
use crate::store::format::id::SegmentId;
use crate::store::format::manifest::Manifest;
use crate::store::read::index::build;
use crate::store::read::journal::UnsyncedRecord;
use crate::store::read::refs::RefTable;
use crate::store::read::scan::{ScanDepth, ScanFindings, SegmentEnd, Tail, scan};
use crate::store::read::sealed::SealedSegment;
use crate::store::{Store, lock, write};

impl Store {
    /// Seals a segment that this handle owns, and gives up ownership even if sealing fails.
    ///
    /// Leaves the segment unchanged if this handle does not know the newest state, or the segment
    /// ends in an operation that never took effect. Releases its lock, unless a transaction is
    /// open: that one may have put objects into the segment that no ref references yet.
    pub(in crate::store) fn seal(&self, owned: OwnedSegment) -> Result<()> {
        let sealing = self.try_seal(&owned);
        if let Some(segment) = lock(&self.journal).segment(&owned.segment) {
            segment.owned = false;
        }
        let Some(index) = sealing? else { return Ok(()) };
        let sealed = Arc::new(SealedSegment::open(Arc::clone(&owned.segment), index)?);
        {
            let mut journal = lock(&self.journal);
            let mut view = write(&self.view);
            let files = Arc::make_mut(&mut view.files);
            // Another thread may have read the new manifest in between.
            if !files.sealed.iter().any(|known| known.segment().id == owned.segment.id) {
                files.sealed.push(sealed);
            }
            view.release(|id| id == owned.segment.id);
            journal.seal(&owned.segment);
        }
        self.keep_locked(owned);
        Ok(())
    }

    /// Writes the index and publishes it. Returns `None` if the segment is not sealed afterwards.
    fn try_seal(&self, owned: &OwnedSegment) -> Result<Option<u64>> {
        // No record may follow an operation that did not take effect, not even an index. Only a
        // complete view knows whether one did.
        if self.complete_refs()?.is_none() || !lock(&self.journal).is_usable(&owned.segment) {
            return Ok(None);
        }
        let index = self.write_index(owned)?;
        let mut sealing = SealedListing { segment: owned.segment.id, index, is_retired: false };
        let published = self.publish(&mut sealing)?;
        let is_listed = matches!(published, PublishOutcome::Done | PublishOutcome::Unchanged);
        Ok((is_listed && !sealing.is_retired).then_some(index))
    }

    /// Appends the index, unless the segment has one, and returns its offset.
    fn write_index(&self, owned: &OwnedSegment) -> Result<u64> {
        let mut found = ScanFindings::default();
        let mut tail = Tail::default();
        scan(&owned.segment, &mut tail, ScanDepth::Next, &mut found)?;
        if tail.end != SegmentEnd::Index {
            let record = build(found.objects).finish(
                owned.segment.id,
                tail.sequence + 1,
                tail.trailer,
                tail.offset,
            );
            let failed =
                |source| Error::io(format!("write {}", owned.segment.place(tail.offset)), source);
            owned.file.write_at(&record.bytes, tail.offset).map_err(failed)?;
            tail = Tail { last: tail.offset, sequence: tail.sequence + 1, ..tail };
        }
        let Tail { last: offset, sequence, .. } = tail;
        let segment = Arc::clone(&owned.segment);
        self.sync(&UnsyncedRecord { segment, offset, sequence }, &*owned.file)?;
        Ok(offset)
    }
}

/// A segment to list in the manifest, with the offset of its index.
struct SealedListing {
    segment: SegmentId,
    index: u64,
    /// Packs have replaced it.
    is_retired: bool,
}

impl ManifestEdit for SealedListing {
    fn edit(&mut self, manifest: &mut Manifest, _refs: &RefTable) -> Result<bool> {
        self.is_retired = manifest.retired.contains(&self.segment);
        if self.is_retired || manifest.sealed.iter().any(|(id, _)| *id == self.segment) {
            return Ok(false);
        }
        manifest.sealed.push((self.segment, self.index));
        Ok(true)
    }
}
