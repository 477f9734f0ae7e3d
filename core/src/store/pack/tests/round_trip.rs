//! Tests that packed objects read back in every tier, and no other objects are found.

use std::path::Path;
use std::sync::Arc;

use bytes::Bytes;
use proptest::prelude::*;
use proptest::sample::Index;

use crate::object::{Memory, ObjectSink, ObjectSource, verify};
use crate::store::io::{Access, Io, RealIo};
use crate::store::pack::format::pack_draft::PackFileSize;
use crate::store::pack::*;

pub(in crate::store::pack) const STORE: StoreId = StoreId([7; 16]);
pub(super) const SALT: [u8; 16] = [9; 16];

/// Objects to pack, and their source.
#[derive(Debug, Default)]
pub(in crate::store::pack) struct Sample {
    pub(in crate::store::pack) objects: Memory,
    pub(in crate::store::pack) items: Vec<PackItem>,
    pub(in crate::store::pack) gone: Vec<(ObjectId, Kind, Tombstone)>,
}

impl Sample {
    /// Adds an object, unless it was added before.
    pub(in crate::store::pack) fn push(&mut self, kind: Kind, bytes: Vec<u8>, placement: u32) {
        if !self.objects.contains(&ObjectId::of(kind, &bytes)).unwrap() {
            let id = self.objects.write(kind, bytes.into()).unwrap();
            self.items.push(PackItem { id, kind, placement, cohort: 0 });
        }
    }

    /// Writes a pack. Archives list no ids here, so that both forms are tested.
    pub(in crate::store::pack) fn write(&self, dir: &Path, tier: Tier) -> Result<PackFileSize> {
        self.write_as(dir, tier, tier != Tier::Archive)
    }

    pub(super) fn write_as(&self, dir: &Path, tier: Tier, lists_ids: bool) -> Result<PackFileSize> {
        let (items, gone, source) = (&self.items, &self.gone, &self.objects);
        let draft = PackDraft { store: STORE, salt: SALT, tier, lists_ids, items, gone, source };
        draft.write(&RealIo, dir)
    }

    /// Asserts that the pack contains exactly the sample.
    pub(in crate::store::pack) fn assert_in(&self, pack: &Pack) {
        let cache = BlockCache::new(1 << 20);
        for (ordinal, item) in (0..).zip(&self.items) {
            assert_eq!(pack.find(&item.id), Some(PackLookup::Object { ordinal, kind: item.kind }));
            assert_eq!(
                (pack.id_at(ordinal), pack.kind_at(ordinal)),
                (Some(item.id), Some(item.kind))
            );
            let bytes = pack.read(ordinal, &cache).unwrap();
            verify(item.kind, &bytes, &item.id).unwrap();
            assert!(pack.stored_share(ordinal, &cache).is_ok());
            let listed: Vec<_> =
                pack.starting_with(&item.id.to_string().parse().unwrap()).collect();
            assert_eq!(listed, [(item.id, PackLookup::Object { ordinal, kind: item.kind })]);
        }
        assert_eq!(pack.tombstones().collect::<Vec<_>>(), self.gone);
        for (id, kind, gone) in &self.gone {
            assert_eq!(pack.find(id), Some(PackLookup::Tombstone(*gone, *kind)));
        }
        let end = pack.len();
        assert_eq!(
            (end as usize, pack.tombstone_count() as usize),
            (self.items.len(), self.gone.len())
        );
        assert_eq!((pack.id_at(end), pack.kind_at(end), pack.block_of(end)), (None, None, None));
        assert!(pack.read(end, &cache).is_err());
        for n in 0..50_u32 {
            assert_eq!(pack.find(&ObjectId::of(Kind::Tag, &n.to_le_bytes())), None);
        }
        assert_eq!(pack.verify_frames(), []);
    }
}

pub(in crate::store::pack) fn open(dir: &Path, id: PackId) -> Result<Pack> {
    Pack::open(&RealIo.open(&dir.join(id.file_name()), Access::Read).unwrap(), id, STORE)
}

/// Returns pseudo-random bytes from a seed.
pub(in crate::store::pack) fn noise(seed: u64, len: usize) -> Vec<u8> {
    let mut state = seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1;
    let mut next = || {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        state.to_le_bytes()
    };
    std::iter::repeat_with(&mut next).flatten().take(len).collect()
}

/// A step of building a sample.
#[derive(Debug, Clone)]
enum SampleStep {
    Blob { seed: u64, len: usize, text: bool },
    Version { of: Index, at: Index, bytes: Vec<u8> },
    Structured { kind: Kind, links: Vec<Index>, foreign: bool, tail: Vec<u8> },
    Tombstone { kind: Kind, seed: u64, gone: Tombstone },
}

fn step() -> impl Strategy<Value = (u32, SampleStep)> {
    let structured = prop::sample::select(&Kind::ALL[1..]);
    let blob = (any::<u64>(), 0..40_000_usize, any::<bool>())
        .prop_map(|(seed, len, text)| SampleStep::Blob { seed, len, text });
    let version = (any::<Index>(), any::<Index>(), prop::collection::vec(any::<u8>(), 0..40))
        .prop_map(|(of, at, bytes)| SampleStep::Version { of, at, bytes });
    let links = prop::collection::vec(any::<Index>(), 0..12);
    let structured =
        (structured, links, any::<bool>(), prop::collection::vec(any::<u8>(), 0..40)).prop_map(
            |(kind, links, foreign, tail)| SampleStep::Structured { kind, links, foreign, tail },
        );
    let reason = prop::sample::select(&[Tombstone::Elided, Tombstone::Redacted][..]);
    let gone = (prop::sample::select(&Kind::ALL[..]), any::<u64>(), reason)
        .prop_map(|(kind, seed, gone)| SampleStep::Tombstone { kind, seed, gone });
    (0..3_u32, prop_oneof![3 => blob, 4 => version, 6 => structured, 1 => gone])
}

pub(in crate::store::pack) fn sample() -> impl Strategy<Value = Sample> {
    prop::collection::vec(step(), 1..60).prop_map(|steps| {
        let mut sample = Sample::default();
        for (placement, step) in steps {
            sample.take(placement, step);
        }
        sample
    })
}

impl Sample {
    fn take(&mut self, placement: u32, step: SampleStep) {
        match step {
            SampleStep::Blob { seed, len, text: false } => {
                self.push(Kind::Blob, noise(seed, len), placement);
            }
            SampleStep::Blob { seed, len, text: true } => {
                let text = format!("line {} of a text\n", seed % 7).repeat(len / 17);
                self.push(Kind::Blob, text.into_bytes(), placement);
            }
            SampleStep::Version { of, at, bytes } => {
                let blobs = self.items.iter().filter(|item| item.kind == Kind::Blob);
                let blobs: Vec<&PackItem> = blobs.collect();
                if blobs.is_empty() {
                    return;
                }
                let item = of.get(&blobs);
                let mut version = self.objects.read(&item.id).unwrap().unwrap().bytes.to_vec();
                let at = at.index(version.len() + 1);
                version.splice(at..(at + bytes.len() / 2).min(version.len()), bytes);
                self.push(Kind::Blob, version, placement);
            }
            SampleStep::Structured { kind, links, foreign, tail } => {
                let gone = self.gone.iter().map(|(id, ..)| *id);
                let mut ids: Vec<_> = self.items.iter().map(|item| item.id).chain(gone).collect();
                if foreign || ids.is_empty() {
                    ids.push(ObjectId::of(kind, b"elsewhere"));
                }
                let mut bytes = vec![0x83];
                for link in links {
                    bytes.extend_from_slice(link.get(&ids).as_bytes());
                    bytes.truncate(bytes.len() - usize::from(tail.len() % 9 == 0));
                }
                bytes.extend_from_slice(&tail);
                self.push(kind, bytes, placement);
            }
            SampleStep::Tombstone { kind, seed, gone } => {
                let id = ObjectId::of(kind, &[&seed.to_le_bytes()[..], b"gone"].concat());
                if self.gone.iter().all(|(known, ..)| *known != id) {
                    self.gone.push((id, kind, gone));
                }
            }
        }
    }
}

turntree_properties::properties! {
    cases = 48;

    #[test]
    fn what_is_packed_reads_back(sample in sample(), tier in prop::sample::select(&Tier::ALL[..])) {
        prop_assume!(!sample.items.is_empty() || !sample.gone.is_empty());
        let dir = tempfile::tempdir().unwrap();
        let written = sample.write(dir.path(), tier).unwrap();
        let names = RealIo.list(dir.path()).unwrap();
        prop_assert_eq!(names, [written.id.file_name()]);
        let pack = open(dir.path(), written.id).unwrap();
        prop_assert_eq!((pack.tier(), pack.file_bytes()), (tier, written.bytes));
        sample.assert_in(&pack);
    }
}

#[test]
fn versions_of_large_blobs_share_what_they_have_in_common() {
    let mut sample = Sample::default();
    let mut blob = noise(1, 5 << 20);
    for version in 0..5 {
        sample.push(Kind::Blob, blob.clone(), 0);
        let at = 100_000 << version;
        blob.splice(at..at, *b"a change");
    }
    for tier in [Tier::Hot, Tier::Compacted] {
        let dir = tempfile::tempdir().unwrap();
        let written = sample.write(dir.path(), tier).unwrap();
        sample.assert_in(&open(dir.path(), written.id).unwrap());
        assert_eq!(written.raw_bytes >> 20, 25);
        assert!(written.bytes < 8 << 20, "{} bytes", written.bytes);
    }
}

#[test]
fn versions_in_another_block_are_compressed_with_that_block() {
    let mut sample = Sample::default();
    for placement in 0..4 {
        for n in 0..30_u32 {
            let mut bytes = noise(n.into(), 4000);
            bytes.extend_from_slice(&placement.to_string().into_bytes());
            sample.push(Kind::Blob, bytes, placement);
        }
    }
    let dir = tempfile::tempdir().unwrap();
    let written = sample.write(dir.path(), Tier::Hot).unwrap();
    let pack = open(dir.path(), written.id).unwrap();
    sample.assert_in(&pack);
    assert!(written.bytes < 140_000, "{} bytes", written.bytes);
    let bases: Vec<_> = pack.frames.blocks().map(|(_, block)| block.base).collect();
    assert_eq!(bases, [None, Some(0), Some(0), Some(0)]);
}

#[test]
fn a_pack_is_the_same_however_many_threads_make_it() {
    let mut sample = Sample::default();
    for n in 0..400_u32 {
        // Versions with some random bytes of their own: blocks that take different times, many with
        // a base.
        let mut bytes = noise(u64::from(n % 90), 4000 + 300 * (n as usize % 40));
        bytes.extend(noise(u64::from(n) << 32, 20 * (n as usize % 11)));
        sample.push(Kind::Blob, bytes, n / 300);
    }
    for tier in [Tier::Hot, Tier::Compacted] {
        let written = [1, 2, 5].map(|count| {
            let threads = rayon::ThreadPoolBuilder::new().num_threads(count).build().unwrap();
            let dir = tempfile::tempdir().unwrap();
            let written = threads.install(|| sample.write(dir.path(), tier)).unwrap();
            let pack = open(dir.path(), written.id).unwrap();
            sample.assert_in(&pack);
            assert!(pack.frames.blocks().filter(|(_, block)| block.base.is_some()).count() > 1);
            std::fs::read(dir.path().join(written.id.file_name())).unwrap()
        });
        assert!(written[0] == written[1] && written[1] == written[2]);
    }
}

#[test]
fn a_pack_that_cannot_be_written_leaves_nothing() {
    let dir = tempfile::tempdir().unwrap();
    let mut sample = Sample::default();
    let error = |sample: &Sample| {
        let error = sample.write(dir.path(), Tier::Hot).unwrap_err();
        assert_eq!(RealIo.list(dir.path()).unwrap(), Vec::<String>::new());
        error.kind()
    };
    assert_eq!(error(&sample), crate::ErrorKind::InvalidInput, "empty");
    sample.push(Kind::Blob, b"x".to_vec(), 0);
    let item = sample.items[0];
    sample.items.push(item);
    assert_eq!(error(&sample), crate::ErrorKind::InvalidInput, "twice");
    sample.items[1].id = ObjectId::of(Kind::Blob, b"absent");
    assert_eq!(error(&sample), crate::ErrorKind::NotFound, "absent");
}

#[test]
fn the_same_pack_written_twice_is_one() {
    let dir = tempfile::tempdir().unwrap();
    let mut sample = Sample::default();
    sample.push(Kind::Blob, b"x".to_vec(), 0);
    let first = sample.write(dir.path(), Tier::Hot).unwrap();
    assert_eq!(sample.write(dir.path(), Tier::Hot).unwrap(), first);
    assert_eq!(RealIo.list(dir.path()).unwrap(), [first.id.file_name()]);
}

#[test]
fn a_damaged_file_that_has_the_name_of_a_pack_is_not_taken_for_it() {
    let dir = tempfile::tempdir().unwrap();
    let mut sample = Sample::default();
    sample.push(Kind::Blob, b"x".to_vec(), 0);
    let first = sample.write(dir.path(), Tier::Hot).unwrap();
    let path = dir.path().join(first.id.file_name());
    let whole = std::fs::read(&path).unwrap();
    for at in 0..whole.len() {
        let mut bytes = whole.clone();
        bytes[at] ^= 1;
        std::fs::write(&path, bytes).unwrap();
        let error = sample.write(dir.path(), Tier::Hot).unwrap_err();
        assert_eq!(error.kind(), crate::ErrorKind::Corrupt, "byte {at}");
    }
}

#[test]
fn threads_that_share_a_cache_read_the_same() {
    let mut sample = Sample::default();
    for n in 0..200_u32 {
        sample.push(Kind::Blob, noise(n.into(), 3000), n / 50);
    }
    let dir = tempfile::tempdir().unwrap();
    let written = sample.write(dir.path(), Tier::Hot).unwrap();
    let pack = Arc::new(open(dir.path(), written.id).unwrap());
    for bytes in [0, 300_000, 10 << 20] {
        let cache = BlockCache::new(bytes);
        std::thread::scope(|scope| {
            for thread in 0..4 {
                let (pack, cache, sample) = (&pack, &cache, &sample);
                scope.spawn(move || {
                    assert!(pack.block(0, cache).unwrap().read(199, cache).is_err());
                    for n in 0..200 {
                        let ordinal = (n * 7 + thread) % 200;
                        let item = &sample.items[ordinal as usize];
                        let bytes: Bytes = pack.read(ordinal, cache).unwrap();
                        verify(item.kind, &bytes, &item.id).unwrap();
                    }
                });
            }
        });
    }
}
