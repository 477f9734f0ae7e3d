//! Scripts of raw commits: several writers in each phase, with optional packs.

use std::collections::HashSet;
use std::path::Path;
use std::sync::Arc;

use bytes::Bytes;
use turntree::object::{Kind, Object, ObjectId, RefValue};
use turntree::store::{
    Expected, FileReplacement, InventoryFile, Io, NewStore, OpenOptions, OperationDraft, PackItem,
    RefUpdate, Replaced, Store, StoreCipher, StoreKey, Tier,
};

use super::{Attempt, Promise, Target, Witness};
use crate::sim::Random;

/// A run: the number of concurrent writers in each phase.
#[derive(Debug, Clone, Default)]
pub struct Script {
    /// The number of concurrent writers in each phase.
    pub phases: Vec<usize>,
    /// Commits of each writer in its phase.
    pub commits: usize,
    /// The seed of the commits.
    pub seed: u64,
    /// True if another process packs all that it may after every round of commits.
    pub packs: bool,
}

impl Script {
    /// Creates a store and runs on a disk that may fail at any moment.
    #[must_use]
    pub fn run(&self, io: &Arc<dyn Io>, dir: &Path) -> Promise {
        let witness = Witness::default();
        self.run_before(io, dir, &witness);
        witness.promise()
    }

    /// Runs like [`Script::run`], and reports to a witness.
    pub fn run_before(&self, io: &Arc<dyn Io>, dir: &Path, witness: &Witness) {
        match Store::create(&**io, dir, &NewStore { id: [5; 16] }) {
            Ok(()) => {
                witness.tell(|promise| promise.created = true);
                self.go_on(io, dir, witness);
            }
            Err(error) => witness.tell(|promise| promise.errors.push(error.to_string())),
        }
    }

    /// Runs on an existing store. Returns the handles of the last phase, still open.
    pub fn go_on(&self, io: &Arc<dyn Io>, dir: &Path, witness: &Witness) -> Vec<Store> {
        let mut random = Random(self.seed);
        let mut stores = Vec::new();
        for (phase, writers) in self.phases.iter().enumerate() {
            stores.clear();
            for writer in 0..*writers {
                let seed = (self.seed << 16) + (phase * 100 + writer) as u64;
                match Store::open(Arc::clone(io), dir, options(seed)) {
                    Ok(store) => stores.push(store),
                    Err(error) => witness.tell(|promise| promise.errors.push(error.to_string())),
                }
            }
            for _ in 0..self.commits {
                for store in &stores {
                    attempt(store, &mut random, witness);
                }
                if self.packs {
                    let collector = Store::open(Arc::clone(io), dir, options(random.draw()));
                    let packed = collector.and_then(|store| pack(&store, |_| true));
                    let error = packed.err().map(|error| error.to_string());
                    witness.tell(|promise| promise.errors.extend(error));
                }
            }
        }
        stores
    }
}

/// Commits blobs, one of which other commits share.
fn attempt(store: &Store, random: &mut Random, witness: &Witness) {
    let mut objects = Vec::new();
    // Shared, so that writers build on each other's objects.
    objects.push(blob(vec![b's'; 200 + random.below(3)]));
    let number = witness.promise_len();
    for _ in 0..=random.below(2) {
        let text = format!("{number} {}", random.draw());
        objects.push(blob(text.repeat(1 + random.below(60)).into_bytes()));
    }
    let name = format!("heads/{}", random.below(2));
    let value = objects[objects.len() - 1].0;
    let kept: Vec<(ObjectId, Bytes)> =
        objects.iter().map(|(id, object)| (*id, object.bytes.clone())).collect();
    let attempt =
        Attempt { objects: kept, ..Attempt::new([(&*name, Some(Target::Object(value)))]) };
    witness.attempt(attempt, |reason| {
        let draft = OperationDraft { reason, ..set(&name, Expected::Any, value) };
        store.commit(objects, &draft)
    });
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
        undoes: None,
        joins: Vec::new(),
    }
}

/// The key of an encrypted store, with the cipher of new stores.
pub const KEY: StoreKey = StoreKey::of(StoreCipher::Aes256Ctr, [0x4b; 32]);

/// Options with this seed, and the key of an encrypted store.
#[must_use]
pub fn options(seed: u64) -> OpenOptions {
    let mut writer_seed = [0; 16];
    writer_seed[..8].copy_from_slice(&seed.to_le_bytes());
    OpenOptions { keys: Some(KEY.into()), ..OpenOptions::new(writer_seed) }
}

/// Replaces those of the selected files that may be replaced by one hot pack with all their
/// content.
///
/// # Errors
/// Errors of the collection.
pub fn pack(store: &Store, which: impl Fn(&InventoryFile) -> bool) -> turntree::Result<Replaced> {
    pack_as(store, Tier::Hot, which)
}

/// Replaces those of the selected files that may be replaced by one pack of a tier.
///
/// # Errors
/// Errors of the collection.
pub fn pack_as(
    store: &Store,
    tier: Tier,
    which: impl Fn(&InventoryFile) -> bool,
) -> turntree::Result<Replaced> {
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
    let mut items: Vec<PackItem> = chosen
        .map(|entry| PackItem { id: entry.id, kind: entry.kind, placement: 0, cohort: 0 })
        .collect();
    items.sort_by_key(|item| item.kind);
    let gone = Vec::new();
    let replacement = FileReplacement { files, items, gone, tier };
    // Nothing is elided, so concurrent commits cannot lose a dependency.
    collection.replace(&replacement, &mut |_| Ok(Vec::new()))
}
