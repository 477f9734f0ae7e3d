//! The view of a store: locations of objects, the refs, and the damage that was found.

use std::collections::hash_map::Entry;
use std::collections::{BTreeMap, HashMap};
use std::io;
use std::ops::Range;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use bytes::Bytes;

use super::refs::RefTable;
use super::sealed::SealedSegment;
use crate::error::{Error, Result};
use crate::object::{IdPrefix, Kind, Object, ObjectId, Operation, verify};
use crate::store::Finding;
use crate::store::format::codec;
use crate::store::format::id::SegmentId;
use crate::store::format::segment::{Location, SegmentFile, StoredRecord};
use crate::store::pack::{BlockCache, Pack, PackId, PackLookup, Tombstone};

/// The place that an object is read from.
#[derive(Debug, Clone)]
pub(in crate::store) enum ObjectPlace {
    /// A file that is still written to: read with a system call.
    Active(Location),
    /// A segment mapped into memory.
    Sealed(Arc<SealedSegment>, StoredRecord),
    /// A pack mapped into memory: kind and ordinal.
    Packed(Arc<Pack>, Kind, u32),
}

/// Immutable files with their own index, oldest first.
#[derive(Debug, Default, Clone)]
pub(in crate::store) struct OpenFiles {
    pub(in crate::store) sealed: Vec<Arc<SealedSegment>>,
    pub(in crate::store) packs: Vec<Arc<Pack>>,
    /// The number of the sealed segment that was last found to have an object.
    found_in: Arc<AtomicUsize>,
}

/// Everything visible to readers. Locked for reading at any time, and for writing only briefly.
#[derive(Debug, Default)]
pub(in crate::store) struct View {
    /// Objects in active segments.
    pub(in crate::store) active: HashMap<ObjectId, Location>,
    /// Further copies of these objects: two writers may store the same object before they see each
    /// other.
    pub(in crate::store) copies: Vec<(ObjectId, Location)>,
    /// Searched after the active segments.
    pub(in crate::store) files: Arc<OpenFiles>,
    /// The epoch of the store when these files were opened.
    pub(in crate::store) epoch: u64,
    /// True if the newest state is not known, see [`Store::check_complete`](crate::store::Store).
    pub(in crate::store) incomplete: bool,
    pub(in crate::store) refs: Arc<RefTable>,
    pub(in crate::store) findings: Vec<Finding>,
}

impl OpenFiles {
    /// Returns the place of the newest copy of an object. A tombstone in a pack overrides copies of
    /// the object in older packs.
    pub(in crate::store) fn place(&self, id: &ObjectId) -> Option<ObjectPlace> {
        let newest = || {
            let sealed = self.sealed.iter().rev().find_map(|sealed| {
                sealed.find(id).map(|stored| ObjectPlace::Sealed(Arc::clone(sealed), stored))
            });
            sealed.or_else(|| self.packed_place(id))
        };
        self.look_up(newest)
    }

    /// Runs a look-up, and repeats it if it found nothing and an index turns out to be damaged.
    fn look_up<T>(&self, look: impl Fn() -> Option<T>) -> Option<T> {
        look().or_else(|| if self.verify_indexes() { look() } else { None })
    }

    /// Verifies every index that was not verified before. Returns true if one of them is damaged:
    /// it may have hidden an existing object.
    pub(in crate::store) fn verify_indexes(&self) -> bool {
        let sealed = self.sealed.iter().filter(|sealed| !sealed.is_verified());
        let packs = self.packs.iter().filter(|pack| !pack.is_verified());
        let sealed = sealed.filter(|sealed| sealed.problem().is_some()).count();
        sealed + packs.filter(|pack| pack.problem().is_some()).count() > 0
    }

    /// Returns the place of some copy of an object. The reader tries the other copies if it is
    /// damaged. Consecutive reads mostly hit one segment, so this costs one look-up where
    /// [`Self::place`] costs one for each newer segment.
    fn any_place(&self, id: &ObjectId) -> Option<ObjectPlace> {
        self.look_up(|| {
            let sealed = self.sealed_with(id);
            let sealed = sealed.map(|(sealed, at)| ObjectPlace::Sealed(Arc::clone(sealed), at));
            sealed.or_else(|| self.packed_place(id))
        })
    }

    /// Returns a sealed segment that has an object.
    fn sealed_with(&self, id: &ObjectId) -> Option<(&Arc<SealedSegment>, StoredRecord)> {
        let found = |at: usize| {
            let sealed = self.sealed.get(at)?;
            Some((at, sealed, sealed.find(id)?))
        };
        let last = self.found_in.load(Ordering::Relaxed);
        let others = || (0..self.sealed.len()).rev().filter(|at| *at != last).find_map(found);
        let (at, sealed, stored) = found(last).or_else(others)?;
        if at != last {
            self.found_in.store(at, Ordering::Relaxed);
        }
        Some((sealed, stored))
    }

    fn packed_place(&self, id: &ObjectId) -> Option<ObjectPlace> {
        match self.packed(id)? {
            (pack, PackLookup::Object { ordinal, kind }) => {
                Some(ObjectPlace::Packed(Arc::clone(pack), kind, ordinal))
            }
            (_, PackLookup::Tombstone(..)) => None,
        }
    }

    /// Returns every copy of an object, regardless of tombstones.
    pub(in crate::store) fn places(&self, id: &ObjectId) -> impl Iterator<Item = ObjectPlace> {
        self.verify_indexes();
        let sealed = self.sealed.iter().rev().filter_map(|sealed| {
            sealed.find(id).map(|stored| ObjectPlace::Sealed(Arc::clone(sealed), stored))
        });
        sealed.chain(self.packs.iter().rev().filter_map(|pack| match pack.find(id)? {
            PackLookup::Object { ordinal, kind } => {
                Some(ObjectPlace::Packed(Arc::clone(pack), kind, ordinal))
            }
            PackLookup::Tombstone(..) => None,
        }))
    }

    pub(in crate::store) fn contains(&self, id: &ObjectId) -> bool {
        self.look_up(|| self.is_found(id).then_some(())).is_some()
    }

    /// Returns true if an object is found. Does not verify indexes if it is not.
    fn is_found(&self, id: &ObjectId) -> bool {
        self.sealed_with(id).is_some()
            || matches!(self.packed(id), Some((_, PackLookup::Object { .. })))
    }

    /// Returns the reason why an object was removed, if it has no copy and the reason is known.
    pub(in crate::store) fn tombstone(&self, id: &ObjectId) -> Option<Tombstone> {
        self.look_up(|| match self.packed(id)? {
            (_, PackLookup::Tombstone(why, _)) => Some(why),
            (_, PackLookup::Object { .. }) => None,
        })
    }

    /// Returns the newest pack that knows an id, and its entry. A newer pack with damaged ids may
    /// hide a tombstone; then an older copy is read until the damage is noticed, as when that pack
    /// does not open. Such a copy is of an elided object: a redacted object has no other copy.
    fn packed(&self, id: &ObjectId) -> Option<(&Arc<Pack>, PackLookup)> {
        self.packs.iter().rev().find_map(|pack| Some((pack, pack.find(id)?)))
    }
}

impl View {
    /// Returns the place of some copy of an object. The reader tries the other copies if it is
    /// damaged.
    pub(in crate::store) fn place(&self, id: &ObjectId) -> Option<ObjectPlace> {
        match self.active.get(id) {
            Some(location) => Some(ObjectPlace::Active(location.clone())),
            None => self.files.any_place(id),
        }
    }

    /// Returns every existing copy of an object, the newest first.
    pub(in crate::store) fn places(&self, id: &ObjectId) -> Vec<ObjectPlace> {
        let copies = self.copies.iter().filter(|(copy, _)| copy == id).map(|(_, at)| at);
        let active = self.active.get(id).into_iter().chain(copies);
        active.cloned().map(ObjectPlace::Active).chain(self.files.places(id)).collect()
    }

    pub(in crate::store) fn contains(&self, id: &ObjectId) -> bool {
        self.active.contains_key(id) || self.files.contains(id)
    }

    /// Returns true if an object is found. A damaged index may hide one that exists. This suffices
    /// to decide which objects need not be stored again.
    pub(in crate::store) fn is_found(&self, id: &ObjectId) -> bool {
        self.active.contains_key(id) || self.files.is_found(id)
    }

    /// Returns up to `limit` objects whose ids start with `prefix`, in order.
    pub(in crate::store) fn find(&self, prefix: &IdPrefix, limit: usize) -> Vec<(ObjectId, Kind)> {
        let mut found = BTreeMap::new();
        for sealed in &self.files.sealed {
            found.extend(sealed.starting_with(prefix).take(limit));
        }
        for pack in &self.files.packs {
            found.extend(pack.starting_with(prefix).filter_map(|(id, found)| match found {
                PackLookup::Object { kind, .. } if self.files.contains(&id) => Some((id, kind)),
                PackLookup::Object { .. } | PackLookup::Tombstone(..) => None,
            }));
        }
        let active = self.active.iter().filter(|(id, _)| prefix.matches(id));
        found.extend(active.map(|(id, location)| (*id, location.stored.kind)));
        found.into_iter().take(limit).collect()
    }

    /// Adds objects found in active segments.
    pub(in crate::store) fn add_active(&mut self, objects: Vec<(ObjectId, Location)>) {
        self.active.reserve(objects.len());
        for (id, location) in objects {
            let segment = location.segment.id;
            let before = self.active.insert(id, location);
            self.copies.extend(
                before.filter(|before| before.segment.id != segment).map(|before| (id, before)),
            );
        }
    }

    /// Removes and returns the objects in segments that are not read as active ones from now on. An
    /// object with a copy in another active segment is read from there. Removing a segment relies
    /// on that.
    pub(in crate::store) fn release(
        &mut self,
        is_released: impl Fn(SegmentId) -> bool,
    ) -> Vec<(ObjectId, Location)> {
        let released = self.active.extract_if(|_, location| is_released(location.segment.id));
        let released: Vec<_> = released.collect();
        self.copies.retain(|(_, location)| !is_released(location.segment.id));
        for (id, location) in std::mem::take(&mut self.copies) {
            match self.active.entry(id) {
                Entry::Vacant(entry) => {
                    entry.insert(location);
                }
                Entry::Occupied(_) => self.copies.push((id, location)),
            }
        }
        released
    }

    /// Adds a finding, unless it is known: files are checked repeatedly.
    pub(in crate::store) fn add_finding(&mut self, finding: Finding) {
        if !self.findings.contains(&finding) {
            self.findings.push(finding);
        }
    }

    pub(in crate::store) fn apply(&mut self, id: ObjectId, operation: &Operation) {
        Arc::make_mut(&mut self.refs).apply(id, operation);
    }
}

impl ObjectPlace {
    /// Reads and verifies the object `id` at this place.
    pub(in crate::store) fn read(&self, id: &ObjectId, blocks: &BlockCache) -> Result<Object> {
        self.read_from(&ReadAhead::default(), id, blocks)
    }

    /// Reads and verifies the object `id` at this place, from `ahead` if it was read ahead.
    pub(in crate::store) fn read_from(
        &self,
        ahead: &ReadAhead,
        id: &ObjectId,
        blocks: &BlockCache,
    ) -> Result<Object> {
        self.verified(self.unverified(ahead, id, blocks)?, id)
    }

    /// Reads the object at this place without verifying it, from `ahead` if it was read ahead. The
    /// caller compares it with `id`.
    pub(in crate::store) fn unverified(
        &self,
        ahead: &ReadAhead,
        id: &ObjectId,
        blocks: &BlockCache,
    ) -> Result<Object> {
        let (kind, bytes) = match self {
            Self::Active(Location { segment, stored }) => {
                let read = || segment_bytes(segment, stored.offset, stored.stored_bytes as usize);
                (
                    stored.kind,
                    unpack(segment, stored, stored_bytes(ahead, segment, stored, read)?, id)?,
                )
            }
            Self::Sealed(sealed, stored) => {
                let (segment, len) = (sealed.segment(), stored.stored_bytes as usize);
                let read = || sealed.bytes(stored.offset, len);
                (
                    stored.kind,
                    unpack(segment, stored, stored_bytes(ahead, segment, stored, read)?, id)?,
                )
            }
            Self::Packed(pack, kind, ordinal) => (*kind, pack.read(*ordinal, blocks)?),
        };
        Ok(Object { kind, bytes })
    }

    /// Returns the object that was read at this place, if its bytes match `id`.
    pub(in crate::store) fn verified(&self, object: Object, id: &ObjectId) -> Result<Object> {
        let Object { kind, bytes } = object;
        verify(kind, &bytes, id).map_err(|error| error.at(self.name()))?;
        Ok(Object { kind, bytes })
    }

    /// Returns the stored record, if this place is in a segment.
    fn stored(&self) -> Option<&StoredRecord> {
        match self {
            Self::Active(Location { stored, .. }) | Self::Sealed(_, stored) => Some(stored),
            Self::Packed(..) => None,
        }
    }

    /// Returns the file and offset, for errors.
    fn name(&self) -> String {
        match self {
            Self::Active(location) => location.segment.place(location.stored.offset),
            Self::Sealed(sealed, stored) => sealed.segment().place(stored.offset),
            Self::Packed(pack, _, ordinal) => pack.place(*ordinal),
        }
    }

    /// Returns the file and the position in it. Reading in this order reads files from front to
    /// back.
    pub(in crate::store) fn position(&self) -> (FileId, u64) {
        match self {
            Self::Active(location) => {
                (FileId::Segment(location.segment.id), location.stored.offset)
            }
            Self::Sealed(sealed, stored) => (FileId::Segment(sealed.segment().id), stored.offset),
            Self::Packed(pack, _, ordinal) => (FileId::Pack(pack.id()), (*ordinal).into()),
        }
    }

    /// Returns the file and the part of it that one thread should read: a block is unpacked once.
    pub(in crate::store) fn unit(&self) -> (FileId, u64) {
        let (file, at) = self.position();
        match self {
            Self::Packed(pack, _, ordinal) => {
                (file, pack.block_of(*ordinal).unwrap_or_default().into())
            }
            Self::Active(_) | Self::Sealed(..) => (file, at / UNIT_BYTES),
        }
    }
}

/// Parts of a segment that were read ahead.
#[derive(Debug, Default)]
pub(in crate::store) struct ReadAhead {
    /// The offset of each part and its bytes, in ascending order.
    parts: Vec<(u64, Bytes)>,
}

impl ReadAhead {
    /// Reads `places`, which must be sorted and of one file. Reads places that are close together
    /// in one call. Skips unreadable places; reading such a place alone returns its error.
    pub(in crate::store) fn of<'p>(places: impl Iterator<Item = &'p ObjectPlace>) -> Self {
        let mut ahead = Self::default();
        let mut run: Option<(&ObjectPlace, Range<u64>)> = None;
        for place in places {
            let Some(stored) = place.stored() else { continue };
            let end = stored.offset + u64::from(stored.stored_bytes);
            match &mut run {
                Some((_, bytes)) if stored.offset <= bytes.end.saturating_add(GAP_BYTES) => {
                    bytes.end = bytes.end.max(end);
                }
                _ => {
                    ahead.read(run.replace((place, stored.offset..end)));
                }
            }
        }
        ahead.read(run);
        ahead
    }

    fn read(&mut self, run: Option<(&ObjectPlace, Range<u64>)>) {
        let Some((place, range)) = run else { return };
        let Ok(len) = usize::try_from(range.end - range.start) else { return };
        let bytes = match place {
            ObjectPlace::Active(location) => segment_bytes(&location.segment, range.start, len),
            ObjectPlace::Sealed(sealed, _) => sealed.bytes(range.start, len),
            ObjectPlace::Packed(..) => Ok(None),
        };
        self.parts.extend(bytes.ok().flatten().map(|bytes| (range.start, bytes)));
    }

    /// Returns the number of bytes that were read.
    pub(in crate::store) fn len(&self) -> usize {
        self.parts.iter().map(|(_, bytes)| bytes.len()).sum()
    }

    fn bytes(&self, stored: &StoredRecord) -> Option<Bytes> {
        let behind = self.parts.partition_point(|(start, _)| *start <= stored.offset);
        let (start, bytes) = self.parts.get(behind.checked_sub(1)?)?;
        let from = usize::try_from(stored.offset - start).ok()?;
        let end = from.checked_add(stored.stored_bytes as usize)?;
        (end <= bytes.len()).then(|| bytes.slice(from..end))
    }
}

/// A file that contains objects.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(in crate::store) enum FileId {
    Segment(SegmentId),
    Pack(PackId),
}

/// Bytes of a segment in one unit of reading.
const UNIT_BYTES: u64 = 128 << 10;

/// Gaps up to this size are read too: that takes no longer than one more call.
const GAP_BYTES: u64 = 2 << 10;

fn unpack(
    segment: &SegmentFile,
    stored: &StoredRecord,
    bytes: Bytes,
    id: &ObjectId,
) -> Result<Bytes> {
    codec::decode(stored.codec, bytes, stored.raw_bytes).map_err(|source| {
        let what = format_args!("{} of {id}", stored.kind);
        Error::malformed(segment.place(stored.offset), what).with_source(source)
    })
}

/// Returns the stored bytes of an object, from `ahead` or else from `read`.
fn stored_bytes(
    ahead: &ReadAhead,
    segment: &SegmentFile,
    stored: &StoredRecord,
    read: impl FnOnce() -> io::Result<Option<Bytes>>,
) -> Result<Bytes> {
    if let Some(bytes) = ahead.bytes(stored) {
        return Ok(bytes);
    }
    let place = || segment.place(stored.offset);
    let bytes = read().map_err(|source| Error::io(format!("read {}", place()), source))?;
    bytes.ok_or_else(|| Error::corrupt(place(), "an object", "the end"))
}

/// Reads `len` bytes from `offset` in a segment that may still grow; returns `None` if it ends
/// before. The allocation is bounded: the batch with these bytes was found whole inside the file.
fn segment_bytes(segment: &SegmentFile, offset: u64, len: usize) -> io::Result<Option<Bytes>> {
    let mut bytes = vec![0; len];
    let read = segment.file.read_at(&mut bytes, offset)?;
    Ok((read == len).then(|| bytes.into()))
}
