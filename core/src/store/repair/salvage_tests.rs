//! Tests the cost of a repair: each block is decompressed once for all of its objects, in whatever
//! order their ids are.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use bytes::Bytes;

use crate::object::{Kind, Object, ObjectId};
use crate::store::{
    FileReplacement, NewStore, OpenOptions, PACKS_DIR, PackItem, RealIo, Store, Thoroughness, Tier,
};

const OBJECTS: u64 = 1000;
const OBJECT_BYTES: usize = 4096;

fn open(dir: &Path, seed: u8) -> Store {
    Store::open(Arc::new(RealIo), dir, OpenOptions::new([seed; 16])).unwrap()
}

/// Returns bytes that do not compress and resemble no others.
fn noise(seed: u64) -> Bytes {
    let mut state = seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1;
    let next = || {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        state.to_le_bytes()
    };
    std::iter::repeat_with(next).take(OBJECT_BYTES / 8).flatten().collect()
}

/// Creates a store with one pack, in which the order of objects differs from that of their ids.
fn packed(dir: &Path) -> PathBuf {
    Store::create(&RealIo, dir, &NewStore { id: [1; 16] }).unwrap();
    let objects: Vec<(ObjectId, Object)> = (0..OBJECTS)
        .map(|seed| {
            let bytes = noise(seed);
            (ObjectId::of(Kind::Blob, &bytes), Object { kind: Kind::Blob, bytes })
        })
        .collect();
    open(dir, 2).append(objects.clone()).unwrap();
    let store = open(dir, 3);
    let collection = store.collect().unwrap();
    let files = (0..collection.inventory().files().len()).collect();
    let items = objects.iter().map(|(id, _)| PackItem {
        id: *id,
        kind: Kind::Blob,
        placement: 0,
        cohort: 0,
    });
    let items = items.collect();
    let replacement = FileReplacement { files, items, gone: Vec::new(), tier: Tier::Hot };
    collection.replace(&replacement, &mut |_| Ok(Vec::new())).unwrap();
    let mut packs = fs::read_dir(dir.join(PACKS_DIR)).unwrap();
    packs.next().unwrap().unwrap().path()
}

#[test]
fn a_repair_unpacks_each_block_once_to_look_and_once_to_write() {
    let folder = tempfile::tempdir().unwrap();
    let dir = folder.path().join("store");
    let pack = packed(&dir);
    let mut bytes = fs::read(&pack).unwrap();
    let middle = bytes.len() / 2;
    bytes[middle] ^= 1;
    fs::write(&pack, bytes).unwrap();

    let store = open(&dir, 4);
    let repair = store.begin_repair(&mut |_, _| {}).unwrap();
    let salvage = repair.salvage(&BTreeMap::new()).unwrap();
    let file = salvage.files.first().unwrap();
    assert_eq!(file.saved + file.damaged, OBJECTS);
    assert!((1..OBJECTS / 10).contains(&file.damaged), "{file:?}");
    let blocks = OBJECTS * OBJECT_BYTES as u64 / (128 << 10) + 2;
    let looked = salvage.decoded_blocks();
    assert!(looked <= blocks, "{looked} blocks were unpacked of {blocks}");
    repair.apply(&salvage, &[]).unwrap();
    let written = salvage.decoded_blocks() - looked;
    assert!(written <= blocks, "{written} blocks were unpacked of {blocks}");

    let examination = store.examine(Thoroughness::Full, &mut |_, _| {}).unwrap();
    assert_eq!(examination.findings.iter().filter(|f| f.place.contains("packs/")).count(), 0);
}
