//! Statistics of a store, its sessions and their sections.

use std::collections::BTreeMap;

use crate::maintenance::collection_plan::{ObjectsSize, StoreFilePlan};
use crate::maintenance::keep::parity_policy::ParityPolicy;
use crate::object::ObjectId;

/// The statistics of a store.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct Stats {
    /// The sessions by name; only the selected one, if one was selected.
    pub sessions: Vec<SessionStats>,
    /// The operation log.
    pub operations: StorageUsage,
    /// Reachable objects of no session: tags, pins, policies, objects of open transactions.
    pub other: StorageUsage,
    /// Objects that only expiring turns reference: the next collection frees them.
    pub expiring: ObjectsSize,
    /// Unreachable objects and duplicates: the next collection frees them.
    pub garbage: ObjectsSize,
    /// Every file with objects.
    pub files: Vec<StoreFilePlan>,
    /// Bytes of the parity files of packs.
    pub parity_bytes: u64,
    /// Bytes of the history indexes of packs.
    pub history_index_bytes: u64,
    /// Bytes of the id files of packs that store no ids.
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
    /// The name of the session.
    pub session: String,
    /// The number of branches.
    pub branches: u64,
    /// Turns with content.
    pub turns: u64,
    /// Turns with content that policies expire with the next collection.
    pub expiring: u64,
    /// Turns whose content has expired.
    pub elided: u64,
    /// Pins that have not expired.
    pub pins: u64,
    /// The time of its oldest turn with content, in microseconds since the Unix epoch.
    pub oldest_micros: Option<i64>,
    /// Commits.
    pub commits: StorageUsage,
    /// The nodes of contexts outside of sections.
    pub contexts: StorageUsage,
    /// Each section by name.
    pub sections: BTreeMap<String, StorageUsage>,
    /// The part that other sessions have too. It does not count for them again.
    pub shared: StorageUsage,
    /// The size of full copies of the context of every turn: the bytes of all entries, without
    /// markup, and without the section `source`, which repeats conversations.
    pub full_bytes: u64,
    /// The size of full copies after every message instead of every turn, assuming that a context
    /// grows evenly within a turn.
    pub per_message_bytes: u64,
}

/// A number of objects and their sizes.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct StorageUsage {
    /// The number of objects.
    pub objects: u64,
    /// The uncompressed bytes.
    pub raw_bytes: u64,
    /// The bytes on disk, including directories and indexes.
    pub stored_bytes: u64,
}

/// One of the largest objects.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
#[non_exhaustive]
pub struct LargeObject {
    /// The uncompressed bytes.
    pub raw_bytes: u64,
    /// The bytes on disk.
    pub stored_bytes: u64,
    /// The id of the object.
    pub id: ObjectId,
    /// The session that owns it.
    pub session: String,
    /// The section, with the key if the section is a map.
    pub path: String,
}

impl StorageUsage {
    /// Adds another usage.
    pub fn add(&mut self, other: Self) {
        self.objects += other.objects;
        self.raw_bytes += other.raw_bytes;
        self.stored_bytes += other.stored_bytes;
    }
}

impl SessionStats {
    /// Returns the sum of everything that counts for the session.
    #[must_use]
    pub fn total(&self) -> StorageUsage {
        let mut total = self.commits;
        total.add(self.contexts);
        self.sections.values().for_each(|section| total.add(*section));
        total
    }
}
