//! Tests of packs that do not list their ids: intact, damaged, and crafted ones.

use std::io;
use std::ops::Range;
use std::path::{Path, PathBuf};
use std::time::Duration;

use super::damage::{file, small};
use super::hostile::{mend, without_ids};
use super::round_trip::{STORE, Sample, open};
use crate::object::{ID_BYTES, verify};
use crate::store::io::{Access, Identity, Io, Mapping, RealIo};
use crate::store::pack::format::layout::{BlockKind, OBJECTS_OF_ANY, newer_version};
use crate::store::pack::*;
use crate::store::{PACKS_DIR, derived_ids};

/// A chain of objects, each of which is on the other side of the previous one in the pack.
fn zigzag(len: usize, start: &[u8]) -> Sample {
    let mut sample = Sample::default();
    let mut before = ObjectId::of(Kind::Node, start);
    for number in 0..len as u64 {
        let bytes = [&[0x84, 1], &number.to_le_bytes()[..], before.as_bytes()].concat();
        before = ObjectId::of(Kind::Node, &bytes);
        sample.push(Kind::Node, bytes, 0);
    }
    let (mut front, mut behind) = (Vec::new(), Vec::new());
    for (number, item) in sample.items.drain(..).enumerate() {
        if number % 2 == 0 { front.push(item) } else { behind.push(item) }
    }
    front.reverse();
    sample.items = front.into_iter().chain(behind).collect();
    sample
}

#[test]
fn objects_are_found_in_whatever_order_they_name_one_another() {
    let (sample, _, _) = without_ids(zigzag(60, b"elsewhere"));
    assert_eq!(sample.items.len(), 60);
}

#[test]
fn it_is_smaller_by_the_ids_and_what_finds_them() {
    let (sample, listed, _) = small(true);
    let (sample, bytes, _) = without_ids(sample);
    let ids = sample.items.len() + sample.gone.len();
    assert!(listed.len() > bytes.len() + ids * ID_BYTES, "{} and {}", listed.len(), bytes.len());
}

#[test]
fn a_changed_byte_costs_what_needs_its_block_and_is_told() {
    let (sample, bytes, id) = without_ids(small(false).0);
    let pack = Pack::open(&file(bytes.clone()), id, STORE).unwrap();
    assert_eq!((pack.problem(), pack.unknown_count()), (None, 0));
    let frame_of = |at: usize| -> Option<(BlockInfo, Range<u64>)> {
        let blocks = pack.frames.blocks().map(|(_, block)| (*block, block.offset..block.end()));
        blocks.into_iter().find(|(_, frame)| frame.contains(&(at as u64)))
    };
    let cache = BlockCache::new(1 << 20);
    for at in 0..bytes.len() {
        let mut damaged = bytes.clone();
        damaged[at] ^= 1 << (at % 8);
        let Ok(damaged) = Pack::open(&file(damaged), id, STORE) else {
            assert!(frame_of(at).is_none(), "a frame at {at} keeps the pack closed");
            continue;
        };
        let (block, _) = frame_of(at).expect("what is no frame is verified when a pack is opened");
        assert!(!damaged.verify_frames().is_empty(), "byte {at} is in no checksum");
        cache.clear();
        let mut lost = 0;
        for (ordinal, item) in (0..).zip(&sample.items) {
            match damaged.find(&item.id) {
                None => lost += 1,
                Some(found) => {
                    assert_eq!(found, PackLookup::Object { ordinal, kind: item.kind });
                    match damaged.read(ordinal, &cache) {
                        Ok(bytes) => verify(item.kind, &bytes, &item.id).unwrap(),
                        Err(error) => panic!("found and not read: {error}"),
                    }
                }
            }
        }
        let gone = sample.gone.len() - damaged.tombstones().count();
        assert_eq!(damaged.unknown_count(), (lost + gone) as u64, "byte {at}");
        assert_eq!(damaged.problem().is_some(), lost + gone > 0, "byte {at}");
        assert_eq!(damaged.count_misindexed(), 0, "byte {at}");
        let is_lost = block.kind == BlockKind::Parts || lost + gone >= block.objects as usize;
        assert!(is_lost, "byte {at}: {lost} of {block:?}");
    }
}

#[test]
fn what_cannot_be_is_refused() {
    // An object that occurs twice: its two copies could not be distinguished.
    let mut sample = Sample::default();
    sample.push(Kind::Blob, b"one".to_vec(), 0);
    sample.push(Kind::Blob, b"two".to_vec(), 0);
    let dir = tempfile::tempdir().unwrap();
    let written = sample.write_as(dir.path(), Tier::Hot, false).unwrap();
    assert!(open(dir.path(), written.id).is_ok());
    sample.items[1].id = sample.items[0].id;
    assert!(sample.write_as(dir.path(), Tier::Hot, false).is_err());

    // More objects than so small a file can hold: no memory is allocated for them.
    let (_, mut bytes, _) = without_ids(sample_of_one());
    let many = u32::try_from(OBJECTS_OF_ANY).unwrap() * 9;
    let footer = bytes.len() - FOOTER_BYTES;
    bytes[48..52].copy_from_slice(&many.to_le_bytes());
    bytes[footer + 12..footer + 16].copy_from_slice(&many.to_le_bytes());
    let id = mend(&mut bytes).unwrap();
    assert!(Pack::open(&file(bytes), id, STORE).is_err());
}

fn sample_of_one() -> Sample {
    let mut sample = Sample::default();
    sample.push(Kind::Blob, b"one".to_vec(), 0);
    sample
}

#[test]
fn a_pack_of_a_newer_version_says_so() {
    let (_, mut bytes, _) = without_ids(sample_of_one());
    let footer = bytes.len() - FOOTER_BYTES;
    bytes[8] = 3;
    bytes[footer + 8] = 3;
    let id = mend(&mut bytes).unwrap();
    assert_eq!(newer_version(&bytes[footer..], id), Some(3));
    let error = Pack::open(&file(bytes), id, STORE).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Unsupported);
    assert!(error.to_string().contains("version 3 of packs is newer than this build"), "{error}");
}

/// A file that is read piece by piece, and returns an error for a range.
#[derive(Debug)]
struct Refusing {
    bytes: Vec<u8>,
    refused: Range<u64>,
    code: i32,
}

impl IoFile for Refusing {
    fn is_mappable(&self) -> bool {
        false
    }

    fn map(&self) -> io::Result<Mapping> {
        unreachable!("it is read")
    }

    fn size(&self) -> io::Result<u64> {
        Ok(self.bytes.len() as u64)
    }

    fn read_at(&self, buffer: &mut [u8], offset: u64) -> io::Result<usize> {
        let Range { start, end } = self.refused;
        if offset < end && offset + buffer.len() as u64 > start {
            return Err(io::Error::from_raw_os_error(self.code));
        }
        let at = usize::try_from(offset).unwrap();
        buffer.copy_from_slice(&self.bytes[at..at + buffer.len()]);
        Ok(buffer.len())
    }

    fn write_at(&self, _: &[u8], _: u64) -> io::Result<()> {
        unreachable!("reading writes nothing")
    }

    fn sync_data(&self) -> io::Result<()> {
        unreachable!("reading writes nothing")
    }

    fn lock(&self, _: Duration) -> io::Result<bool> {
        unreachable!("packs have no lock")
    }

    fn unlock(&self) -> io::Result<()> {
        unreachable!("packs have no lock")
    }

    fn identity(&self) -> io::Result<Identity> {
        unreachable!("packs are known by name")
    }
}

#[test]
fn what_a_disk_refuses_is_lost_only_if_it_always_will_be() {
    let (sample, bytes, id) = without_ids(small(false).0);
    let pack = Pack::open(&file(bytes.clone()), id, STORE).unwrap();
    let last = *pack.frames.blocks().last().unwrap().1;
    let open = |code| {
        let bytes = bytes.clone();
        let refused = last.offset..last.end();
        let file: Arc<dyn IoFile> = Arc::new(Refusing { bytes, refused, code });
        Pack::open(&file, id, STORE).unwrap()
    };
    let (too_many_open_files, bad_sector) = (24, 5);
    let busy = open(too_many_open_files);
    assert_eq!(busy.check_ids_known().unwrap_err().kind(), ErrorKind::Io);
    let damaged = open(bad_sector);
    damaged.check_ids_known().unwrap();
    assert_eq!(damaged.known_problem().map(|found| found.kind), Some(FindingKind::Damage));
    assert!(damaged.unknown_count() > 0 && damaged.problem().is_some());
    assert!(sample.items.iter().any(|item| damaged.find(&item.id).is_some()));
}

/// Writes a pack to a folder of its own; returns the folder, the id and the path of its ids.
fn kept(sample: &Sample) -> (tempfile::TempDir, PackId, PathBuf) {
    let dir = tempfile::tempdir().unwrap();
    let packs = dir.path().join(PACKS_DIR);
    std::fs::create_dir(&packs).unwrap();
    let written = sample.write_as(&packs, Tier::Hot, false).unwrap();
    let name = written.id.file_name().replace(".pack", ".ids");
    let path = dir.path().join("derived").join(name);
    (dir, written.id, path)
}

/// Opens the pack as a store does. Returns true if its ids were computed.
fn open_with_cache(dir: &Path, id: PackId, store: StoreId, may_write: bool) -> (Pack, bool) {
    let file = RealIo.open(&dir.join(PACKS_DIR).join(id.file_name()), Access::Read).unwrap();
    let io: Arc<dyn Io> = Arc::new(RealIo);
    let pack = derived_ids::open(&io, dir, (&file, id), store, may_write).unwrap();
    let is_computed = pack.computed_ids().is_some();
    (pack, is_computed)
}

#[test]
fn ids_that_were_computed_are_kept_and_believed_only_whole() {
    let (sample, _, _) = small(true);
    let (folder, id, path) = kept(&sample);
    let dir = folder.path();
    assert!(open_with_cache(dir, id, STORE, false).1 && !path.exists(), "nothing is written");
    assert!(open_with_cache(dir, id, STORE, true).1);
    let (pack, is_computed) = open_with_cache(dir, id, STORE, true);
    assert!(!is_computed, "they are read");
    sample.assert_in(&pack);
    let good = std::fs::read(&path).unwrap();
    for at in 0..good.len() {
        let mut bad = good.clone();
        bad[at] ^= 1 << (at % 8);
        std::fs::write(&path, &bad).unwrap();
        assert!(open_with_cache(dir, id, STORE, false).1, "byte {at} is in no checksum");
    }
    for len in [0, 1, 47, good.len() - 1] {
        std::fs::write(&path, &good[..len]).unwrap();
        assert!(open_with_cache(dir, id, STORE, false).1, "{len} bytes");
    }
    // The next process that opens the pack repairs the file, whatever its content.
    let (pack, _) = open_with_cache(dir, id, STORE, true);
    sample.assert_in(&pack);
    assert_eq!(std::fs::read(&path).unwrap(), good);
}

#[test]
fn ids_of_another_pack_are_not_believed() {
    let (one, one_id, one_path) = kept(&zigzag(20, b"here"));
    let (two, two_id, two_path) = kept(&zigzag(20, b"there"));
    assert!(open_with_cache(one.path(), one_id, STORE, true).1);
    assert!(open_with_cache(two.path(), two_id, STORE, true).1);
    assert!(!open_with_cache(two.path(), two_id, STORE, false).1);
    let as_many = std::fs::read(&one_path).unwrap();
    assert_eq!(as_many.len(), std::fs::read(&two_path).unwrap().len());
    std::fs::write(&two_path, as_many).unwrap();
    assert!(open_with_cache(two.path(), two_id, STORE, false).1);
}

#[test]
fn where_ids_cannot_be_kept_a_pack_is_opened_all_the_same() {
    let (sample, _, _) = small(true);
    let (folder, id, path) = kept(&sample);
    std::fs::write(path.parent().unwrap(), b"a file in the place of the folder").unwrap();
    for _ in 0..2 {
        let (pack, is_computed) = open_with_cache(folder.path(), id, STORE, true);
        assert!(is_computed);
        sample.assert_in(&pack);
    }
}

#[test]
fn forged_ids_make_objects_that_do_not_verify_and_are_found_out() {
    let (sample, _, _) = small(true);
    let (folder, id, path) = kept(&sample);
    let dir = folder.path();
    let (pack, _) = open_with_cache(dir, id, STORE, true);
    assert!(!derived_ids::has_wrong_ids(&RealIo, dir, &pack, STORE));
    let mut forged = std::fs::read(&path).unwrap();
    let (first, second) = (sample.items[0].id, sample.items[1].id);
    forged[16..48].copy_from_slice(second.as_bytes());
    forged[48..80].copy_from_slice(first.as_bytes());
    let end = forged.len() - 32;
    let mut sum = crate::object::Checksum::new("turntree v1 derived ids");
    let sum = sum.update(&STORE.0).update(&id.0).update(&forged[..end]).finish();
    forged[end..].copy_from_slice(&sum);
    std::fs::write(&path, &forged).unwrap();
    let (believed, is_computed) = open_with_cache(dir, id, STORE, true);
    assert!(!is_computed);
    let cache = BlockCache::new(1 << 20);
    let mut wrong = 0;
    for item in &sample.items {
        let Some(PackLookup::Object { ordinal, kind }) = believed.find(&item.id) else { continue };
        let read = believed.read(ordinal, &cache);
        wrong += usize::from(!read.is_ok_and(|bytes| verify(kind, &bytes, &item.id).is_ok()));
    }
    assert!(wrong >= 2, "{wrong}");
    assert!(derived_ids::has_wrong_ids(&RealIo, dir, &pack, STORE));
}
