//! A store with a missing superblock: no process creates a new store over it, and it is restored
//! whole.

use std::path::Path;
use std::sync::Arc;

use turntree::ErrorKind;
use turntree::store::{Io, NewStore, OpenOptions, Store};
use turntree_tests::oracle::{DIR, Script};
use turntree_tests::sample::{Sample, open};
use turntree_tests::sim::SimDisk;

fn without_superblock(disk: &SimDisk) -> SimDisk {
    disk.remove(&Path::new(DIR).join("superblock")).unwrap();
    disk.clone()
}

fn error_of<T>(result: turntree::Result<T>) -> ErrorKind {
    result.map(drop).unwrap_err().kind()
}

#[test]
fn lost_superblocks_are_detected_and_not_recreated_implicitly() {
    let journal = SimDisk::new(Path::new("/disk"));
    let io: Arc<dyn Io> = Arc::new(journal.clone());
    let _ = Script { phases: vec![1], commits: 2, seed: 1, ..Script::default() }
        .run(&io, Path::new(DIR));
    let sample = Sample::new();
    for disk in [journal, sample.copy()] {
        let disk = without_superblock(&disk);
        let (io, dir): (Arc<dyn Io>, _) = (Arc::new(disk.clone()), Path::new(DIR));
        let before = disk.files();
        let opened = Store::open(Arc::clone(&io), dir, OpenOptions::new([1; 16]));
        assert_eq!(error_of(opened), ErrorKind::Corrupt);
        let created = Store::create(&*io, dir, &NewStore { id: [9; 16] });
        assert_eq!(error_of(created), ErrorKind::Corrupt);
        assert!(disk.files() == before, "something was written");
        assert!(Store::has_lost_superblock(&*io, dir).unwrap());
        Store::remake_superblock(&*io, dir, None).unwrap();
        assert!(!Store::has_lost_superblock(&*io, dir).unwrap());
        assert_eq!(error_of(Store::remake_superblock(&*io, dir, None)), ErrorKind::InvalidInput);
    }
}

#[test]
fn recreated_superblocks_restore_the_store() {
    let sample = Sample::new();
    let disk = without_superblock(&sample.copy());
    Store::remake_superblock(&disk, Path::new(DIR), None).unwrap();
    let store = open(&disk, 9);
    assert_eq!(*store.refs(), sample.refs);
    assert_eq!(sample.missing(&store), []);
    let id = |disk: &SimDisk| open(disk, 9).summary().unwrap().id;
    assert_eq!(id(&disk), id(&sample.copy()));
}

#[test]
fn damaged_superblocks_are_quarantined_and_recreated() {
    let sample = Sample::new();
    let disk = sample.copy();
    let path = Path::new(DIR).join("superblock");
    let mut bytes = disk.files()[&path].clone();
    bytes[50] ^= 1;
    disk.damage(&path, bytes.clone());
    Store::remake_superblock(&disk, Path::new(DIR), None).unwrap();
    assert_eq!(disk.files()[&Path::new(DIR).join("quarantine/superblock.0")], bytes);
    assert_eq!(sample.missing(&open(&disk, 9)), []);
}

#[test]
fn superblocks_are_not_recreated_for_files_of_two_stores() {
    let sample = Sample::new();
    let other = SimDisk::new(Path::new("/disk"));
    let io: Arc<dyn Io> = Arc::new(other.clone());
    let _ = Script { phases: vec![1], commits: 1, seed: 1, ..Script::default() }
        .run(&io, Path::new(DIR));
    let disk = without_superblock(&sample.copy());
    let is_segment = |path: &Path| path.extension().is_some_and(|extension| extension == "seg");
    for (path, bytes) in other.files().into_iter().filter(|(path, _)| is_segment(path)) {
        let file = disk.create(&path).unwrap();
        file.write_at(&bytes, 0).unwrap();
    }
    let before = disk.files();
    assert_eq!(error_of(Store::remake_superblock(&disk, Path::new(DIR), None)), ErrorKind::Corrupt);
    assert!(disk.files() == before, "something was written");
}

#[test]
fn directories_without_store_files_can_become_stores() {
    let disk = SimDisk::new(Path::new("/disk"));
    let dir = Path::new(DIR);
    for folder in ["", "journal", "packs"] {
        let _ = disk.create_dir(&dir.join(folder));
    }
    assert!(!Store::has_lost_superblock(&disk, dir).unwrap());
    Store::create(&disk, dir, &NewStore { id: [9; 16] }).unwrap();
}
