//! Sealed segments: mapped into memory, and searched through their index.
//!
//! An index is verified before it answers many look-ups, or one that matters. The first few
//! look-ups search it unverified: a found object is verified when it is read, and a reader that
//! does not find an object verifies every index before it reports the object as missing
//! ([`OpenFiles::verify_indexes`]). So opening a store with many segments does not hash all
//! indexes. A damaged index is rebuilt from the batches, as for a segment without an index.
//!
//! [`OpenFiles::verify_indexes`]: super::view::OpenFiles::verify_indexes

use std::io;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::sync::{Arc, OnceLock};

use bytes::Bytes;

use super::index::{Index, IndexHead, IndexLookup};
use super::scan::{ScanDepth, ScanFindings, Tail, scan};
use crate::error::{Error, Result};
use crate::object::{IdPrefix, Kind, ObjectId};
use crate::store::format::segment::{SegmentFile, StoredRecord};
use crate::store::medium::Medium;
use crate::store::{Finding, FindingKind};

/// Look-ups in an unverified index. Each costs system calls, while verifying the index reads and
/// hashes all of it, once.
const MAX_LOOKS: u32 = 128;

/// A sealed segment.
#[derive(Debug)]
pub(in crate::store) struct SealedSegment {
    segment: Arc<SegmentFile>,
    medium: Medium,
    file_bytes: u64,
    head: IndexHead,
    /// Look-ups that the unverified index has answered.
    looks: AtomicU32,
    verified: OnceLock<VerifiedIndex>,
    /// Set when pages were read since their memory was released.
    is_touched: AtomicBool,
}

/// An index that matches the batches, and the damage of the one in the file.
#[derive(Debug)]
struct VerifiedIndex {
    index: Index,
    problem: Option<Finding>,
}

impl SealedSegment {
    /// Opens the segment whose index record is at `offset`, and verifies the header of that record.
    /// The rest is verified on first use, or here if the file is not mapped.
    ///
    /// # Errors
    /// `Corrupt` when there is no index, `Io` when it cannot be read.
    pub(in crate::store) fn open(segment: Arc<SegmentFile>, offset: u64) -> Result<Self> {
        let failed = |e| Error::io(format!("map {}", segment.place(0)), e);
        let medium = Medium::of(&segment.file).map_err(failed)?;
        let file_bytes = medium.size();
        let malformed = || Error::malformed(segment.place(offset), "an index");
        let head = IndexHead::read(&segment, offset, file_bytes).map_err(failed)?;
        let head = head.ok_or_else(malformed)?;
        let verified = OnceLock::new();
        // Each look-up would have to decipher the surrounding bytes.
        if !medium.is_in_memory() {
            let index = Index::read(&medium, &segment, offset).map_err(failed)?;
            let index = index.ok_or_else(malformed)?;
            let _ = verified.set(VerifiedIndex { index, problem: None });
        }
        let (looks, is_touched) = (AtomicU32::new(0), AtomicBool::new(false));
        Ok(Self { segment, medium, file_bytes, head, looks, verified, is_touched })
    }

    /// Verifies the index, if it was not verified before, and returns its damage.
    pub(in crate::store) fn problem(&self) -> Option<&Finding> {
        self.verified().problem.as_ref()
    }

    /// Returns the damage of the index that was noticed until now.
    pub(in crate::store) fn known_problem(&self) -> Option<&Finding> {
        self.verified.get()?.problem.as_ref()
    }

    /// Returns true if the index was verified.
    pub(in crate::store) fn is_verified(&self) -> bool {
        self.verified.get().is_some()
    }

    fn verified(&self) -> &VerifiedIndex {
        self.verified.get_or_init(|| {
            let index = Index::read(&self.medium, &self.segment, self.head.offset());
            // All of it was read, and most segments are rarely searched.
            self.medium.release_pages();
            match index {
                Ok(Some(index)) => VerifiedIndex { index, problem: None },
                Ok(None) | Err(_) => self.build_index(),
            }
        })
    }

    /// Builds the index from the batches.
    fn build_index(&self) -> VerifiedIndex {
        let (mut found, mut tail) = (ScanFindings::default(), Tail::default());
        let scanned = scan(&self.segment, &mut tail, ScanDepth::Whole, &mut found);
        let damage = Error::malformed(self.segment.place(self.head.offset()), "an index");
        let message = match scanned {
            Ok(()) => damage.to_string(),
            Err(error) => format!("{damage}, and the segment cannot be read: {error}"),
        };
        let place = self.segment.id.file_name();
        let problem = Some(Finding { kind: FindingKind::Damage, place, message });
        VerifiedIndex { index: Index::of(found.objects), problem }
    }

    /// Releases the memory of all pages that were read.
    pub(in crate::store) fn release_pages(&self) {
        self.is_touched.store(false, Ordering::Relaxed);
        self.medium.release_pages();
    }

    /// Releases the memory of pages, if an object was found or read since the last time.
    pub(in crate::store) fn release_touched_pages(&self) {
        if self.is_touched.load(Ordering::Relaxed) {
            self.release_pages();
        }
    }

    /// Notes a read. Many threads call this, so the flag is written only when it changes.
    fn note_read(&self) {
        if !self.is_touched.load(Ordering::Relaxed) {
            self.is_touched.store(true, Ordering::Relaxed);
        }
    }

    pub(in crate::store) fn segment(&self) -> &SegmentFile {
        &self.segment
    }

    pub(in crate::store) fn file(&self) -> &Arc<SegmentFile> {
        &self.segment
    }

    /// Returns the number of objects.
    pub(in crate::store) fn len(&self) -> usize {
        self.verified.get().map_or(self.head.len(), |verified| verified.index.len())
    }

    /// Returns the size of the file.
    pub(in crate::store) fn file_bytes(&self) -> u64 {
        self.file_bytes
    }

    /// Returns the location of the object `id`. `None` is certain once the index [was
    /// verified](Self::is_verified).
    pub(in crate::store) fn find(&self, id: &ObjectId) -> Option<StoredRecord> {
        let looked = match self.is_verified() {
            false if self.looks.fetch_add(1, Ordering::Relaxed) < MAX_LOOKS => {
                self.head.look(&self.segment, id)
            }
            _ => IndexLookup::Unsure,
        };
        let found = match looked {
            IndexLookup::Found(stored) => Some(stored),
            IndexLookup::Absent => None,
            IndexLookup::Unsure => self.verified().index.find(id),
        };
        if found.is_some() {
            self.note_read();
        }
        found
    }

    /// Returns the id and the location of the object with a number.
    pub(in crate::store) fn entry(&self, at: usize) -> Option<(ObjectId, StoredRecord)> {
        Some((self.id(at)?, self.stored(at)?))
    }

    /// Returns the id and the location of every object. Verifies the index first, since a damaged
    /// one may have fewer or more objects.
    pub(in crate::store) fn entries(&self) -> impl Iterator<Item = (ObjectId, StoredRecord)> {
        self.note_read();
        let index = &self.verified().index;
        (0..index.len()).filter_map(|at| Some((index.id(at)?, index.stored(at)?)))
    }

    /// Returns the id of the object with a number, in the order of ids.
    pub(in crate::store) fn id(&self, at: usize) -> Option<ObjectId> {
        self.note_read();
        self.verified().index.id(at)
    }

    /// Returns the location of the object with a number.
    pub(in crate::store) fn stored(&self, at: usize) -> Option<StoredRecord> {
        self.note_read();
        self.verified().index.stored(at)
    }

    /// Returns `len` bytes from `offset`, without a copy if the file is mapped. Returns `None` if
    /// the file ends before them.
    ///
    /// # Errors
    /// When they cannot be read.
    pub(in crate::store) fn bytes(&self, offset: u64, len: usize) -> io::Result<Option<Bytes>> {
        self.note_read();
        self.medium.get(offset, len)
    }

    /// Returns the objects whose ids start with `prefix`, in order.
    pub(in crate::store) fn starting_with(
        &self,
        prefix: &IdPrefix,
    ) -> impl Iterator<Item = (ObjectId, Kind)> {
        let index = &self.verified().index;
        (index.first_not_below(&prefix.first())..index.len())
            .map_while(|at| index.id(at).filter(|id| prefix.matches(id)).map(|id| (at, id)))
            .filter_map(|(at, id)| Some((id, index.stored(at)?.kind)))
    }
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::path::Path;

    use super::*;
    use crate::object::{Object, ObjectSource};
    use crate::store::format::segment::HEADER_BYTES;
    use crate::store::{NewStore, OpenOptions, RealIo, Store, Thoroughness, read};

    /// Creates a store with one sealed segment and returns its objects.
    fn make(dir: &Path) -> Vec<(ObjectId, Object)> {
        Store::create(&RealIo, dir, &NewStore { id: [1; 16] }).unwrap();
        let mut state = 7_u64;
        let mut blob = || {
            let word = || {
                state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
                (state >> 32).to_le_bytes()
            };
            let bytes: Vec<u8> = std::iter::repeat_with(word).take(8 << 10).flatten().collect();
            (ObjectId::of(Kind::Blob, &bytes), Object { kind: Kind::Blob, bytes: bytes.into() })
        };
        let mut objects: Vec<_> = std::iter::repeat_with(&mut blob).take(300).collect();
        objects.sort_by_key(|(id, _)| *id);
        open(dir).append(objects.clone()).unwrap();
        objects
    }

    fn open(dir: &Path) -> Store {
        Store::open(Arc::new(RealIo), dir, OpenOptions::new([2; 16])).unwrap()
    }

    fn sealed(store: &Store) -> Arc<SealedSegment> {
        let view = read(&store.view);
        let [sealed] = view.files.sealed.as_slice() else { panic!("one sealed segment") };
        Arc::clone(sealed)
    }

    #[test]
    fn a_few_objects_are_found_before_the_index_is_verified_and_an_absent_one_by_a_verified_index()
    {
        let dir = tempfile::tempdir().unwrap();
        let dir = dir.path().join("store");
        let objects = make(&dir);
        let store = open(&dir);
        for (id, object) in objects.iter().take(9) {
            assert_eq!(store.read(id).unwrap().as_ref(), Some(object));
        }
        let absent = ObjectId::of(Kind::Blob, b"absent");
        assert!(!read(&store.view).is_found(&absent));
        assert!(!sealed(&store).is_verified());
        assert!(!store.contains(&absent).unwrap());
        assert!(sealed(&store).is_verified());
        assert_eq!((sealed(&store).len(), store.findings()), (300, vec![]));
        // Many look-ups verify the index, too.
        let store = open(&dir);
        for (id, object) in &objects {
            assert_eq!(store.read(id).unwrap().as_ref(), Some(object));
        }
        assert!(sealed(&store).is_verified());
    }

    #[test]
    fn what_a_damaged_index_hides_is_read_and_the_damage_is_told() {
        let dir = tempfile::tempdir().unwrap();
        let dir = dir.path().join("store");
        let objects = make(&dir);
        let (name, offset) = {
            let store = open(&dir);
            let sealed = sealed(&store);
            (sealed.segment().id.file_name(), usize::try_from(sealed.head.offset()).unwrap())
        };
        let path = dir.join("journal").join(&name);
        let whole = fs::read(&path).unwrap();
        let (fan_out, ids) = (offset + HEADER_BYTES, offset + HEADER_BYTES + 1024);
        let places = ids + 300 * 32;
        // A count, an id, the offset of an object, the size of one, and the checksum of it all.
        for at in [fan_out + 40, fan_out + 42, ids + 33, places + 1, places + 36] {
            let mut damaged = whole.clone();
            damaged[at] ^= 0x11;
            fs::write(&path, &damaged).unwrap();
            assert_eq!(open(&dir).count(Kind::Blob), 300, "{at}");
            let store = open(&dir);
            for (id, object) in &objects {
                assert_eq!(store.read(id).unwrap().as_ref(), Some(object), "{at}");
                assert!(store.contains(id).unwrap(), "{at}");
            }
            assert!(!store.contains(&ObjectId::of(Kind::Blob, b"absent")).unwrap());
            let told = store.findings();
            assert_eq!(told.iter().map(|found| &*found.place).collect::<Vec<_>>(), [&*name]);
            let examination = store.examine(Thoroughness::Quick, &mut |_, _| {}).unwrap();
            assert!(examination.findings.iter().any(|found| found.place == name), "{at}");
            assert!(store.collect().is_err(), "nothing is removed from a damaged store");
        }
    }
}
