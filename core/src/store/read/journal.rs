//! The active segments of a store, and reading records that other writers append to them.
//!
//! Operations are read in no particular order, since each process writes to its own segment. They
//! form a chain: an operation is applied to the refs when its parent is the newest applied one, and
//! waits until then.

use std::collections::HashSet;
use std::path::{Path, PathBuf};
use std::sync::{Arc, RwLock};

use super::scan::{FoundOperation, ScanDepth, ScanFindings, SegmentEnd, Tail, scan};
use super::view::View;
use crate::error::{ErrorKind, Result};
use crate::object::{ObjectId, Operation};
use crate::store::format::id::SegmentId;
use crate::store::format::segment::SegmentFile;
use crate::store::format::superblock::{LOCK_TIMEOUT, Superblock};
use crate::store::io::{Access, Io};
use crate::store::pack::BlockCache;
use crate::store::{Finding, FindingKind, write};

/// Most bytes of unpacked blocks that are cached while missing operations are looked for.
const CACHE_BYTES: usize = 8 << 20;

/// The active segments, and how far each was read.
#[derive(Debug)]
pub(in crate::store) struct Journal {
    dir: PathBuf,
    pub(in crate::store) segments: Vec<Segment>,
    /// Segments that need no reading: their index is known, or packs have replaced them.
    skipped: HashSet<SegmentId>,
    /// Operations whose parent has not been seen.
    waiting: Vec<FoundOperation>,
    /// Objects that arrived since a running collection last asked; `None` while none runs.
    arrivals: Option<Vec<ObjectId>>,
}

/// An active segment.
#[derive(Debug)]
pub(in crate::store) struct Segment {
    pub(in crate::store) file: Arc<SegmentFile>,
    pub(in crate::store) tail: Tail,
    /// The sequence of the last record known to be durable.
    pub(in crate::store) synced: u64,
    /// True if this handle writes to the segment, and therefore knows its content.
    pub(in crate::store) owned: bool,
    /// Must never be written to again, see [`SegmentEnd::Torn`] and [`Journal::resolve_orphans`].
    pub(in crate::store) closed: bool,
    /// True if a sync failed: a crash may lose the last record, even if a later sync succeeds.
    pub(in crate::store) failed: bool,
}

impl Segment {
    /// Returns the last record that was read, or the place of the first one.
    pub(in crate::store) fn last_record(&self) -> UnsyncedRecord {
        let Tail { last: offset, sequence, .. } = self.tail;
        UnsyncedRecord { segment: Arc::clone(&self.file), offset, sequence }
    }
}

/// The last record of a segment that is not known to be durable. Every earlier record is durable: a
/// writer appends only after the previous record is.
#[derive(Debug)]
pub(in crate::store) struct UnsyncedRecord {
    pub(in crate::store) segment: Arc<SegmentFile>,
    pub(in crate::store) offset: u64,
    pub(in crate::store) sequence: u64,
}

impl Journal {
    /// Returns the journal in `dir` without reading it.
    pub(in crate::store) fn new(dir: PathBuf, skipped: HashSet<SegmentId>) -> Self {
        Self { dir, segments: Vec::new(), skipped, waiting: Vec::new(), arrivals: None }
    }

    pub(in crate::store) fn dir(&self) -> &Path {
        &self.dir
    }

    pub(in crate::store) fn path(&self, segment: SegmentId) -> PathBuf {
        self.dir.join(segment.file_name())
    }

    /// Reads the whole journal of a store that is opened. Afterwards damage and unacknowledged
    /// batches are known.
    pub(in crate::store) fn open(
        &mut self,
        io: &dyn Io,
        view: &RwLock<View>,
        superblock: &Superblock,
    ) -> Result<()> {
        self.catch_up(io, view, ScanDepth::Whole)?;
        if self.waiting.is_empty() {
            return Ok(());
        }
        // A parent may have been written after its segment was read, but before the segment of its
        // child was. A missing parent is certain to be missing only while no process writes.
        match superblock.lock(io, LOCK_TIMEOUT) {
            Ok(_ref_lock) => {
                self.catch_up(io, view, ScanDepth::Next)?;
                self.resolve_orphans(view);
                Ok(())
            }
            // A process that holds the lock for so long is stopped; the next commit decides.
            Err(error) if error.kind() == ErrorKind::Locked => Ok(()),
            Err(error) => Err(error),
        }
    }

    /// Reads the records that other writers have written since the last call.
    pub(in crate::store) fn catch_up(
        &mut self,
        io: &dyn Io,
        view: &RwLock<View>,
        depth: ScanDepth,
    ) -> Result<()> {
        self.find_segments(io)?;
        let mut found = ScanFindings::default();
        let mut scanned = Ok(());
        for segment in &mut self.segments {
            let ended = segment.closed || segment.tail.end == SegmentEnd::Index;
            if !segment.owned && !ended && scanned.is_ok() {
                scanned = scan(&segment.file, &mut segment.tail, depth, &mut found);
            }
        }
        // Also after an error: the tails have passed these records, so they are not read again.
        self.apply(view, found);
        scanned
    }

    /// Makes the result of a scan visible.
    pub(in crate::store) fn apply(&mut self, view: &RwLock<View>, found: ScanFindings) {
        let ScanFindings { objects, operations, findings } = found;
        self.waiting.extend(operations);
        if objects.is_empty() && findings.is_empty() && self.waiting.is_empty() {
            return;
        }
        self.note_arrivals(|| objects.iter().map(|(id, _)| *id));
        let mut view = write(view);
        view.add_active(objects);
        for finding in findings {
            view.add_finding(finding);
        }
        self.apply_waiting(&mut view);
    }

    /// Starts recording arriving objects.
    pub(in crate::store) fn begin_arrivals(&mut self) {
        self.arrivals = Some(Vec::new());
    }

    /// Records arrived objects, while a collection runs.
    pub(in crate::store) fn note_arrivals<I: IntoIterator<Item = ObjectId>>(
        &mut self,
        ids: impl FnOnce() -> I,
    ) {
        if let Some(arrivals) = &mut self.arrivals {
            arrivals.extend(ids());
        }
    }

    /// Returns the objects that arrived since the last call.
    pub(in crate::store) fn take_arrivals(&mut self) -> Vec<ObjectId> {
        self.arrivals.as_mut().map(std::mem::take).unwrap_or_default()
    }

    /// Stops recording arrivals.
    pub(in crate::store) fn end_arrivals(&mut self) {
        self.arrivals = None;
    }

    /// Closes segments that end in an operation whose parent is missing, so that it stays the last
    /// record. This includes segments that this handle has taken over.
    fn close_segments_of_orphans(&mut self) {
        for orphan in &self.waiting {
            for segment in &mut self.segments {
                if Arc::ptr_eq(&segment.file, &orphan.segment) {
                    (segment.closed, segment.owned) = (true, false);
                }
            }
        }
    }

    /// Drops a segment whose index is known from the active ones.
    pub(in crate::store) fn seal(&mut self, segment: &Arc<SegmentFile>) {
        self.segments.retain(|known| !Arc::ptr_eq(&known.file, segment));
        self.skipped.insert(segment.id);
    }

    /// Drops every segment that needs no reading from the active ones.
    pub(in crate::store) fn skip_segments(&mut self, skipped: HashSet<SegmentId>) {
        self.segments.retain(|segment| !skipped.contains(&segment.file.id));
        self.skipped = skipped;
    }

    /// Returns true if a segment needs no reading.
    pub(in crate::store) fn is_skipped(&self, segment: SegmentId) -> bool {
        self.skipped.contains(&segment)
    }

    pub(in crate::store) fn segment(&mut self, file: &Arc<SegmentFile>) -> Option<&mut Segment> {
        self.segments.iter_mut().find(|segment| Arc::ptr_eq(&segment.file, file))
    }

    /// Returns true if this handle may append to one of its segments.
    pub(in crate::store) fn is_usable(&mut self, file: &Arc<SegmentFile>) -> bool {
        self.segment(file)
            .is_some_and(|segment| segment.owned && !segment.failed && !segment.closed)
    }

    /// Returns the records of other writers that may not be synced yet.
    pub(in crate::store) fn unsynced_of_others(&self) -> Vec<UnsyncedRecord> {
        self.unsynced(|segment| !segment.owned && !segment.failed && !segment.tail.marked)
    }

    /// Returns the records of all writers, this handle included, that may not be synced yet.
    pub(in crate::store) fn all_unsynced(&self) -> Vec<UnsyncedRecord> {
        self.unsynced(|segment| !segment.failed && !segment.tail.marked)
    }

    /// Returns the records whose sync failed.
    pub(in crate::store) fn failed_syncs(&self) -> Vec<UnsyncedRecord> {
        self.unsynced(|segment| segment.failed)
    }

    fn unsynced(&self, which: impl Fn(&Segment) -> bool) -> Vec<UnsyncedRecord> {
        let unsynced = self.segments.iter().filter(|s| s.tail.sequence > s.synced && which(s));
        unsynced.map(Segment::last_record).collect()
    }

    /// Marks a record as durable, in its segment or as a copy elsewhere.
    pub(in crate::store) fn mark_durable(&mut self, record: &UnsyncedRecord) {
        if let Some(segment) = self.segment(&record.segment) {
            segment.synced = segment.synced.max(record.sequence);
            segment.failed = false;
        }
    }

    /// Adds a segment that has just been created. Another thread may already have found its file
    /// while it was empty.
    pub(in crate::store) fn add(&mut self, segment: Segment) {
        self.segments.retain(|known| known.file.id != segment.file.id);
        self.segments.push(segment);
    }

    /// Returns the segments whose files exist.
    pub(in crate::store) fn existing_segments(&self, io: &dyn Io) -> Result<HashSet<SegmentId>> {
        let names = io.list_or_empty(&self.dir)?;
        Ok(names.iter().filter_map(|name| SegmentId::from_file_name(name)).collect())
    }

    fn find_segments(&mut self, io: &dyn Io) -> Result<()> {
        let mut ids: Vec<SegmentId> = self.existing_segments(io)?.into_iter().collect();
        ids.sort_unstable();
        for id in ids {
            let known = |segment: &Segment| segment.file.id == id;
            if self.skipped.contains(&id) || self.segments.iter().any(known) {
                continue;
            }
            let path = self.path(id);
            // A missing file was collected since the directory was listed.
            let Some(file) = io.open_if_exists(&path, Access::Read)? else { continue };
            self.segments.push(Segment {
                file: Arc::new(SegmentFile { id, file }),
                tail: Tail::default(),
                synced: 0,
                owned: false,
                closed: false,
                failed: false,
            });
        }
        Ok(())
    }

    /// Applies all waiting operations whose parent is applied.
    fn apply_waiting(&mut self, view: &mut View) {
        // A child has a higher sequence than its parent, so one pass finds the whole chain.
        self.waiting.sort_by_key(|found| found.operation.sequence);
        self.waiting.retain(|found| {
            let next = view.refs.precedes(&found.operation);
            if next {
                view.apply(found.id, &found.operation);
            }
            !next
        });
        // An operation as old as the refs is in them, or was never acknowledged.
        let sequence = view.refs.sequence;
        self.waiting.retain(|found| found.operation.sequence > sequence);
    }

    /// Decides about operations whose parent is missing.
    ///
    /// The parent may be in a file that the manifest lists. The operations of such files are not
    /// read, because the refs of the manifest include them. If they do not, that is damage, and the
    /// operations are applied.
    ///
    /// Otherwise: a process writes nothing after an operation until that operation is acknowledged,
    /// and acknowledges none before all its ancestors are durable. So if a record follows, the
    /// missing ancestor was lost later. That is damage, and the refs still advance to the newest
    /// values known. If no record follows, the operation was never acknowledged and is ignored.
    ///
    /// The caller must hold the ref lock and have read everything with a view of the newest epoch.
    /// Otherwise the parent may be in a record that was not read.
    pub(in crate::store) fn resolve_orphans(&mut self, view: &RwLock<View>) {
        if self.waiting.is_empty() {
            return;
        }
        let mut view = write(view);
        loop {
            self.apply_waiting(&mut view);
            // Files of the manifest first: an operation there was acknowledged, and skipping it
            // would roll refs back to old values.
            if self.apply_listed(&mut view) {
                continue;
            }
            // Only a later record proves that an operation was acknowledged. Applying one without
            // that proof would show a commit that its writer reported as failed.
            let acknowledged = self.waiting.iter().enumerate().filter(|(_, found)| {
                self.segments.iter().any(|segment| {
                    Arc::ptr_eq(&segment.file, &found.segment)
                        && segment.tail.sequence > found.batch
                })
            });
            // The oldest first: the later ones may be its descendants, and then are not damage.
            let first = acknowledged.min_by_key(|(_, found)| found.operation.sequence);
            let Some((at, _)) = first else { break };
            let found = self.waiting.swap_remove(at);
            let (from, to) = (view.refs.sequence, found.operation.sequence);
            view.findings.push(Finding {
                kind: FindingKind::Damage,
                place: format!("operation {}", found.id),
                message: format!("the operations between {from} and {to} are missing"),
            });
            view.apply(found.id, &found.operation);
        }
        drop(view);
        // A record after one of the others would make it look acknowledged to the next reader.
        self.close_segments_of_orphans();
    }

    /// Applies operations in files of the manifest, if they connect its refs to a waiting
    /// operation.
    fn apply_listed(&self, view: &mut View) -> bool {
        let Some(missing) = self.waiting.iter().find_map(|found| listed_before(view, found)) else {
            return false;
        };
        let (from, to) = (view.refs.sequence, missing.len());
        view.add_finding(Finding {
            kind: FindingKind::Damage,
            place: format!("operation {}", from + 1),
            message: format!(
                "{to} operations from here on are in files of the manifest, but not in its refs"
            ),
        });
        for (id, operation) in missing.iter().rev() {
            view.apply(*id, operation);
        }
        true
    }
}

/// Returns the operations between the refs and a waiting one, newest first, if all of them are in
/// files that the manifest lists.
fn listed_before(view: &View, found: &FoundOperation) -> Option<Vec<(ObjectId, Operation)>> {
    let blocks = BlockCache::new(CACHE_BYTES);
    let mut missing: Vec<(ObjectId, Operation)> = Vec::new();
    let mut next = *found.operation.parents.first()?;
    while Some(next) != view.refs.operation {
        let object = view.files.place(&next)?.read(&next, &blocks).ok()?;
        let operation = Operation::decode(&object.bytes).ok()?;
        let child = missing.last().map_or(&found.operation, |(_, child)| child);
        if operation.sequence <= view.refs.sequence || operation.sequence >= child.sequence {
            return None;
        }
        let parent = operation.parents.first().copied();
        missing.push((next, operation));
        next = parent?;
    }
    (!missing.is_empty()).then_some(missing)
}
