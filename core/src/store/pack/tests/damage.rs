//! Tests of damaged and crafted packs: a read returns an error or the right bytes, and intact parts
//! stay readable.

use std::ops::Range;
use std::sync::Arc;

use proptest::prelude::*;

use super::round_trip::{SALT, STORE, Sample, noise, open, sample};
use crate::object::{push_varint, verify};
use crate::store::format::codec::{Effort, compress_block};
use crate::store::memory_file::MemoryFile;
use crate::store::pack::format::block::Form;
use crate::store::pack::format::index::IdIndex;
use crate::store::pack::format::layout::{
    self, BlockInfo, BlockKind, FRAME_HEADER_BYTES, FrameHeader, HEADER_BYTES, IdsInfo,
    frames_checksum, ids_checksum, stored_checksum,
};
use crate::store::pack::*;

pub(in crate::store::pack) fn file(bytes: Vec<u8>) -> Arc<dyn IoFile> {
    Arc::new(MemoryFile::of(bytes))
}

/// Returns the range of the frames of a pack.
fn frames_of(pack: &Pack) -> Range<usize> {
    pack.footer.ids.end().unwrap()..pack.footer.table_offset.try_into().unwrap()
}

/// Returns the objects that are readable if only these frames, by their range, are good.
fn readable(pack: &Pack, is_good: impl Fn(Range<u64>) -> bool) -> Vec<ObjectId> {
    let blocks: Vec<_> = pack.frames.blocks().map(|(_, block)| *block).collect();
    let is_good = |block: &BlockInfo| is_good(block.offset..block.end());
    let chosen = blocks.iter().filter(|block| {
        let base = block.base.is_none_or(|base| is_good(&blocks[base as usize]));
        matches!(block.kind, BlockKind::Objects(_)) && is_good(block) && base
    });
    let ordinals = chosen.flat_map(|block| block.first..block.first + block.objects);
    ordinals.map(|ordinal| pack.id_at(ordinal).unwrap()).collect()
}

fn ids_in(rebuilt: &RecoveredObjects) -> Vec<ObjectId> {
    rebuilt.objects().map(|(_, id, _)| id).collect()
}

/// Writes a small pack with every feature: kinds, links, versions with a base, parts, gone ids.
pub(super) fn small(with_parts: bool) -> (Sample, Vec<u8>, PackId) {
    let mut sample = Sample::default();
    let gone = ObjectId::of(Kind::Node, b"gone");
    sample.gone.push((gone, Kind::Node, Tombstone::Elided));
    sample.gone.push((ObjectId::of(Kind::Blob, b"secret"), Kind::Blob, Tombstone::Redacted));
    sample.push(Kind::Blob, noise(1, 6000), 0);
    sample.push(Kind::Blob, [noise(1, 6000), noise(2, 9)].concat(), 1);
    if with_parts {
        sample.push(Kind::Blob, noise(3, 1000).repeat(4300), 2);
    }
    sample.push(Kind::Blob, Vec::new(), 2);
    for kind in [Kind::Node, Kind::Commit, Kind::Tag, Kind::Operation] {
        let ids: Vec<_> = sample.items.iter().rev().take(3).map(|item| item.id).collect();
        let mut bytes = vec![0x84, kind.code()];
        for id in ids.iter().chain([&gone]) {
            bytes.extend_from_slice(id.as_bytes());
        }
        sample.push(kind, bytes, 0);
    }
    // Newest first: an object precedes its link targets, and a version precedes older ones.
    sample.items.reverse();
    let dir = tempfile::tempdir().unwrap();
    let written = sample.write(dir.path(), Tier::Hot).unwrap();
    sample.assert_in(&open(dir.path(), written.id).unwrap());
    let bytes = std::fs::read(dir.path().join(written.id.file_name())).unwrap();
    (sample, bytes, written.id)
}

/// Reads everything readable in a damaged pack. Returns true if no damage was found.
fn read_damaged(sample: &Sample, bytes: Vec<u8>, id: PackId) -> (bool, RecoveredObjects) {
    let cache = BlockCache::new(1 << 20);
    let file = file(bytes);
    let mut whole = false;
    if let Ok(pack) = Pack::open(&file, id, STORE) {
        whole = pack.verify_frames().is_empty();
        for (ordinal, item) in (0..).zip(&sample.items) {
            assert_eq!(pack.find(&item.id), Some(PackLookup::Object { ordinal, kind: item.kind }));
            match pack.read(ordinal, &cache) {
                Ok(bytes) => verify(item.kind, &bytes, &item.id).unwrap(),
                Err(error) => assert!(!whole, "{error}"),
            }
            let _ = pack.stored_share(ordinal, &cache);
        }
    }
    let cache = BlockCache::new(1 << 20);
    let rebuilt = RecoveredObjects::read_frames(&file, id, STORE, &cache);
    let rebuilt = rebuilt.expect("the salt is written more than once");
    for (ordinal, id, kind) in rebuilt.objects() {
        let item = &sample.items[ordinal as usize];
        assert_eq!((id, kind), (item.id, item.kind));
        verify(kind, &rebuilt.read(ordinal, &cache).unwrap(), &id).unwrap();
    }
    (whole, rebuilt)
}

#[test]
fn a_changed_byte_is_an_error_and_costs_no_more_than_its_block() {
    let (sample, bytes, id) = small(false);
    let pack = Pack::open(&file(bytes.clone()), id, STORE).unwrap();
    for at in 0..bytes.len() {
        let mut damaged = bytes.clone();
        damaged[at] ^= 1 << (at % 8);
        let (whole, rebuilt) = read_damaged(&sample, damaged, id);
        assert!(!whole, "byte {at} is in no checksum");
        assert!(!rebuilt.findings().is_empty());
        let expected = readable(&pack, |frame| !frame.contains(&(at as u64)));
        assert_eq!(ids_in(&rebuilt), expected, "byte {at}");
        assert_eq!(rebuilt.tombstones().collect::<Vec<_>>(), sample.gone);
    }
}

#[test]
fn a_shorter_pack_is_an_error_and_its_whole_frames_are_read() {
    let (sample, bytes, id) = small(false);
    let pack = Pack::open(&file(bytes.clone()), id, STORE).unwrap();
    for len in 0..HEADER_BYTES {
        let (file, cache) = (file(bytes[..len].to_vec()), BlockCache::new(0));
        assert!(Pack::open(&file, id, STORE).is_err());
        assert!(RecoveredObjects::read_frames(&file, id, STORE, &cache).is_err());
    }
    for len in HEADER_BYTES..bytes.len() {
        let (whole, rebuilt) = read_damaged(&sample, bytes[..len].to_vec(), id);
        assert!(!whole && !rebuilt.findings().is_empty());
        assert_eq!(ids_in(&rebuilt), readable(&pack, |frame| frame.end <= len as u64));
    }
}

turntree_properties::properties! {
    cases = 24;

    #[test]
    fn the_frames_alone_give_every_id(sample in sample()) {
        prop_assume!(!sample.items.is_empty() || !sample.gone.is_empty());
        let dir = tempfile::tempdir().unwrap();
        let written = sample.write(dir.path(), Tier::Hot).unwrap();
        let mut bytes = std::fs::read(dir.path().join(written.id.file_name())).unwrap();
        let pack = open(dir.path(), written.id).unwrap();
        // Erase everything else.
        let frames = frames_of(&pack);
        bytes[..frames.start].fill(0);
        bytes[frames.end..].fill(0);
        let (whole, rebuilt) = read_damaged(&sample, bytes, written.id);
        prop_assert!(!whole);
        let expected: Vec<_> = sample.items.iter().map(|item| item.id).collect();
        prop_assert_eq!(ids_in(&rebuilt), expected);
        prop_assert_eq!(rebuilt.tombstones().collect::<Vec<_>>(), sample.gone);
    }

    #[test]
    fn damage_anywhere_is_an_error_and_the_rest_stays(
        sample in sample(),
        changes in prop::collection::vec((any::<prop::sample::Index>(), any::<u8>()), 1..4),
    ) {
        prop_assume!(!sample.items.is_empty());
        let dir = tempfile::tempdir().unwrap();
        let written = sample.write(dir.path(), Tier::Hot).unwrap();
        let mut bytes = std::fs::read(dir.path().join(written.id.file_name())).unwrap();
        for (at, byte) in changes {
            *at.get_mut(&mut bytes) ^= byte;
        }
        let file = file(bytes.clone());
        if RecoveredObjects::read_frames(&file, written.id, STORE, &BlockCache::new(0)).is_ok() {
            read_damaged(&sample, bytes, written.id);
        }
    }
}

/// Builds a pack of one crafted block of nodes, with valid checksums.
pub(super) fn crafted(
    raw: &[u8],
    objects: u32,
    claim: impl Fn(&mut BlockInfo),
) -> (Vec<u8>, PackId) {
    let stored =
        compress_block(raw, &[], Effort { level: 3, long_distance: false, table_log: None })
            .unwrap();
    let mut block = BlockInfo {
        kind: BlockKind::Objects(Kind::Node),
        first: 0,
        objects,
        base: None,
        raw_bytes: raw.len().try_into().unwrap(),
        stored_bytes: stored.len().try_into().unwrap(),
        offset: 0,
    };
    claim(&mut block);
    let column: Vec<u8> =
        (0..objects).flat_map(|n| *ObjectId::of(Kind::Tag, &n.to_le_bytes()).as_bytes()).collect();
    let ids = IdIndex::build(column.into()).unwrap();
    let (column, slots_bytes, slots) = ids.stored();
    let front = [&column[..], slots_bytes].concat();
    let info =
        IdsInfo { objects: block.objects, gone: 0, slots, checksum: ids_checksum([&front[..]]) };
    block.offset = info.end().unwrap() as u64;
    let (mut bytes, header) =
        PackHeader { tier: Tier::Hot, store: STORE, salt: SALT, ids: info }.encode();
    bytes.extend_from_slice(&front);
    let frame = FrameHeader { number: 0, block, stored: stored_checksum(&stored) };
    let (frame, frame_checksum) = frame.encode(&SALT);
    bytes.extend_from_slice(&frame);
    bytes.extend_from_slice(&stored);
    let table_offset = bytes.len() as u64;
    let table = layout::encode_table(&[block]);
    let footer = Footer {
        ids: info,
        parts: 0,
        blocks: 1,
        salt: SALT,
        table_offset,
        table: table_checksum(&table),
        header,
        frames: frames_checksum().update(&frame_checksum).finish(),
    };
    let (footer, id) = footer.encode();
    ([bytes, table, footer].concat(), id)
}

/// Returns a block of one entry.
fn entry(form: Form, body: &[u8], raw_bytes: u64) -> Vec<u8> {
    let mut raw = Vec::new();
    push_varint(&mut raw, (body.len() as u64) << 2 | form as u64);
    if form != Form::Verbatim {
        push_varint(&mut raw, raw_bytes);
    }
    raw.extend_from_slice(body);
    raw
}

#[test]
fn crafted_entries_are_refused() {
    let cycle = [1, 0, 0]; // One link, to itself.
    let cases = [
        ("a body beyond the block", vec![200 << 2 & 0x7f | 0x80, 6]),
        ("bytes behind the bodies", vec![0, 1, 2, 3]),
        ("a number without an end", vec![0xff; 20]),
        ("an unknown form", vec![3]),
        ("parts in a node", entry(Form::Parts, &[0], 4)),
        ("an object over the limit", entry(Form::Links, &cycle, u64::from(u32::MAX))),
        ("a length beyond 32 bits", entry(Form::Links, &cycle, 1 << 40)),
        ("more links than there are", entry(Form::Links, &[9, 0, 0], 32)),
        ("an ordinal that is none", entry(Form::Links, &[1, 0, 40], 32)),
        ("an ordinal below zero", entry(Form::Links, &[1, 0, 1], 32)),
        ("a literal beyond the body", entry(Form::Links, &[1, 90, 0], 32)),
        ("another size than it has", entry(Form::Links, &cycle, 33)),
        ("a size of nothing", entry(Form::Links, &cycle, 0)),
    ];
    for (what, raw) in cases {
        let (bytes, id) = crafted(&raw, 1, |_| {});
        let pack = Pack::open(&file(bytes.clone()), id, STORE).expect(what);
        let cache = BlockCache::new(1 << 20);
        assert!(pack.read(0, &cache).is_err(), "{what}");
        let rebuilt = RecoveredObjects::read_frames(&file(bytes), id, STORE, &cache).unwrap();
        assert_eq!((rebuilt.objects().count(), rebuilt.findings().len()), (0, 1), "{what}");
    }
    // An object that links to itself is readable but does not match its id. Without the ids it has
    // none.
    let (mut bytes, id) = crafted(&entry(Form::Links, &cycle, 32), 1, |_| {});
    let pack = Pack::open(&file(bytes.clone()), id, STORE).unwrap();
    let cache = BlockCache::new(1 << 20);
    let object = pack.read(0, &cache).unwrap();
    assert!(verify(Kind::Node, &object, &pack.id_at(0).unwrap()).is_err());
    bytes[HEADER_BYTES] ^= 1;
    let rebuilt = RecoveredObjects::read_frames(&file(bytes), id, STORE, &cache).unwrap();
    assert_eq!((rebuilt.objects().count(), rebuilt.findings().len()), (0, 2));
}

#[test]
fn crafted_blocks_are_refused() {
    let raw = entry(Form::Verbatim, b"good", 4);
    let (bytes, id) = crafted(&raw, 1, |_| {});
    assert!(Pack::open(&file(bytes), id, STORE).unwrap().read(0, &BlockCache::new(0)).is_ok());
    type Claim = fn(&mut BlockInfo);
    let claims: [(&str, Claim); 7] = [
        ("a base that is not there", |block| block.base = Some(0)),
        ("no objects", |block| block.objects = 0),
        ("more objects than ids", |block| block.objects = 2),
        ("more bytes than a block may have", |block| block.raw_bytes = (16 << 20) + 1),
        ("another size than the frame", |block| block.raw_bytes += 1),
        ("no stored bytes", |block| block.stored_bytes = 0),
        ("more stored bytes than there are", |block| block.stored_bytes = u32::MAX),
    ];
    for (what, claim) in claims {
        let (bytes, id) = crafted(&raw, 1, claim);
        let cache = BlockCache::new(1 << 20);
        let file = file(bytes);
        let read = Pack::open(&file, id, STORE).and_then(|pack| pack.read(0, &cache));
        assert!(read.is_err(), "{what}");
        let rebuilt = RecoveredObjects::read_frames(&file, id, STORE, &cache).unwrap();
        assert_eq!(rebuilt.objects().count(), 0, "{what}");
    }
}

#[test]
fn a_payload_that_looks_like_a_frame_is_none() {
    let (_, inner, _) = small(false);
    let mut sample = Sample::default();
    sample.push(Kind::Blob, [noise(5, 4000), inner].concat(), 0);
    let dir = tempfile::tempdir().unwrap();
    let salt = [1; 16];
    let (items, source) = (&sample.items, &sample.objects);
    let draft = PackDraft {
        store: STORE,
        salt,
        tier: Tier::Hot,
        lists_ids: true,
        items,
        gone: &[],
        source,
    };
    let written = draft.write(&crate::store::RealIo, dir.path()).unwrap();
    let mut bytes = std::fs::read(dir.path().join(written.id.file_name())).unwrap();
    // Damage the blob's own frame, so that the search scans the payload.
    let frames = frames_of(&open(dir.path(), written.id).unwrap());
    bytes[frames.start + FRAME_HEADER_BYTES + 100] ^= 1;
    let cache = BlockCache::new(0);
    let rebuilt = RecoveredObjects::read_frames(&file(bytes), written.id, STORE, &cache).unwrap();
    assert_eq!(rebuilt.objects().count(), 0);
    assert!(!rebuilt.findings().is_empty());
}

#[test]
fn a_pack_of_another_store_or_name_is_refused() {
    let (_, bytes, id) = small(true);
    let file = file(bytes);
    assert!(Pack::open(&file, id, STORE).is_ok());
    assert!(Pack::open(&file, id, StoreId([1; 16])).is_err());
    assert!(Pack::open(&file, PackId([1; 32]), STORE).is_err());
    let cache = BlockCache::new(0);
    assert!(RecoveredObjects::read_frames(&file, id, StoreId([1; 16]), &cache).is_err());
    assert_eq!(PackId::from_file_name(&id.file_name()), Some(id));
    assert_eq!(PackId::from_file_name(&id.file_name().to_uppercase()), None);
}
