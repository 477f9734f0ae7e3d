//! The plan of a collection: its purpose, and the fate of each file.

use crate::maintenance::keep::retention_plan::RetentionPlan;
use crate::store::Tier;

/// The approximate size of an object in the index of a pack, in bytes.
const INDEX_BYTES: u64 = 48;

/// The purpose of a collection.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Purpose {
    /// Apply retention and free unreachable objects.
    Gc,
    /// Like `Gc`, with every policy strict.
    StrictGc,
    /// Like `Gc`, after forgetting every operation: undo cannot go back beyond it.
    GcNow,
    /// Store everything in this tier.
    Repack(Tier),
    /// A small collection of the files that are most worth rewriting.
    Step,
    /// A step for all garbage, and down to the budgets, once nothing was written for a while.
    Settle,
}

impl Purpose {
    /// Returns true if turns expire and forgotten content is freed.
    pub(super) fn may_free(self) -> bool {
        self.is_gc() || self.is_step()
    }

    /// Returns true for a collection that runs automatically.
    pub(super) const fn is_step(self) -> bool {
        matches!(self, Self::Step | Self::Settle)
    }

    /// Returns true for a collection of all garbage.
    #[must_use]
    pub const fn is_gc(self) -> bool {
        matches!(self, Self::Gc | Self::StrictGc | Self::GcNow)
    }
}

/// A number of objects and their bytes on disk.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct ObjectsSize {
    /// The number of objects.
    pub objects: u64,
    /// Bytes on disk: in packs, their share of the blocks.
    pub bytes: u64,
}

/// The plan for a file.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct StoreFilePlan {
    /// The path of the file in the store.
    pub name: String,
    /// The tier; `None` for a segment of the journal.
    pub tier: Option<Tier>,
    /// Bytes on disk.
    pub bytes: u64,
    /// The reachable objects of the file.
    pub live: ObjectsSize,
    /// The unreachable objects of the file, and those that another file has too.
    pub garbage: ObjectsSize,
    /// The fate of the file.
    pub fate: Fate,
}

/// The fate of a file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Fate {
    /// The file stays as it is.
    Kept,
    /// The live objects of the file move to the new pack.
    Replaced,
    /// Another process writes to the file, or an open transaction relies on it.
    InUse,
}

/// The plan of a collection.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct CollectionPlan {
    /// The turns that expire.
    pub retention: RetentionPlan,
    /// The reachable objects.
    pub live: ObjectsSize,
    /// The unreachable objects.
    pub garbage: ObjectsSize,
    /// Each file of the store.
    pub files: Vec<StoreFilePlan>,
    /// The tier of the new pack.
    pub tier: Tier,
    /// True if more steps are needed after this one, because a pack has a limited size.
    pub partial: bool,
    /// The known losses.
    pub holes: KnownLossesPlan,
}

/// The accepted losses that a collection tolerates.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct KnownLossesPlan {
    /// The number of lost objects.
    pub lost: u64,
    /// Unreachable objects that stay because lost objects may have referenced them. They count as
    /// reachable.
    pub spared: ObjectsSize,
}

impl CollectionPlan {
    /// Returns true if there is nothing to do.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.files.iter().all(|file| file.fate != Fate::Replaced)
    }

    /// Returns the maximum disk space that the step needs before the replaced files are deleted, in
    /// bytes: the size of the new pack, assuming it compresses like them.
    #[must_use]
    pub fn needed_bytes(&self) -> u64 {
        let replaced = self.files.iter().filter(|file| file.fate == Fate::Replaced);
        replaced.map(|file| file.live.bytes + file.live.objects * INDEX_BYTES).sum()
    }
}
