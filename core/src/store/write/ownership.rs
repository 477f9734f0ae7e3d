//! Ownership of segments: a writer takes over an idle segment, or creates one.
//!
//! The holder of the lock of a segment's file owns the segment, and the lock dies with the process.
//! Only a segment that ends cleanly is taken over. A torn batch never has anything written after
//! it, so a reader can tell a torn batch from damage.

use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use crate::error::{Error, Result};
use crate::object::Checksum;
use crate::store::dir::failed;
use crate::store::format::id::SegmentId;
use crate::store::format::segment::{
    NEW_SEGMENT_BYTES, SEGMENT_HEADER_BYTES, SYNCED_MARK, SegmentFile, encode_segment_header,
};
use crate::store::io::{Access, IoFile};
use crate::store::read::journal::{Journal, Segment, UnsyncedRecord};
use crate::store::read::scan::{ScanDepth, ScanFindings, SegmentEnd, Tail, scan};
use crate::store::{Durability, Store, lock};

/// Least and most bytes of zeros that are written ahead, so that a commit changes neither the size
/// of the file nor its extents, and its fsync needs no journal of the file system.
pub(in crate::store) const RESERVE_MIN_BYTES: u64 = NEW_SEGMENT_BYTES as u64;
pub(in crate::store) const RESERVE_MAX_BYTES: u64 = 4 << 20;

/// A larger segment is sealed: opening a store reads the directories of segments that are not
/// sealed.
pub(in crate::store) const SEAL_BYTES: u64 = 8 << 20;

/// Idle segments that are left for other writers to take over; the rest are sealed. This is the
/// usual number of concurrent writers, so that short-lived writers create no new files.
const MAX_IDLE_SEGMENTS: usize = 8;

/// Segment ids to try. An id in use means that the caller's seed is not random.
const MAX_ATTEMPTS: u64 = 64;

/// The bytes after the last record of a segment whose sync failed.
const FAILED_MARK: [u8; 8] = *b"failed\0\0";

const SEGMENT_ID_CONTEXT: &str = "turntree v1 segment id";

/// A segment that this handle writes to.
#[derive(Debug)]
pub(in crate::store) struct OwnedSegment {
    pub(in crate::store) segment: Arc<SegmentFile>,
    /// Open to write, and locked.
    pub(in crate::store) file: Arc<dyn IoFile>,
    /// Bytes of the file: everything after the last record is zeros.
    pub(in crate::store) reserved: u64,
}

/// Segment ids that cannot be guessed without the seed.
#[derive(Debug)]
pub(in crate::store) struct SegmentIds {
    seed: [u8; 16],
    next: u64,
}

impl SegmentIds {
    pub(in crate::store) fn new(seed: [u8; 16]) -> Self {
        Self { seed, next: 0 }
    }

    pub(in crate::store) fn next(&mut self) -> SegmentId {
        let mut checksum = Checksum::new(SEGMENT_ID_CONTEXT);
        let digest = checksum.update(&self.seed).update(&self.next.to_le_bytes()).finish();
        self.next += 1;
        SegmentId(*digest.first_chunk().unwrap_or(&self.seed))
    }
}

impl Store {
    /// Returns a segment to write to. Seals segments that are too large or too many.
    pub(in crate::store) fn acquire(&self, ids: &mut SegmentIds) -> Result<OwnedSegment> {
        let candidates: Vec<Arc<SegmentFile>> = {
            let mut journal = lock(&self.journal);
            journal.catch_up(&*self.io, &self.view, ScanDepth::Next)?;
            let open = journal.segments.iter().filter(|segment| !segment.closed && !segment.owned);
            open.map(|segment| Arc::clone(&segment.file)).collect()
        };
        let mut taken = None;
        let mut left = candidates.len();
        // One lock at a time, so that another writer finds the other segments idle.
        for file in &candidates {
            if taken.is_some() && left <= MAX_IDLE_SEGMENTS {
                break;
            }
            left -= 1;
            let Some((owned, true)) = self.lock_idle(file)? else { continue };
            // A segment with an old key of the store stays until a collection packs it.
            let failed = |error| Error::io(format!("take over {}", owned.segment.place(0)), error);
            if !owned.file.may_append().map_err(failed)? {
                continue;
            }
            if taken.is_none() && !self.is_full(&owned) {
                taken = Some(self.take_over(owned)?);
            } else {
                // Sealing only saves readers some work; the next writer tries again.
                let _ = self.take_over(owned).and_then(|owned| self.seal(owned));
            }
        }
        match taken {
            Some(owned) => Ok(owned),
            None => self.create_segment(ids),
        }
    }

    /// Gives up the segment that this handle writes to, if it has one: another writer may take it
    /// over, and a collection may pack it. The next commit takes over an idle segment, which costs
    /// a lock and a few reads of file metadata.
    ///
    /// Does nothing while a transaction of this handle relies on the files of the store.
    pub fn release_segment(&self) {
        drop(self.take_segment());
    }

    /// Takes the segment of this handle, which stays locked until it is dropped, unless a
    /// transaction relies on it.
    pub(in crate::store) fn take_segment(&self) -> Option<OwnedSegment> {
        let mut writer = lock(&self.writer);
        let owned = writer.owned.take_if(|_| !self.has_read_guard())?;
        if let Some(segment) = lock(&self.journal).segment(&owned.segment) {
            segment.owned = false;
        }
        Some(owned)
    }

    fn is_full(&self, owned: &OwnedSegment) -> bool {
        let mut journal = lock(&self.journal);
        let tail = journal.segment(&owned.segment).map(|segment| segment.tail);
        tail.is_none_or(|tail| tail.offset >= SEAL_BYTES || tail.end == SegmentEnd::Index)
    }

    /// Makes a record in `file` durable, and notes success or failure.
    pub(in crate::store) fn sync(&self, record: &UnsyncedRecord, file: &dyn IoFile) -> Result<()> {
        let synced = match self.durability {
            Durability::Full => file.sync_data(),
            Durability::None => Ok(()),
        };
        let mut journal = lock(&self.journal);
        match synced {
            Ok(()) => {
                journal.mark_durable(record);
                Ok(())
            }
            Err(source) => {
                self.close_after_failure(&mut journal, &record.segment);
                Err(Error::io(format!("sync {}", record.segment.place(record.offset)), source))
            }
        }
    }

    /// Writes a mark after the last record of a segment that it is durable. Then the next owner,
    /// and writers that build on the record, need not sync it again.
    ///
    /// The mark itself is not synced. Losing it only costs another sync. The mark may be written
    /// only after the sync has returned: a process that finds the mark after a crash trusts it.
    pub(in crate::store) fn write_durable_mark(&self, owned: &OwnedSegment) {
        // Until the mark is written no other thread may close the segment.
        let mut journal = lock(&self.journal);
        let is_usable = journal.is_usable(&owned.segment);
        let Some(segment) = journal.segment(&owned.segment) else { return };
        let Tail { offset, sequence, .. } = segment.tail;
        let is_durable = self.durability == Durability::Full && segment.synced >= sequence;
        // Extending the file would make the next sync write the file system's journal too.
        let fits = offset + SYNCED_MARK.len() as u64 <= owned.reserved;
        if is_usable && is_durable && sequence > 0 && fits {
            let _ = owned.file.write_at(&SYNCED_MARK, offset);
        }
    }

    /// Closes a segment, so that no writer appends after a record that a failed sync may have lost.
    fn close_after_failure(&self, journal: &mut Journal, file: &Arc<SegmentFile>) {
        let path = journal.path(file.id);
        let Some(segment) = journal.segment(file) else { return };
        segment.failed = true;
        // A live owner gets the error too, and does this itself.
        let opened = self.io.open(&path, Access::Write);
        let idle = opened
            .ok()
            .filter(|file| segment.owned || file.lock(Duration::ZERO).is_ok_and(|locked| locked));
        // Another writer may have taken it over since it was read, and its records stay.
        let mut tail = segment.tail;
        let scanned = scan(&segment.file, &mut tail, ScanDepth::Next, &mut ScanFindings::default());
        let is_last = scanned.is_ok() && tail.sequence == segment.tail.sequence;
        if let Some(file) = idle.filter(|_| segment.owned || is_last) {
            // Any invalid bytes close a segment permanently. If they cannot be written, the next
            // writer finds a clean end, and at worst a lost record is reported as damage.
            let _ = file.write_at(&FAILED_MARK, segment.tail.offset);
            segment.closed = true;
        }
        segment.owned = false;
    }

    /// Locks a segment and reads it to its end, unless another process owns it. Also returns
    /// whether records may be appended: not to a segment that is damaged or ends in invalid bytes.
    pub(in crate::store) fn lock_idle(
        &self,
        file: &Arc<SegmentFile>,
    ) -> Result<Option<(OwnedSegment, bool)>> {
        let mut journal = lock(&self.journal);
        let Some(owned) = self.try_lock(&journal, file)? else { return Ok(None) };
        let Some(segment) = journal.segment(file) else { return Ok(None) };
        let mut found = ScanFindings::default();
        let mut scanned = Ok(());
        if segment.tail.end != SegmentEnd::Index {
            // The last owner may have died in the middle of a batch.
            scanned = scan(&segment.file, &mut segment.tail, ScanDepth::Whole, &mut found);
        }
        let ended = matches!(segment.tail.end, SegmentEnd::Clean | SegmentEnd::Index);
        let usable = ended && !segment.tail.damaged;
        segment.closed |= !usable && scanned.is_ok();
        // Also after an error: the tail has passed these records, so they are not read again.
        journal.apply(&self.view, found);
        scanned.map(|()| Some((owned, usable)))
    }

    /// Locks a segment, unless another process owns it or it is missing.
    fn try_lock(
        &self,
        journal: &Journal,
        segment: &Arc<SegmentFile>,
    ) -> Result<Option<OwnedSegment>> {
        let path = journal.path(segment.id);
        let failed = failed("take over", &path);
        let Some(file) = self.io.open_if_exists(&path, Access::Write)? else { return Ok(None) };
        if !file.lock(Duration::ZERO).map_err(&failed)? {
            return Ok(None);
        }
        // It may have been collected between opening and locking.
        if !self.is_named(&path, &*file)? {
            return Ok(None);
        }
        // Without a whole header and all its zeros, its creation never completed, or it is damaged.
        let expected = encode_segment_header(segment.id, self.superblock.store);
        let mut header = [0; SEGMENT_HEADER_BYTES];
        let read = file.read_at(&mut header, 0).map_err(&failed)?;
        let reserved = file.size().map_err(&failed)?;
        if header.get(..read) != Some(&*expected) || reserved < NEW_SEGMENT_BYTES as u64 {
            return Ok(None);
        }
        Ok(Some(OwnedSegment { segment: Arc::clone(segment), file, reserved }))
    }

    /// Fails if a segment has lost its name: no other process would find the records written to it,
    /// and they would be lost when this process ends.
    pub(in crate::store) fn check_named(
        &self,
        journal: &Journal,
        owned: &OwnedSegment,
    ) -> Result<()> {
        let path = journal.path(owned.segment.id);
        if self.is_named(&path, &*owned.file)? {
            return Ok(());
        }
        let message = "was removed or replaced after it was opened";
        Err(Error::not_found(format!("{} {message}", path.display())))
    }

    /// Returns true if an open file still has this name.
    pub(in crate::store) fn is_named(&self, path: &Path, file: &dyn IoFile) -> Result<bool> {
        let identity = file.identity().map_err(failed("inspect", path))?;
        Ok(self.io.identity_if_exists(path)? == Some(identity))
    }

    /// Syncs the last owner's records before appending to them, unless a mark records that they are
    /// durable. So a segment never holds more than one record that a crash can lose.
    fn take_over(&self, owned: OwnedSegment) -> Result<OwnedSegment> {
        let (last, marked, dir) = {
            let mut journal = lock(&self.journal);
            let dir = journal.dir().to_owned();
            let Some(segment) = journal.segment(&owned.segment) else {
                return Err(Error::not_found(owned.segment.place(0)));
            };
            segment.owned = true;
            (segment.last_record(), segment.tail.marked, dir)
        };
        if !marked {
            self.sync(&last, &*owned.file)?;
        }
        if last.sequence == 0 {
            // The process that created it may have died before its name was durable.
            self.sync_names(&dir)?;
        }
        Ok(owned)
    }

    /// Creates a new segment. The file and its name are durable afterwards.
    fn create_segment(&self, ids: &mut SegmentIds) -> Result<OwnedSegment> {
        let dir = lock(&self.journal).dir().to_owned();
        self.io.create_dir_if_missing(&dir)?;
        for _ in 0..MAX_ATTEMPTS {
            let id = ids.next();
            let path = dir.join(id.file_name());
            let Some(file) = self.io.create_if_free(&path)? else { continue };
            // Another process may open the new file and lock it for a moment. A collection that
            // found it empty and unlocked has removed it.
            let is_locked = file.lock(self.lock_timeout).map_err(failed("lock", &path))?;
            if !is_locked || !self.is_named(&path, &*file)? {
                continue;
            }
            // Open a separate handle for reading: the lock ends with the owner, not with the last
            // reader.
            let opened = self.prepare(&dir, id, &*file).and_then(|()| {
                // A change of keys skips an empty file, so this segment would keep the old key.
                self.superblock.check_name(&*self.io)?;
                let file = self.io.open_named(&path, Access::Read)?;
                Ok(Arc::new(SegmentFile { id, file }))
            });
            let segment = match opened {
                Ok(segment) => segment,
                Err(error) => {
                    // An empty file is harmless, and the disk may be full: keep it clean.
                    let _ = self.io.remove(&path);
                    return Err(error);
                }
            };
            lock(&self.journal).add(Segment {
                file: Arc::clone(&segment),
                tail: Tail::default(),
                synced: 0,
                owned: true,
                closed: false,
                failed: false,
            });
            return Ok(OwnedSegment { segment, file, reserved: RESERVE_MIN_BYTES });
        }
        Err(Error::invalid("every new segment id is taken: the writer's seed is not random"))
    }

    fn prepare(&self, dir: &Path, id: SegmentId, file: &dyn IoFile) -> Result<()> {
        let mut bytes = encode_segment_header(id, self.superblock.store);
        bytes.resize(NEW_SEGMENT_BYTES, 0);
        let path = dir.join(id.file_name());
        // The process that created or replaced the superblock may have died just before its name
        // was durable. After a crash, no enciphered file may exist next to a superblock that does
        // not name its key.
        self.sync_names(&self.dir)?;
        file.write_at(&bytes, 0).map_err(failed("create", &path))?;
        match self.durability {
            Durability::Full => file.sync_data().map_err(failed("create", &path))?,
            Durability::None => {}
        }
        self.sync_names(dir)
    }

    /// Makes the names in a directory durable.
    fn sync_names(&self, dir: &Path) -> Result<()> {
        match self.durability {
            Durability::Full => self.io.sync_names(dir),
            Durability::None => Ok(()),
        }
    }
}
