//! A commit needs one sync, even if another process wrote to the segment before: the mark after the
//! durable bytes.

use std::fs;
use std::path::PathBuf;
use std::sync::Arc;

use turntree::object::RefValue;
use turntree::store::{
    Durability, Expected, FindingKind, Io, NewStore, OpenOptions, Store, StoreKey,
};
use turntree_tests::counting::{Calls, CountingIo};
use turntree_tests::oracle::{KEY, blob, options, set};

const REF: &str = "refs/heads/s/main";
const MARK: &[u8] = b"synced\0\0";

/// A store in a folder. The calls of all its handles are counted together.
struct Counted {
    folder: tempfile::TempDir,
    io: CountingIo,
    handles: u64,
}

impl Counted {
    fn new(key: Option<StoreKey>) -> Self {
        let (folder, io) = (tempfile::tempdir().unwrap(), CountingIo::default());
        let mut counted = Self { folder, io, handles: 0 };
        Store::create(&counted.io, &counted.dir(), &NewStore { id: [7; 16] }).unwrap();
        if let Some(key) = key {
            counted.open(Durability::Full).change_encryption(Some(key), [9; 16]).unwrap();
        }
        counted
    }

    fn dir(&self) -> PathBuf {
        self.folder.path().join("store")
    }

    fn open(&mut self, durability: Durability) -> Store {
        self.handles += 1;
        let io: Arc<dyn Io> = Arc::new(self.io.clone());
        let options = OpenOptions { durability, ..options(self.handles) };
        Store::open(io, &self.dir(), options).unwrap()
    }

    /// The calls of one commit.
    fn commit(&self, store: &Store) -> Calls {
        let before = self.io.calls();
        let (id, object) = blob(format!("blob {}", store.refs().sequence).into_bytes());
        store.commit(vec![(id, object)], &set(REF, Expected::Any, id)).unwrap();
        assert_eq!(store.refs().value(REF), Some(&RefValue::Object(id)));
        self.io.calls() - before
    }

    /// The calls of a commit by a new handle that is then closed.
    fn one_shot(&mut self, durability: Durability) -> Calls {
        let store = self.open(durability);
        self.commit(&store)
    }

    fn segments(&self) -> Vec<PathBuf> {
        let entries = fs::read_dir(self.dir().join("journal")).unwrap();
        entries.map(|entry| entry.unwrap().path()).collect()
    }
}

/// A commit with one sync: it writes its batch and its mark.
const ONE_SYNC: Calls = Calls { writes: 2, syncs: 1, directory_syncs: 0, names: 0 };

fn end_of(segment: &[u8]) -> usize {
    segment.iter().rposition(|byte| *byte != 0).unwrap() + 1
}

#[test]
fn every_new_handle_commits_with_one_sync() {
    for key in [None, Some(KEY)] {
        let mut counted = Counted::new(key);
        counted.one_shot(Durability::Full);
        for _ in 0..3 {
            assert_eq!(counted.one_shot(Durability::Full), ONE_SYNC, "{key:?}");
        }
    }
}

#[test]
fn concurrent_handles_do_not_sync_for_each_other() {
    let mut counted = Counted::new(None);
    let stores: Vec<Store> = (0..3).map(|_| counted.open(Durability::Full)).collect();
    for store in &stores {
        counted.commit(store);
    }
    for store in stores.iter().cycle().take(6) {
        assert_eq!(counted.commit(store), ONE_SYNC);
    }
    drop(stores);
    assert_eq!(counted.segments().len(), 3);
    assert_eq!(counted.one_shot(Durability::Full), ONE_SYNC);
}

#[test]
fn unsynced_batches_are_synced_by_the_next_handle() {
    let mut counted = Counted::new(None);
    counted.one_shot(Durability::Full);
    let unsynced = Calls { writes: 1, ..Calls::default() };
    assert_eq!(counted.one_shot(Durability::None), unsynced, "no mark without a sync");
    assert_eq!(counted.one_shot(Durability::Full), Calls { syncs: 2, ..ONE_SYNC });
    assert_eq!(counted.one_shot(Durability::Full), ONE_SYNC);
}

/// A store with two commits, whose last segment is changed. Returns its path.
fn changed(change: impl FnOnce(&mut Vec<u8>, usize)) -> (Counted, PathBuf) {
    let mut counted = Counted::new(None);
    let store = counted.open(Durability::Full);
    counted.commit(&store);
    counted.commit(&store);
    drop(store);
    let path = counted.segments().pop().unwrap();
    let mut segment = fs::read(&path).unwrap();
    let end = end_of(&segment) + 2;
    assert_eq!(&segment[end - 8..end], MARK);
    change(&mut segment, end - 8);
    fs::write(&path, segment).unwrap();
    (counted, path)
}

/// The findings of a store, and the number of its newest operation.
fn found(counted: &mut Counted) -> (Vec<FindingKind>, u64) {
    let store = counted.open(Durability::Full);
    (store.findings().iter().map(|finding| finding.kind).collect(), store.refs().sequence)
}

#[test]
fn changed_durable_last_batches_are_damage_and_not_torn() {
    // In the trailer, which no other checksum covers.
    let (mut counted, _) = changed(|segment, mark| segment[mark - 1] ^= 1);
    assert_eq!(found(&mut counted), (vec![FindingKind::Damage], 1));
    // Without the mark, the change looks like a torn tail.
    let (mut counted, _) = changed(|segment, mark| {
        segment[mark - 1] ^= 1;
        segment[mark..mark + 8].fill(0);
    });
    assert_eq!(found(&mut counted), (vec![FindingKind::TornTail], 1));
}

#[test]
fn lost_marks_cost_a_sync_and_torn_marks_a_new_segment() {
    let (mut counted, _) = changed(|segment, mark| segment[mark..mark + 8].fill(0));
    assert_eq!(found(&mut counted), (vec![], 2));
    assert_eq!(counted.one_shot(Durability::Full), Calls { syncs: 2, ..ONE_SYNC });
    for torn in 0..8 {
        let (mut counted, path) = changed(|segment, mark| segment[mark + torn] ^= 0x80);
        assert_eq!(found(&mut counted), (vec![FindingKind::TornTail], 2), "byte {torn}");
        let before = fs::read(&path).unwrap();
        counted.one_shot(Durability::Full);
        assert!(fs::read(&path).unwrap() == before, "no process writes there");
        assert_eq!(found(&mut counted).1, 3);
    }
}

#[test]
fn marks_followed_by_data_are_ignored() {
    let (mut counted, path) = changed(|segment, mark| segment[mark + 500] = 1);
    assert_eq!(found(&mut counted), (vec![FindingKind::TornTail], 2));
    let before = fs::read(&path).unwrap();
    counted.one_shot(Durability::Full);
    assert!(fs::read(&path).unwrap() == before, "no process writes there");
}

#[test]
fn marks_without_a_preceding_batch_are_ignored() {
    let (mut counted, path) = changed(|segment, _| {
        segment[80..].fill(0);
        segment[80..88].copy_from_slice(MARK);
    });
    assert_eq!(found(&mut counted), (vec![FindingKind::TornTail], 0));
    counted.one_shot(Durability::Full);
    assert_eq!(&fs::read(&path).unwrap()[80..88], MARK);
}
