//! Which segment a writer writes to: an idle one that it takes over, or a new one.
//!
//! A segment is owned by whoever holds the lock of its file, and the lock dies with the process.
//! Only a segment that ends cleanly is taken over: behind a torn batch nothing is ever written, so
//! that a reader can tell a torn batch, which has nothing behind it, from damage.

use std::io::ErrorKind as IoErrorKind;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use super::io::{Access, IoFile};
use super::journal::{Journal, Segment};
use super::scan::{Depth, End, Found, Tail, scan};
use super::segment::{SEGMENT_HEADER_BYTES, SegmentFile, SegmentId, encode_segment_header};
use super::{Durability, Store, lock};
use crate::error::{Error, Result};
use crate::object::Checksum;

/// Least and most bytes of zeros that are written ahead, so that a commit changes neither the size
/// of the file nor its extents, and its fsync needs no journal of the file system.
pub(super) const RESERVE_MIN_BYTES: u64 = 64 << 10;
pub(super) const RESERVE_MAX_BYTES: u64 = 4 << 20;

/// A segment with more than this is sealed.
pub(super) const SEAL_BYTES: u64 = 16 << 20;

/// Idle segments that are left for others to take over; the rest is sealed.
const MAX_IDLE_SEGMENTS: usize = 4;

/// Segment ids that are tried; a taken one means that the caller's seed is not random.
const MAX_ATTEMPTS: u64 = 64;

const SEGMENT_ID_CONTEXT: &str = "turntree v1 segment id";

/// A segment that this handle writes to.
#[derive(Debug)]
pub(super) struct Owned {
    pub(super) segment: Arc<SegmentFile>,
    /// Open to write, and locked.
    pub(super) file: Arc<dyn IoFile>,
    /// Bytes of the file: everything behind the last record is zeros.
    pub(super) reserved: u64,
}

/// Segment ids that nobody can guess who does not know the seed.
#[derive(Debug)]
pub(super) struct SegmentIds {
    seed: [u8; 16],
    next: u64,
}

impl SegmentIds {
    pub(super) fn new(seed: [u8; 16]) -> Self {
        Self { seed, next: 0 }
    }

    fn next(&mut self) -> SegmentId {
        let mut checksum = Checksum::new(SEGMENT_ID_CONTEXT);
        let digest = checksum.update(&self.seed).update(&self.next.to_le_bytes()).finish();
        self.next += 1;
        SegmentId(*digest.first_chunk().unwrap_or(&self.seed))
    }
}

impl Store {
    /// A segment to write to. Seals what has become too large or too many on the way.
    pub(super) fn acquire(&self, ids: &mut SegmentIds) -> Result<Owned> {
        let mut idle = {
            let mut journal = lock(&self.journal);
            journal.catch_up(&*self.io, &self.view, Depth::Next)?;
            self.lock_idle(&mut journal)?
        };
        let large = |owned: &Owned| self.tail(owned).is_none_or(|tail| tail.offset >= SEAL_BYTES);
        let (full, mut usable): (Vec<_>, Vec<_>) = idle
            .drain(..)
            .partition(|owned| large(owned) || self.tail(owned).is_some_and(is_indexed));
        let surplus = usable.split_off(usable.len().min(MAX_IDLE_SEGMENTS + 1));
        for owned in full.into_iter().chain(surplus) {
            // Sealing only saves others some reading; whoever comes next tries again.
            let _ = self.seal(owned);
        }
        match usable.into_iter().next() {
            Some(owned) => self.take_over(owned),
            None => self.create_segment(ids),
        }
    }

    /// Makes bytes durable, if that is what this store was opened for.
    pub(super) fn sync(&self, segment: &SegmentFile, file: &dyn IoFile) -> Result<()> {
        match self.durability {
            Durability::Full => {
                file.sync_data().map_err(|e| Error::io(format!("sync {}", segment.place(0)), e))
            }
            Durability::None => Ok(()),
        }
    }

    fn tail(&self, owned: &Owned) -> Option<Tail> {
        lock(&self.journal).segment(&owned.segment).map(|segment| segment.tail)
    }

    /// Every segment that nobody owns and that has not ended in rubbish, locked and read to its
    /// end.
    fn lock_idle(&self, journal: &mut Journal) -> Result<Vec<Owned>> {
        let mut idle = Vec::new();
        let mut found = Found::default();
        for at in 0..journal.segments.len() {
            let Some(segment) = journal.segments.get(at).filter(|s| !s.closed && !s.owned) else {
                continue;
            };
            let Some(owned) = self.try_lock(journal, &segment.file)? else { continue };
            let Some(segment) = journal.segments.get_mut(at) else { continue };
            if segment.tail.end != End::Index {
                // The last owner may have died in the middle of a batch.
                scan(&segment.file, &mut segment.tail, Depth::Whole, &mut found)?;
            }
            match segment.tail.end {
                End::Clean | End::Index => idle.push(owned),
                End::Torn | End::Unknown => segment.closed = true,
            }
        }
        journal.apply(&self.view, found);
        Ok(idle)
    }

    /// The segment, locked, unless somebody owns it or it is no longer in the journal.
    fn try_lock(&self, journal: &Journal, segment: &Arc<SegmentFile>) -> Result<Option<Owned>> {
        let path = journal.path(segment.id);
        let failed = |source| Error::io(format!("take over {}", path.display()), source);
        let file = match self.io.open(&path, Access::Write) {
            Err(source) if source.kind() == IoErrorKind::NotFound => return Ok(None),
            opened => opened.map_err(failed)?,
        };
        if !file.lock(Duration::ZERO).map_err(failed)? {
            return Ok(None);
        }
        // It may have been collected between opening and locking.
        match self.io.identity(&path) {
            Ok(identity) if identity == file.identity().map_err(failed)? => {}
            Ok(_) => return Ok(None),
            Err(source) if source.kind() == IoErrorKind::NotFound => return Ok(None),
            Err(source) => return Err(failed(source)),
        }
        // Without a whole header its creation was never completed, or it is damaged.
        let expected = encode_segment_header(segment.id, self.superblock.store);
        let mut header = [0; SEGMENT_HEADER_BYTES as usize];
        let read = file.read_at(&mut header, 0).map_err(failed)?;
        if header.get(..read) != Some(&*expected) {
            return Ok(None);
        }
        let reserved = file.size().map_err(failed)?;
        Ok(Some(Owned { segment: Arc::clone(segment), file, reserved }))
    }

    /// Makes what the last owner wrote durable before anything follows it: then a segment never
    /// holds more than one batch that a crash can take.
    fn take_over(&self, owned: Owned) -> Result<Owned> {
        self.sync(&owned.segment, &*owned.file)?;
        if let Some(segment) = lock(&self.journal).segment(&owned.segment) {
            segment.owned = true;
            segment.synced = segment.tail.sequence;
        }
        Ok(owned)
    }

    /// Makes a new segment, durable with its name.
    fn create_segment(&self, ids: &mut SegmentIds) -> Result<Owned> {
        let dir = lock(&self.journal).dir().to_owned();
        for _ in 0..MAX_ATTEMPTS {
            let id = ids.next();
            let path = dir.join(id.file_name());
            let failed = |source| Error::io(format!("create {}", path.display()), source);
            let file = match self.io.create(&path) {
                Err(source) if source.kind() == IoErrorKind::AlreadyExists => continue,
                created => created.map_err(failed)?,
            };
            // Somebody may look at the new file, and lock it for a moment.
            if !file.lock(self.lock_timeout).map_err(failed)? {
                continue;
            }
            let segment = Arc::new(SegmentFile { id, file: Arc::clone(&file) });
            if let Err(error) = self.prepare(&dir, &segment) {
                // An empty file is harmless, and the disk may be full: keep it clean.
                let _ = self.io.remove(&path);
                return Err(error);
            }
            lock(&self.journal).add(Segment {
                file: Arc::clone(&segment),
                tail: Tail::default(),
                synced: 0,
                owned: true,
                closed: false,
            });
            return Ok(Owned { segment, file, reserved: RESERVE_MIN_BYTES });
        }
        Err(Error::invalid("every new segment id is taken: the writer's seed is not random"))
    }

    fn prepare(&self, dir: &Path, segment: &SegmentFile) -> Result<()> {
        let mut bytes = encode_segment_header(segment.id, self.superblock.store);
        debug_assert_eq!(bytes.len() as u64, SEGMENT_HEADER_BYTES);
        bytes.resize(RESERVE_MIN_BYTES as usize, 0);
        let failed = |source| Error::io(format!("create {}", segment.place(0)), source);
        segment.file.write_at(&bytes, 0).map_err(failed)?;
        self.sync(segment, &*segment.file)?;
        match self.durability {
            Durability::Full => self.io.sync_dir(dir).map_err(failed),
            Durability::None => Ok(()),
        }
    }
}

fn is_indexed(tail: Tail) -> bool {
    tail.end == End::Index
}
