//! What a store promises, and whether a disk keeps the promise.
//!
//! A [`Script`] is a deterministic run of commits by several writers. It notes what was tried and
//! what was acknowledged; [`Promise::check`] then opens a disk, usually one that has crashed or
//! failed on the way, and asserts:
//!
//! 1. every acknowledged commit is there, with all its objects;
//! 2. every other one is there wholly or not at all;
//! 3. every ref is at its last acknowledged value or a later one that was tried;
//! 4. nothing is called damage;
//! 5. opening again shows the same;
//! 6. a new commit succeeds, and survives the next crash.

use std::collections::{BTreeMap, HashSet};
use std::path::Path;
use std::sync::Arc;

use bytes::Bytes;
use turntree::object::{Kind, Object, ObjectId, ObjectSource, Operation, RefValue};
use turntree::store::{
    Committed, Expected, FindingKind, Io, NewStore, OpenOptions, OperationDraft, PackItem,
    RefUpdate, Replaced, Replacement, Store, StoredFile, Tier,
};

use crate::sim::{Keep, Random, SimDisk};

/// The directory of the store on a simulated disk.
pub const DIR: &str = "/disk/store";

/// A run: how many writers are open at once, one phase after the other.
#[derive(Debug, Clone, Default)]
pub struct Script {
    /// Writers that are open at the same time, for each phase.
    pub phases: Vec<usize>,
    /// Commits of each writer in its phase.
    pub commits: usize,
    /// Decides what is committed.
    pub seed: u64,
    /// Whether, after every round of commits, one more process packs what it may.
    pub packs: bool,
}

/// One commit that was tried.
#[derive(Debug, Clone)]
pub struct Attempt {
    /// The ref that it sets.
    pub name: String,
    /// What it sets the ref to: the last of its objects.
    pub value: ObjectId,
    /// Its objects; some are shared with other attempts.
    pub objects: Vec<(ObjectId, Bytes)>,
    /// Present when the store acknowledged it.
    pub acknowledged: Option<Committed>,
}

/// What was tried and acknowledged, in order.
#[derive(Debug, Default)]
pub struct Promise {
    /// Whether making the store was acknowledged.
    pub created: bool,
    /// Every commit that was tried.
    pub attempts: Vec<Attempt>,
    /// Errors that were returned, in words.
    pub errors: Vec<String>,
}

/// A blob.
#[must_use]
pub fn blob(bytes: Vec<u8>) -> (ObjectId, Object) {
    (ObjectId::of(Kind::Blob, &bytes), Object { kind: Kind::Blob, bytes: bytes.into() })
}

/// A change of one ref to `value`.
#[must_use]
pub fn set(name: &str, expected: Expected, value: ObjectId) -> OperationDraft {
    let new = Some(RefValue::Object(value));
    OperationDraft {
        time_micros: 1,
        actor: "test".into(),
        reason: "test".into(),
        changes: vec![RefUpdate { name: name.into(), expected, new }],
    }
}

/// Options with a seed of their own.
#[must_use]
pub fn options(seed: u64) -> OpenOptions {
    let mut writer_seed = [0; 16];
    writer_seed[..8].copy_from_slice(&seed.to_le_bytes());
    OpenOptions::new(writer_seed)
}

/// Replaces those of some files that may be replaced by one pack that holds all of them.
///
/// # Errors
/// Those of a collection.
pub fn pack(store: &Store, which: impl Fn(&StoredFile) -> bool) -> turntree::Result<Replaced> {
    let collection = store.collect()?;
    let inventory = collection.inventory();
    let files = inventory.files().iter().enumerate();
    let files: Vec<usize> = files
        .filter(|(_, file)| file.replaceable && which(file))
        .map(|(number, _)| number)
        .collect();
    let entries = (0..inventory.positions()).filter_map(|position| inventory.entry(position));
    let mut seen = HashSet::new();
    let chosen = entries.filter(|entry| files.contains(&entry.file) && seen.insert(entry.id));
    let mut items: Vec<PackItem> =
        chosen.map(|entry| PackItem { id: entry.id, kind: entry.kind, lane: 0 }).collect();
    items.sort_by_key(|item| item.kind);
    let gone = Vec::new();
    let replacement = Replacement { files, items, gone, tier: Tier::Hot };
    // Nothing is dropped, so nothing that arrives can miss anything.
    collection.replace(&replacement, &mut |_| Ok(Vec::new()))
}

impl Script {
    /// Makes a store and runs on a disk that may fail at any moment.
    #[must_use]
    pub fn run(&self, io: &Arc<dyn Io>, dir: &Path) -> Promise {
        let mut promise = Promise::default();
        match Store::create(&**io, dir, &NewStore { id: [5; 16] }) {
            Ok(()) => {
                promise.created = true;
                self.go_on(io, dir, &mut promise);
            }
            Err(error) => promise.errors.push(error.to_string()),
        }
        promise
    }

    /// Runs on a store that is there, and returns the handles of the last phase, still open.
    pub fn go_on(&self, io: &Arc<dyn Io>, dir: &Path, promise: &mut Promise) -> Vec<Store> {
        let mut random = Random(self.seed);
        let mut stores = Vec::new();
        for (phase, writers) in self.phases.iter().enumerate() {
            stores.clear();
            for writer in 0..*writers {
                let seed = (self.seed << 16) + (phase * 100 + writer) as u64;
                match Store::open(Arc::clone(io), dir, options(seed)) {
                    Ok(store) => stores.push(store),
                    Err(error) => promise.errors.push(error.to_string()),
                }
            }
            for _ in 0..self.commits {
                for store in &stores {
                    promise.attempt(store, &mut random);
                }
                if self.packs {
                    let collector = Store::open(Arc::clone(io), dir, options(random.draw()));
                    let packed = collector.and_then(|store| pack(&store, |_| true));
                    promise.errors.extend(packed.err().map(|error| error.to_string()));
                }
            }
        }
        stores
    }
}

impl Promise {
    fn attempt(&mut self, store: &Store, random: &mut Random) {
        let mut objects = Vec::new();
        // Shared: so that writers build on the objects of others.
        objects.push(blob(vec![b's'; 200 + random.below(3)]));
        for _ in 0..=random.below(2) {
            let text = format!("{} {}", self.attempts.len(), random.draw());
            objects.push(blob(text.repeat(1 + random.below(60)).into_bytes()));
        }
        let name = format!("heads/{}", random.below(2));
        let value = objects[objects.len() - 1].0;
        let kept = objects.iter().map(|(id, object)| (*id, object.bytes.clone())).collect();
        let committed = store.commit(objects, &set(&name, Expected::Any, value));
        if let Err(error) = &committed {
            self.errors.push(error.to_string());
        }
        let acknowledged = committed.ok();
        self.attempts.push(Attempt { name, value, objects: kept, acknowledged });
    }

    /// Asserts that `disk` keeps this promise.
    ///
    /// # Panics
    /// When it does not.
    pub fn check(&self, disk: &SimDisk) {
        let io: Arc<dyn Io> = Arc::new(disk.clone());
        let dir = Path::new(DIR);
        let store = match Store::open(Arc::clone(&io), dir, options(1 << 32)) {
            Ok(store) => store,
            Err(error) if self.created => panic!("an acknowledged store does not open: {error}"),
            Err(_) => {
                Store::create(&*io, dir, &NewStore { id: [6; 16] }).unwrap();
                return;
            }
        };
        self.check_store(&store);
        let again = Store::open(Arc::clone(&io), dir, options(2 << 32)).unwrap();
        assert_eq!((store.refs(), store.findings()), (again.refs(), again.findings()));

        let (id, object) = blob(b"the commit after".to_vec());
        let draft = set("after", Expected::Absent, id);
        again.commit(vec![(id, object)], &draft).unwrap();
        drop((store, again));
        let crashed: Arc<dyn Io> = Arc::new(disk.crash(Keep::Nothing));
        let last = Store::open(crashed, dir, options(3 << 32)).unwrap();
        assert_eq!(last.refs().value("after"), Some(&RefValue::Object(id)));
        self.check_store(&last);
    }

    /// Points 1 to 4.
    fn check_store(&self, store: &Store) {
        let damage = store.findings().into_iter().find(|f| f.kind == FindingKind::Damage);
        assert_eq!(damage, None, "nothing was damaged");
        let chain = operations(store);
        for attempt in &self.attempts {
            let Some(committed) = attempt.acknowledged else { continue };
            let operation = chain.get(&committed.operation);
            let operation = operation.unwrap_or_else(|| panic!("lost: {attempt:?}"));
            assert_eq!(operation.sequence, committed.sequence);
            for (id, bytes) in &attempt.objects {
                assert_eq!(store.read_as(Kind::Blob, id).unwrap(), bytes);
            }
        }
        for attempt in &self.attempts {
            let own = attempt.objects.iter().filter(|(_, bytes)| bytes[0] != b's');
            let mut there: Vec<bool> =
                own.map(|(id, _)| store.read(id).unwrap().is_some()).collect();
            there.dedup();
            assert_eq!(there.len(), 1, "half of it: {attempt:?}");
        }
        self.check_refs(store);
    }

    fn check_refs(&self, store: &Store) {
        let mut names: Vec<&str> = self.attempts.iter().map(|a| a.name.as_str()).collect();
        names.dedup();
        for name in names {
            let of_name: Vec<&Attempt> = self.attempts.iter().filter(|a| a.name == name).collect();
            let last = of_name.iter().rposition(|a| a.acknowledged.is_some());
            match store.refs().value(name) {
                None => assert_eq!(last, None, "{name} is gone"),
                Some(value) => {
                    let at = of_name.iter().rposition(|a| RefValue::Object(a.value) == *value);
                    assert!(at.is_some() && at >= last, "{name} went back to {value:?}");
                }
            }
        }
    }
}

/// Every operation from the newest back to the first, without a gap.
fn operations(store: &Store) -> BTreeMap<ObjectId, Operation> {
    let mut chain = BTreeMap::new();
    let refs = store.refs();
    let (mut next, mut sequence) = (refs.operation, refs.sequence);
    while let Some(id) = next {
        let operation = Operation::decode(&store.read_as(Kind::Operation, &id).unwrap()).unwrap();
        assert_eq!(operation.sequence, sequence);
        next = operation.parents.first().copied();
        sequence -= 1;
        chain.insert(id, operation);
    }
    assert_eq!(sequence, 0, "the chain reaches the first operation");
    chain
}
