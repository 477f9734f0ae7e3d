//! What a collection is for, and what it would do with each file.

use super::plan::RetentionPlan;
use crate::store::Tier;

/// About what an object takes in the index of a pack.
const INDEX_BYTES: u64 = 48;

/// What a collection is for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Purpose {
    /// Apply retention, and free what nothing reaches.
    Gc,
    /// Store everything in this tier.
    Repack(Tier),
    /// What is worth doing now, in small.
    Step,
}

/// A number of objects and their bytes on disk.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct ObjectsSize {
    /// Objects.
    pub objects: u64,
    /// Bytes on disk: in packs, their share of the blocks.
    pub bytes: u64,
}

/// What would be done with a file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct StoreFilePlan {
    /// Its path in the store.
    pub name: String,
    /// `None` for a segment of the journal.
    pub tier: Option<Tier>,
    /// Bytes on disk.
    pub bytes: u64,
    /// What in it is reached.
    pub live: ObjectsSize,
    /// What in it is not, or lies in another file too.
    pub garbage: ObjectsSize,
    /// What happens to it.
    pub fate: Fate,
}

/// What happens to a file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Fate {
    /// It stays as it is.
    Kept,
    /// Its live objects go into the new pack.
    Replaced,
    /// Somebody writes to it, or an open transaction relies on it.
    InUse,
}

/// What a collection would do.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CollectionPlan {
    /// Which turns expire.
    pub retention: RetentionPlan,
    /// What is reached.
    pub live: ObjectsSize,
    /// What is not.
    pub garbage: ObjectsSize,
    /// Each file of the store.
    pub files: Vec<StoreFilePlan>,
    /// How the new pack is stored.
    pub tier: Tier,
    /// Whether more steps are needed after this one, because a pack has a limited size.
    pub partial: bool,
    /// What it cannot look into.
    pub holes: KnownLossesPlan,
}

/// What a collection cannot look into: objects that are lost, with damage that was accepted.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct KnownLossesPlan {
    /// How many are lost.
    pub lost: u64,
    /// What nothing reaches, and stays because these may have led to it. Counts as reached.
    pub spared: ObjectsSize,
}

impl CollectionPlan {
    /// Whether there is nothing to do.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.files.iter().all(|file| file.fate != Fate::Replaced)
    }

    /// Most bytes of disk that the step needs until the replaced files are gone: those of the new
    /// pack, if it compresses no better than they do.
    #[must_use]
    pub fn needed_bytes(&self) -> u64 {
        let replaced = self.files.iter().filter(|file| file.fate == Fate::Replaced);
        replaced.map(|file| file.live.bytes + file.live.objects * INDEX_BYTES).sum()
    }
}
