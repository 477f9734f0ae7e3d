//! Fuzzes files of a store: one is replaced by untrusted bytes, the others are good.
//!
//! A checksum keeps random bytes away from the code after it, so the first byte of an input decides
//! whether its checksums are recomputed first. The rest is the file.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::{Arc, OnceLock};

use turntree::object::{Object, ObjectId, ObjectSource, Operation, RefValue};
use turntree::repo::Repository;
use turntree::store::{Durability, Expected, Io, NewStore, OpenOptions, Store};
use turntree_tests::checksums::{mend_manifest, mend_segment, mend_superblock};
use turntree_tests::oracle::{DIR, Script, blob, options, set};
use turntree_tests::sim::{Keep, SimDisk};

/// The first byte of an input whose checksums are recomputed.
pub const MEND: u8 = b'+';

/// Maximum number of operations followed backwards.
const MAX_OPERATIONS: usize = 64;

/// Minimum bytes of a segment.
const SEGMENT_BYTES: usize = 64 << 10;

/// Opens a store whose superblock is `bytes`.
///
/// # Panics
/// If a guarantee of the store is violated.
pub fn superblock(bytes: &[u8]) {
    run(bytes, &sample().superblock, |file| mend_superblock(file));
}

/// Opens a store whose manifest is `bytes`.
///
/// # Panics
/// If a guarantee of the store is violated.
pub fn manifest(bytes: &[u8]) {
    run(bytes, &sample().manifest, |file| mend_manifest(file));
}

/// Opens a store in which an active segment is `bytes`.
///
/// # Panics
/// If a guarantee of the store is violated.
pub fn active_segment(bytes: &[u8]) {
    run(bytes, &sample().active, |file| {
        // No segment with a record is shorter.
        file.resize(file.len().max(SEGMENT_BYTES), 0);
        mend_segment(file);
    });
}

/// Opens a store in which a sealed segment is `bytes`.
///
/// # Panics
/// If a guarantee of the store is violated.
pub fn sealed_segment(bytes: &[u8]) {
    run(bytes, &sample().sealed, |file| mend_segment(file));
}

/// A good store with every kind of file in it.
#[derive(Debug)]
pub struct Sample {
    disk: SimDisk,
    known: Vec<ObjectId>,
    /// The path of its superblock.
    pub superblock: PathBuf,
    /// The path of its manifest.
    pub manifest: PathBuf,
    /// The path of a segment that the manifest does not list.
    pub active: PathBuf,
    /// The path of a segment that the manifest lists.
    pub sealed: PathBuf,
}

impl Sample {
    /// Returns the bytes of a file, without preallocated zeros.
    #[must_use]
    pub fn file(&self, path: &Path) -> Vec<u8> {
        let bytes = &self.disk.files()[path];
        let used = bytes.iter().rposition(|byte| *byte != 0).map_or(0, |last| last + 1);
        bytes[..used].to_vec()
    }
}

/// Returns the store that the targets change.
#[must_use]
pub fn sample() -> &'static Sample {
    static SAMPLE: OnceLock<Sample> = OnceLock::new();
    SAMPLE.get_or_init(|| {
        let disk = SimDisk::new(Path::new("/disk"));
        let io: Arc<dyn Io> = Arc::new(disk.clone());
        // More writers than segments may stay idle, so some segments are sealed and listed in a
        // manifest.
        let script = Script { phases: vec![12, 1, 2], commits: 1, seed: 3, packs: false };
        let promise = script.run(&io, Path::new(DIR));
        assert_eq!(promise.errors, Vec::<String>::new());
        let mut known: Vec<_> =
            promise.attempts.iter().flat_map(|attempt| &attempt.objects).map(|o| o.0).collect();
        known.extend(promise.attempts.iter().filter_map(|a| Some(a.acknowledged?.operation)));

        let files = disk.files();
        let holds = |path: &Path, id: &[u8]| files[path].windows(id.len()).any(|part| part == id);
        let named = |name: &str| {
            let mut found =
                files.keys().filter(|p| p.file_name().unwrap().to_str().unwrap().starts_with(name));
            found.next_back().unwrap_or_else(|| panic!("the sample has no {name}")).clone()
        };
        let manifest = named("manifest-");
        let segments: Vec<&PathBuf> =
            files.keys().filter(|p| p.extension().is_some_and(|e| e == "seg")).collect();
        let listed = |path: &&&PathBuf| {
            let header = files[**path].get(16..32).unwrap();
            holds(&manifest, header)
        };
        let active = (*segments.iter().find(|path| !listed(path)).unwrap()).clone();
        let sealed = (*segments.iter().find(|path| listed(path)).unwrap()).clone();
        Sample { disk, known, superblock: named("superblock"), manifest, active, sealed }
    })
}

/// Creates an empty repository on a simulated disk.
pub(crate) fn new_repository() -> (SimDisk, Repository) {
    let disk = SimDisk::new(Path::new("/disk"));
    let options = OpenOptions { durability: Durability::None, ..options(1) };
    let io = Arc::new(disk.clone());
    let new = NewStore { id: [7; 16] };
    let repo = Repository::init(io, Path::new(DIR), &new, options).unwrap();
    (disk, repo)
}

/// Replaces `path` by the file in `input`, and checks the invariants of any store: opening writes
/// nothing, objects match their ids, and acknowledged commits exist.
fn run(input: &[u8], path: &Path, mend: impl Fn(&mut Vec<u8>)) {
    let Some((first, file)) = input.split_first() else { return };
    let mut file = file.to_vec();
    if *first == MEND {
        mend(&mut file);
    }
    let disk = sample().disk.crash(Keep::All);
    disk.damage(path, file);
    let before = disk.files();
    let io: Arc<dyn Io> = Arc::new(disk.clone());
    let opened = Store::open(Arc::clone(&io), Path::new(DIR), options(1 << 32));
    assert!(disk.files() == before, "opening wrote something");
    let Ok(store) = opened else { return };
    read_everything(&store);
    let _ = (store.summary(), store.refresh());

    let (id, object) = blob(b"the commit after".to_vec());
    let Ok(committed) = store.commit(vec![(id, object)], &set("after", Expected::Any, id)) else {
        return;
    };
    assert_committed(&store, &committed.operation, &id);
    drop(store);
    let again = Store::open(io, Path::new(DIR), options(2 << 32)).unwrap();
    read_everything(&again);
    assert_committed(&again, &committed.operation, &id);
}

fn assert_committed(store: &Store, operation: &ObjectId, id: &ObjectId) {
    assert_eq!(store.refs().value("after"), Some(&RefValue::Object(*id)), "a commit is lost");
    for id in [operation, id] {
        assert!(matches!(store.read(id), Ok(Some(_))), "an object of a commit is lost");
    }
}

fn read_everything(store: &Store) {
    let refs = store.refs();
    let mut found = BTreeMap::new();
    let named = refs.values.values().filter_map(|value| match value {
        RefValue::Object(id) => Some(id),
        RefValue::Symbolic(_) => None,
    });
    for id in sample().known.iter().chain(named) {
        if let Some(object) = read(store, id) {
            found.insert(*id, object);
        }
        let listed = store.find(&id.to_string().parse().unwrap(), 2);
        assert!(listed.len() <= 1 && listed.iter().all(|(found, _)| found == id));
        assert!(found.contains_key(id) <= !listed.is_empty(), "an object is read and not listed");
    }
    let mut next = refs.operation;
    for _ in 0..MAX_OPERATIONS {
        let Some(object) = next.and_then(|id| read(store, &id)) else { break };
        let operation = Operation::decode(&object.bytes);
        next = operation.ok().and_then(|operation| operation.parents.first().copied());
    }
}

fn read(store: &Store, id: &ObjectId) -> Option<Object> {
    let object = store.read(id).ok()??;
    assert_eq!(ObjectId::of(object.kind, &object.bytes), *id, "an object that is not its id's");
    Some(object)
}
