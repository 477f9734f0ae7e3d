//! Statistics of a store, its sessions and their sections.

use std::collections::BTreeMap;

use super::collection_plan::{ObjectsSize, StoreFilePlan};
use super::parity_policy::ParityPolicy;
use crate::object::ObjectId;

/// The statistics of a store.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct Stats {
    /// Each session by name; only the one that was asked about, if one was.
    pub sessions: Vec<SessionStats>,
    /// The log of operations.
    pub operations: StorageUsage,
    /// Reachable objects of no session: tags, pins, policies, objects of open changes.
    pub other: StorageUsage,
    /// Objects of expiring turns alone: the next collection frees them.
    pub expiring: ObjectsSize,
    /// Unreachable objects, and second copies: the next collection frees them.
    pub garbage: ObjectsSize,
    /// Every file with objects.
    pub files: Vec<StoreFilePlan>,
    /// Bytes of the parity of packs.
    pub parity_bytes: u64,
    /// Bytes of the history indexes of packs.
    pub history_index_bytes: u64,
    /// Bytes of the ids that are kept beside packs that list none.
    pub ids_bytes: u64,
    /// The parity policy of the store.
    pub parity_policy: Option<ParityPolicy>,
    /// The largest objects of these sessions, the largest first.
    pub largest: Vec<LargeObject>,
}

/// The statistics of a session.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct SessionStats {
    /// Its name.
    pub session: String,
    /// Branches.
    pub branches: u64,
    /// Turns with content.
    pub turns: u64,
    /// Those of them that policies let expire with the next collection.
    pub expiring: u64,
    /// Turns whose content has gone.
    pub elided: u64,
    /// Pins that have not expired.
    pub pins: u64,
    /// When its oldest turn with content was made, in microseconds since the Unix epoch.
    pub oldest_micros: Option<i64>,
    /// Commits.
    pub commits: StorageUsage,
    /// The nodes that hold contexts together.
    pub contexts: StorageUsage,
    /// Each section by name.
    pub sections: BTreeMap<String, StorageUsage>,
    /// The part of all this that other sessions have too. They do not count it again.
    pub shared: StorageUsage,
    /// The size of full copies of the context of every turn: bytes of all entries, without
    /// markup around them, and without the section `source`, which holds conversations once more.
    pub full_bytes: u64,
    /// The same with a full copy after every message instead of every turn; those within a turn
    /// are taken to grow evenly.
    pub per_message_bytes: u64,
}

/// Objects, and what they take.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct StorageUsage {
    /// Objects.
    pub objects: u64,
    /// Their own bytes.
    pub raw_bytes: u64,
    /// Their bytes on disk, those in directories and indexes included.
    pub stored_bytes: u64,
}

/// An object that takes much.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
#[non_exhaustive]
pub struct LargeObject {
    /// Its own bytes.
    pub raw_bytes: u64,
    /// Its bytes on disk.
    pub stored_bytes: u64,
    /// Its id.
    pub id: ObjectId,
    /// The session it is counted for.
    pub session: String,
    /// Its section, with its key if that is a map.
    pub path: String,
}

impl StorageUsage {
    /// Adds one object, or those of another usage.
    pub fn add(&mut self, other: Self) {
        self.objects += other.objects;
        self.raw_bytes += other.raw_bytes;
        self.stored_bytes += other.stored_bytes;
    }
}

impl SessionStats {
    /// All that is counted for the session.
    #[must_use]
    pub fn total(&self) -> StorageUsage {
        let mut total = self.commits;
        total.add(self.contexts);
        self.sections.values().for_each(|section| total.add(*section));
        total
    }
}
