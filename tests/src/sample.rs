//! A small store with some of everything, on a simulated disk: two packs, sealed and active segments,
//! expired turns, a tag, a pin and a fork.

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Arc;

use bytes::Bytes;
use turntree::context::{Builder, FileMode};
use turntree::maintenance::{Policy, Purpose, Scope, collect, set_policy};
use turntree::object::{ObjectId, ObjectSource};
use turntree::repo::{BranchName, NewPin, Repository, Snapshot};
use turntree::store::{NewStore, OpenOptions, RefTable, Store, Thoroughness, Tier};

use crate::oracle::{DIR, pack};
use crate::sim::{Keep, Random, SimDisk};
use crate::stamp;

/// A store, and what is in it.
pub struct Sample {
    /// The disk it is on, which nobody has open.
    pub disk: SimDisk,
    /// Every object that was there.
    pub objects: BTreeMap<ObjectId, Bytes>,
    /// The refs.
    pub refs: RefTable,
}

impl Sample {
    /// Makes it.
    ///
    /// # Panics
    /// When the library fails.
    #[must_use]
    pub fn new() -> Self {
        let disk = SimDisk::new(Path::new("/disk"));
        let new = NewStore { id: [6; 16] };
        let io = Arc::new(disk.clone());
        let repo = Repository::init(io, Path::new(DIR), &new, OpenOptions::new([1; 16])).unwrap();
        for second in 1..=6 {
            turn(&repo, "one", second);
        }
        let mut change = repo.begin();
        let second = repo.resolve("one~4").unwrap().commit;
        change.pin(&second, NewPin::default(), &stamp(7)).unwrap();
        change.move_branch(&BranchName::new("one", "fork").unwrap(), Some(second));
        let policy = Policy { keep_last: Some(2), ..Policy::default() };
        set_policy(&mut change, Scope::Session("one"), &policy).unwrap();
        change.finish(&stamp(7), "pin, fork and policy").unwrap();
        // More operations than are kept whole, so that turns can expire.
        for second in 8..=30 {
            turn(&repo, "two", second);
        }
        drop(repo);
        let gc = |purpose| collect(&open(&disk, 2), purpose, &stamp(60), &mut |_| {}).unwrap();
        gc(Purpose::Gc);
        gc(Purpose::Repack(Tier::Compacted));
        turn(&open(&disk, 31), "two", 31);
        pack(open(&disk, 2).store(), |file| file.tier.is_none()).unwrap();
        let writers: Vec<Repository> = (32..=42).map(|seed| open(&disk, seed)).collect();
        for (writer, second) in writers.iter().zip(32..) {
            turn(writer, "two", second);
        }
        drop(writers);
        for second in 43..=46 {
            turn(&open(&disk, second), "one", second.into());
        }
        let disk = disk.crash(Keep::All);
        let store = open(&disk, 50);
        let objects = objects(store.store());
        let refs = (*store.refs()).clone();
        Self { disk, objects, refs }
    }

    /// The same store on a disk of its own.
    #[must_use]
    pub fn copy(&self) -> SimDisk {
        self.disk.crash(Keep::All)
    }

    /// What of it cannot be read any more.
    ///
    /// # Panics
    /// When wrong bytes are given for an object.
    #[must_use]
    pub fn missing(&self, store: &Store) -> Vec<ObjectId> {
        let missing = self.objects.iter().filter(|(id, bytes)| match store.read(id) {
            Ok(Some(object)) => {
                assert_eq!(object.bytes, **bytes, "wrong bytes for {id}");
                false
            }
            Ok(None) | Err(_) => true,
        });
        missing.map(|(id, _)| *id).collect()
    }
}

impl Default for Sample {
    fn default() -> Self {
        Self::new()
    }
}

/// Opens the store on `disk`.
///
/// # Panics
/// When it does not open.
#[must_use]
pub fn open(disk: &SimDisk, seed: u8) -> Repository {
    try_open(disk, seed).expect("the store opens")
}

/// Opens the store on `disk`, which may be damaged.
///
/// # Errors
/// What opening reports.
pub fn try_open(disk: &SimDisk, seed: u8) -> turntree::Result<Repository> {
    let io = Arc::new(disk.clone());
    Repository::open(io, Path::new(DIR), OpenOptions::new([seed; 16]))
}

/// One more turn of a session: something new in every section, and a part of what was there.
fn turn(repo: &Repository, session: &str, second: i64) {
    let mut random = Random(second.unsigned_abs() << 8);
    repo.store().refresh().unwrap();
    let branch = BranchName::main(session).unwrap();
    let mut change = repo.begin();
    let mut builder = match change.tip(&branch) {
        Some(tip) => Builder::from(repo.context(&tip).unwrap()),
        None => Builder::new(),
    };
    for key in 0..10 {
        if second % 3 == key % 3 || change.tip(&branch).is_none() {
            let value = format!("{session} {key} {second}").into();
            builder.set_entry(&mut change, "scratchpad", &format!("{key}"), Some(value)).unwrap();
        }
    }
    let noise = (0..40).map(|_| random.draw().to_string()).collect::<Vec<_>>();
    let lines = noise.join("\n");
    let file = Some((FileMode::Regular, lines.into()));
    builder.set_file(&mut change, &format!("{}.txt", second % 4), file).unwrap();
    let tree = builder.write(&mut change).unwrap();
    let stamp = stamp(second);
    change.snapshot(&branch, Snapshot::new(tree, format!("turn {second}"), &stamp)).unwrap();
    change.finish(&stamp, "snapshot").unwrap();
}

/// Everything in a store that is whole.
fn objects(store: &Store) -> BTreeMap<ObjectId, Bytes> {
    let examined = store.examine(Thoroughness::Full, &mut |_, _| {}).unwrap();
    let entries = (0..examined.inventory.positions()).filter_map(|at| examined.inventory.entry(at));
    entries.map(|entry| (entry.id, store.read_as(entry.kind, &entry.id).unwrap())).collect()
}
