//! The write path: one batch, one lock for microseconds, one fsync.
//!
//! ```text
//! encode ── lock refs ── catch up ── compare ── write batch ── unlock ── fsync ── acknowledge
//! ```
//!
//! A batch is visible to every process as soon as it is written, and durable after the fsync. So a
//! writer that builds on another writer's batch syncs that batch too before it acknowledges its
//! own. A collection may remove objects that a batch is about to rely on. It announces that under
//! the same lock, so a batch is written only if nothing was announced since the writer checked the
//! store. A record whose sync failed is not synced again in place: a file system may drop the bytes
//! and still report success the next time. The next commit stores the record again.

use std::collections::HashSet;
use std::sync::Arc;

use bytes::Bytes;

use super::ownership::{
    OwnedSegment, RESERVE_MAX_BYTES, RESERVE_MIN_BYTES, SEAL_BYTES, SegmentIds,
};
use crate::error::{Error, ErrorKind, Result};
use crate::object::{Kind, Object, ObjectId, ObjectSource as _, Operation, check_size, verify};
use crate::store::format::codec::Encoder;
use crate::store::format::segment::{Location, MAX_BATCH_OBJECTS, Record, RecordBuilder};
use crate::store::read::journal::UnsyncedRecord;
use crate::store::read::refs::OperationDraft;
use crate::store::read::scan::{
    FoundOperation, ScanDepth, ScanFindings, SegmentEnd, Tail, read_batch,
};
use crate::store::{BatchReport, Committed, Store, lock, read};

/// Most bytes of objects in one commit or append. A larger import is split.
pub(crate) const MAX_COMMIT_BYTES: u64 = 3 << 30;

/// Called before a commit compares its objects with the store, and again after a collection has
/// removed files. Fails if an object that the commit relies on is missing, or returns that object
/// to be stored with the commit.
pub(crate) type CommitCheck<'a> = dyn FnMut() -> Result<Vec<(ObjectId, Object)>> + 'a;

/// The size of the batch, and the operation with its sequence.
type Outcome = (BatchReport, Option<(ObjectId, u64)>);

/// Attempts to commit. An attempt fails if a collection ran since it began.
const MAX_ATTEMPTS: usize = 64;

/// The zeros written ahead are one part in this many of a segment. More would double the size of a
/// store with a small budget, and each extension of a segment costs its commit some milliseconds.
const AHEAD_PARTS: u64 = 4;

/// After a record of this size no zeros are written ahead. An import writes such records, and
/// zeros would be half of the bytes it writes; and the extension costs little beside the record.
const BULK_RECORD_BYTES: u64 = 48 << 10;

/// Zeros are written ahead up to a multiple of this, the block size of most file systems.
const BLOCK_BYTES: u64 = 4096;

/// The writing state of a handle.
pub(in crate::store) struct BatchWriter {
    encoder: Encoder,
    ids: SegmentIds,
    pub(in crate::store) owned: Option<OwnedSegment>,
}

impl BatchWriter {
    pub(in crate::store) fn new(seed: [u8; 16]) -> Result<Self> {
        let (encoder, ids) = (Encoder::new()?, SegmentIds::new(seed));
        Ok(Self { encoder, ids, owned: None })
    }

    /// Returns bytes that no other process can guess.
    pub(in crate::store) fn new_salt(&mut self) -> [u8; 16] {
        self.ids.next().0
    }
}

/// A batch that was written and is not durable yet.
struct WrittenBatch {
    written: BatchReport,
    operation: Option<(ObjectId, u64)>,
    batch: UnsyncedRecord,
    end: u64,
    /// Batches of other writers, which this one may build on.
    others: Vec<UnsyncedRecord>,
}

impl Store {
    /// Makes objects durable without changing a ref, for imports in several parts. Objects that the
    /// store already has are not written again, but are durable afterwards too.
    ///
    /// # Errors
    /// `LimitExceeded` for an object over the limit of its kind or too many at once,
    /// `InvalidInput` for an operation, `Io` when the disk refuses.
    pub fn append(&self, objects: Vec<(ObjectId, Object)>) -> Result<BatchReport> {
        self.append_checked(objects, &mut || Ok(Vec::new()))
    }

    /// [`Store::append`], with a `CommitCheck`.
    ///
    /// # Errors
    /// The errors of [`Store::append`] and of the check.
    pub fn append_checked(
        &self,
        objects: Vec<(ObjectId, Object)>,
        check: &mut CommitCheck<'_>,
    ) -> Result<BatchReport> {
        self.write(objects, None, check).map(|(written, _)| written)
    }

    /// Makes objects durable and changes refs, as one atomic operation.
    ///
    /// The caller passes the ids of the objects, which it has already computed. The cost is one
    /// fsync, and about 3 ms for a megabyte of text before it.
    ///
    /// # Errors
    /// `Conflict` when a ref is not at its expected value, `Locked` when another process keeps the
    /// ref lock, `Unsupported` when the store has features this build may not write, and the errors
    /// of [`Store::append`]. After all of these nothing has changed. After `Io` the operation may
    /// have been committed: reread the refs to find out. The next commit writes to a new segment.
    pub fn commit(
        &self,
        objects: Vec<(ObjectId, Object)>,
        draft: &OperationDraft,
    ) -> Result<Committed> {
        self.commit_checked(objects, draft, &mut || Ok(Vec::new()))
    }

    /// [`Store::commit`], with a `CommitCheck`.
    ///
    /// # Errors
    /// The errors of [`Store::commit`] and of the check.
    pub fn commit_checked(
        &self,
        objects: Vec<(ObjectId, Object)>,
        draft: &OperationDraft,
        check: &mut CommitCheck<'_>,
    ) -> Result<Committed> {
        let (written, operation) = self.write(objects, Some(draft), check)?;
        let Some((operation, sequence)) = operation else {
            return Err(Error::invalid("a commit without an operation"));
        };
        Ok(Committed { operation, sequence, written })
    }

    /// Writes the missing objects, and repeats that if a collection ran concurrently.
    fn write(
        &self,
        mut objects: Vec<(ObjectId, Object)>,
        draft: Option<&OperationDraft>,
        check: &mut CommitCheck<'_>,
    ) -> Result<Outcome> {
        self.superblock.check_writable()?;
        self.superblock.sync_names(&*self.disk, &self.dir)?;
        let mut writer = lock(&self.writer);
        for _ in 0..MAX_ATTEMPTS {
            self.check_complete()?;
            let epoch = read(&self.view).epoch;
            objects.extend(check()?);
            let fresh = self.fresh(&objects)?;
            if let Some(outcome) = self.write_fresh(fresh, draft, epoch, &mut writer)? {
                return Ok(outcome);
            }
            self.reload()?;
            // No process reads a segment that was replaced.
            let journal = lock(&self.journal);
            writer.owned.take_if(|owned| journal.is_skipped(owned.segment.id));
        }
        let message =
            format!("{}: collections keep replacing its files: try again", self.dir.display());
        Err(Error::new(ErrorKind::Locked, message))
    }

    /// Writes one batch with these objects. Stores a batch whose sync failed a second time. Returns
    /// `None` if files were removed since `epoch`.
    fn write_fresh(
        &self,
        fresh: Vec<(ObjectId, Object)>,
        draft: Option<&OperationDraft>,
        epoch: u64,
        writer: &mut BatchWriter,
    ) -> Result<Option<Outcome>> {
        let outcome = self.write_batch(&fresh, draft, epoch, writer);
        if outcome.is_err() && !lock(&self.journal).failed_syncs().is_empty() {
            // Other processes see the batch that could not be made durable, and may build on it:
            // store it again immediately. If that fails too, the next commit tries.
            let _ = self.write_batch(&[], None, epoch, writer);
        }
        let Some(outcome) = outcome? else { return Ok(None) };
        // The next commit reads the nodes and the commit of this one. Blobs are seldom read soon,
        // and would evict objects that are.
        for (id, Object { kind, bytes }) in fresh {
            if kind != Kind::Blob {
                // A copy, since the caller's bytes may be a slice that keeps a whole file alive.
                let bytes = Bytes::copy_from_slice(&bytes);
                self.cache.insert(id, Object { kind, bytes });
            }
        }
        Ok(Some(outcome))
    }

    /// Writes one batch, makes it durable, and seals its segment if it is full.
    fn write_batch(
        &self,
        fresh: &[(ObjectId, Object)],
        draft: Option<&OperationDraft>,
        epoch: u64,
        writer: &mut BatchWriter,
    ) -> Result<Option<Outcome>> {
        let lost = lock(&self.journal).failed_syncs();
        let mut batch = start_batch(fresh, &lost, draft.is_some())?;
        for (id, object) in fresh {
            batch.push(*id, object.kind, &object.bytes, &mut writer.encoder);
        }
        if batch.is_empty() && draft.is_none() {
            let others = lock(&self.journal).unsynced_of_others();
            self.sync_others(&others)?;
            return Ok(Some((BatchReport::default(), None)));
        }
        // Another thread's sync of the segment may have failed.
        let usable = |owned: &OwnedSegment| lock(&self.journal).is_usable(&owned.segment);
        let owned = match writer.owned.take().filter(usable) {
            Some(owned) => owned,
            None => self.acquire(&mut writer.ids)?,
        };
        let Some(placed) = self.place(batch, draft, epoch, writer, owned)? else {
            return Ok(None);
        };
        if let Some(owned) = writer.owned.take() {
            // A segment that fails here is never written to again.
            self.sync(&placed.batch, &*owned.file)?;
            self.write_durable_mark(&owned);
            writer.owned = Some(owned);
        }
        for repeated in &lost {
            lock(&self.journal).mark_durable(repeated);
        }
        self.sync_others(&placed.others)?;
        if let Some(owned) = writer.owned.take_if(|_| placed.end >= SEAL_BYTES) {
            // Sealing only saves readers some work: the commit is durable, and the next writer that
            // looks for a segment tries again.
            let _ = self.seal(owned);
        }
        Ok(Some((placed.written, placed.operation)))
    }

    /// Returns the `objects` that the store lacks, each once. The commit relies on the others, so
    /// they must be readable. A damaged copy is stored again.
    fn fresh(&self, objects: &[(ObjectId, Object)]) -> Result<Vec<(ObjectId, Object)>> {
        let mut seen = HashSet::with_capacity(objects.len());
        let mut fresh = Vec::with_capacity(objects.len());
        for (id, object) in objects {
            check_size(object.kind, &object.bytes)?;
            if object.kind == Kind::Operation {
                return Err(Error::invalid("only the store creates operations"));
            }
            debug_assert!(verify(object.kind, &object.bytes, id).is_ok(), "the id of the object");
            if seen.insert(*id) && !self.has_readable_copy(id) {
                fresh.push((*id, object.clone()));
            }
        }
        Ok(fresh)
    }

    fn has_readable_copy(&self, id: &ObjectId) -> bool {
        // The cache may hold an object that a collection has removed.
        let is_there = read(&self.view).is_found(id);
        is_there && (self.cache.find(id).is_some() || matches!(self.read_stored(id), Ok(Some(_))))
    }

    /// Writes the batch under the ref lock, with the operation that fits the current refs. Returns
    /// `None` if files were removed since `epoch`.
    fn place(
        &self,
        mut batch: RecordBuilder,
        draft: Option<&OperationDraft>,
        epoch: u64,
        writer: &mut BatchWriter,
        owned: OwnedSegment,
    ) -> Result<Option<WrittenBatch>> {
        let owned = writer.owned.insert(owned);
        // Until the batch is written no other process compares refs or appends an operation: two
        // writers that compare with the same refs would both win.
        let _ref_lock = self.superblock.lock(&*self.io, self.lock_timeout)?;
        // The batch leaves out objects that the store had at this epoch. A collection since then
        // may have dropped them, and the new refs would reference missing objects.
        if self.superblock.epoch()? != epoch {
            return Ok(None);
        }
        let mut journal = lock(&self.journal);
        // No process reads a segment without a name, so the commit would be lost when this process
        // ends.
        self.check_named(&journal, owned)?;
        // The operation must follow the newest one: two children of one parent split the history.
        journal.catch_up(&*self.io, &self.view, ScanDepth::Next)?;
        journal.resolve_orphans(&self.view);
        let operation = draft.map(|draft| self.operation(draft)).transpose()?;
        if let Some((id, _, bytes)) = &operation {
            batch.push(*id, Kind::Operation, bytes, &mut writer.encoder);
        }
        // This batch may build on any of these. They are listed under the lock, where none can be
        // added, and synced after it is released, before this batch is acknowledged.
        let others = journal.unsynced_of_others();
        let Some(segment) = journal.segment(&owned.segment) else {
            return Err(Error::not_found(owned.segment.place(0)));
        };
        if segment.closed {
            // It ends in an operation that never took effect. That operation must stay the last
            // record.
            writer.owned = None;
            return Ok(None);
        }
        let Tail { offset, sequence, trailer, .. } = segment.tail;
        let record = batch.finish(owned.segment.id, sequence + 1, trailer, offset);
        let Record { bytes, entries, sequence, trailer } = record;
        let end = offset + bytes.len() as u64;
        let written = BatchReport { objects: entries.len(), stored_bytes: bytes.len() as u64 };
        if let Err(error) = append(owned, &bytes, offset) {
            // The tail may be torn. This handle never writes to the segment again: a good batch
            // after a torn one would turn an unacknowledged write into damage. The next owner
            // checks the tail.
            segment.owned = false;
            writer.owned = None;
            return Err(error);
        }
        let (marked, ended, damaged) = (false, SegmentEnd::Clean, false);
        segment.tail =
            Tail { offset: end, sequence, last: offset, trailer, marked, end: ended, damaged };
        let file = &owned.segment;
        let located = |(id, stored)| (id, Location { segment: Arc::clone(file), stored });
        let change = operation.as_ref().map(|(id, operation, _)| (*id, operation.sequence));
        let found = operation.map(|(id, operation, _)| FoundOperation {
            id,
            operation,
            segment: Arc::clone(file),
            batch: sequence,
        });
        let found = ScanFindings {
            objects: entries.into_iter().map(located).collect(),
            operations: found.into_iter().collect(),
            findings: Vec::new(),
        };
        let batch = UnsyncedRecord { segment: Arc::clone(file), offset, sequence };
        journal.apply(&self.view, found);
        Ok(Some(WrittenBatch { written, operation: change, batch, end, others }))
    }

    /// Builds the operation of a draft on the newest refs. Returns its id, the operation and its
    /// bytes.
    fn operation(&self, draft: &OperationDraft) -> Result<(ObjectId, Operation, Vec<u8>)> {
        let mut joined = 0;
        for id in &draft.joins {
            let bytes = self.read_as(Kind::Operation, id)?;
            joined = joined.max(Operation::decode(&bytes).map_err(|e| e.at(id))?.sequence);
        }
        let operation = read(&self.view).refs.operation(draft, joined)?;
        let bytes = operation.encode();
        check_size(Kind::Operation, &bytes)?;
        Ok((ObjectId::of(Kind::Operation, &bytes), operation, bytes))
    }

    /// Makes records durable that other writers have written and perhaps not synced yet.
    fn sync_others(&self, others: &[UnsyncedRecord]) -> Result<()> {
        others.iter().try_for_each(|record| self.sync(record, &*record.segment.file))
    }
}

/// Writes a record. When the zeros written ahead are used up, writes new ones after it: fewer of
/// them if the disk has no room for more, none after a record of [`BULK_RECORD_BYTES`].
fn append(owned: &mut OwnedSegment, bytes: &[u8], offset: u64) -> Result<()> {
    let end = offset + bytes.len() as u64;
    let failed = |source| Error::io(format!("write {}", owned.segment.place(offset)), source);
    if end <= owned.reserved {
        return owned.file.write_at(bytes, offset).map_err(failed);
    }
    let ahead = match bytes.len() as u64 {
        BULK_RECORD_BYTES.. => 0,
        _ => (end / AHEAD_PARTS).clamp(RESERVE_MIN_BYTES, RESERVE_MAX_BYTES),
    };
    let (wanted, least) =
        ((end + ahead).next_multiple_of(BLOCK_BYTES), end.next_multiple_of(BLOCK_BYTES));
    let write = |reserved: u64| {
        let mut padded = vec![0; usize::try_from(reserved - offset).unwrap_or(bytes.len())];
        if let Some(record) = padded.get_mut(..bytes.len()) {
            record.copy_from_slice(bytes);
        }
        owned.file.write_at(&padded, offset).map(|()| reserved)
    };
    let written = match write(wanted) {
        Err(error) if error.kind() == std::io::ErrorKind::StorageFull => write(least),
        written => written,
    };
    owned.reserved = written.map_err(failed)?;
    Ok(())
}

/// Starts a batch with the records whose sync failed, read from their segments.
fn start_batch(
    fresh: &[(ObjectId, Object)],
    lost: &[UnsyncedRecord],
    with_operation: bool,
) -> Result<RecordBuilder> {
    let mut repeated = Vec::new();
    for batch in lost {
        repeated.extend(read_batch(&batch.segment, batch.offset)?);
    }
    let count = fresh.len() + repeated.len() + usize::from(with_operation);
    if count > MAX_BATCH_OBJECTS {
        return Err(Error::limit("objects in a commit", MAX_BATCH_OBJECTS as u64, count as u64));
    }
    let bytes = fresh.iter().map(|(_, object)| object.bytes.len() as u64).sum::<u64>();
    if bytes > MAX_COMMIT_BYTES {
        return Err(Error::limit("bytes in a commit", MAX_COMMIT_BYTES, bytes));
    }
    let mut batch = RecordBuilder::batch(count);
    for (id, stored, bytes) in &repeated {
        batch.push_stored(*id, stored, bytes);
    }
    Ok(batch)
}
