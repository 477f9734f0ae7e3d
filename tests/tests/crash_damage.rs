//! Bytes that others changed: a store never panics, and never returns wrong ones.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use bytes::Bytes;
use turntree::object::{ObjectId, ObjectSource};
use turntree::store::{FindingKind, Io, Store};
use turntree_tests::oracle::{DIR, Promise, Script, options};
use turntree_tests::sim::SimDisk;

/// A small store with a manifest, a sealed segment and active ones.
fn small_store() -> (SimDisk, Promise) {
    let disk = SimDisk::new(Path::new("/disk"));
    let io: Arc<dyn Io> = Arc::new(disk.clone());
    let script = Script { phases: vec![6, 1], commits: 1, seed: 4, ..Script::default() };
    let promise = script.run(&io, Path::new(DIR));
    assert!(promise.errors.is_empty());
    (disk, promise)
}

/// Opens and reads everything; wrong bytes end the test, errors do not. Returns what was readable.
fn read_everything(disk: &SimDisk, promise: &Promise) -> Option<(usize, Store)> {
    let store = Store::open(Arc::new(disk.clone()), Path::new(DIR), options(9)).ok()?;
    let objects: BTreeMap<ObjectId, Bytes> =
        promise.attempts.iter().flat_map(|attempt| attempt.objects.clone()).collect();
    let readable = objects.iter().filter(|(id, bytes)| match store.read(id) {
        Ok(Some(object)) => {
            assert_eq!(object.bytes, **bytes, "wrong bytes for {id}");
            true
        }
        Ok(None) | Err(_) => false,
    });
    let count = readable.count();
    Some((count, store))
}

/// Every file with how much of it is in use: zeros at the end are all the same.
fn files(disk: &SimDisk) -> Vec<(PathBuf, Vec<u8>, usize)> {
    let used = |bytes: &Vec<u8>| bytes.iter().rposition(|byte| *byte != 0).map_or(0, |at| at + 1);
    let files = disk.files().into_iter();
    files
        .map(|(path, bytes)| {
            let used = used(&bytes);
            (path, bytes, used)
        })
        .collect()
}

#[test]
fn any_flipped_byte_is_noticed_or_harmless() {
    let (disk, promise) = small_store();
    let (all, store) = read_everything(&disk, &promise).unwrap();
    let newest = store.refs();
    for (path, bytes, used) in files(&disk) {
        for at in 0..(used + 64).min(bytes.len()) {
            let mut damaged = bytes.clone();
            damaged[at] ^= 0x41;
            disk.damage(&path, damaged);
            let Some((readable, store)) = read_everything(&disk, &promise) else {
                assert!(path.ends_with("superblock"), "only a superblock keeps a store closed");
                continue;
            };
            assert!(readable + 4 >= all, "{path:?} at {at}: one batch at most is lost");
            let behind = store.refs().sequence < newest.sequence;
            assert!(!behind || !store.findings().is_empty(), "{path:?} at {at}: refs went back");
        }
        disk.damage(&path, bytes);
    }
}

#[test]
fn a_file_cut_at_any_length_never_gives_wrong_bytes() {
    let (disk, promise) = small_store();
    for (path, bytes, used) in files(&disk) {
        for len in (0..used).step_by(3) {
            disk.damage(&path, bytes[..len].to_vec());
            read_everything(&disk, &promise);
        }
        disk.damage(&path, bytes);
    }
}

#[test]
fn damage_in_front_of_a_good_batch_is_reported_and_the_rest_is_read() {
    let disk = SimDisk::new(Path::new("/disk"));
    let io: Arc<dyn Io> = Arc::new(disk.clone());
    let promise = Script { phases: vec![1], commits: 5, seed: 4, ..Script::default() }
        .run(&io, Path::new(DIR));
    let (all, before) = read_everything(&disk, &promise).unwrap();
    let (path, bytes, used) = files(&disk)
        .into_iter()
        .find(|(path, ..)| path.extension().is_some_and(|extension| extension == "seg"))
        .unwrap();
    // The second batch, its header and directory included.
    let mut damaged = bytes.clone();
    let magic = &bytes[80..88];
    let second = (88..used).step_by(8).find(|at| bytes[*at..].starts_with(magic)).unwrap();
    damaged[second..second + 64].fill(0);
    disk.damage(&path, damaged);
    let (readable, store) = read_everything(&disk, &promise).unwrap();
    assert!(readable < all && readable + 4 >= all);
    assert_eq!(store.refs(), before.refs(), "the refs do not go back");
    let findings = store.findings();
    assert!(findings.iter().any(|finding| finding.kind == FindingKind::Damage), "{findings:?}");
}
