//! The plan of a collection: its purpose, and the fate of each file.

use super::plan::RetentionPlan;
use crate::store::Tier;

/// About what an object takes in the index of a pack.
const INDEX_BYTES: u64 = 48;

/// The purpose of a collection.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Purpose {
    /// Apply retention, and free what nothing reaches.
    Gc,
    /// The same, as if every policy were strict.
    StrictGc,
    /// The same, and every operation is forgotten first: no undo takes anything of before back.
    GcNow,
    /// Store everything in this tier.
    Repack(Tier),
    /// A small collection of what is worth it now.
    Step,
    /// A step, of all that has garbage, and down to the budgets: once nothing is written for a while.
    Settle,
}

impl Purpose {
    /// Returns true if turns expire and what was let go is freed.
    pub(super) fn lets_go(self) -> bool {
        self.is_gc() || self.is_step()
    }

    /// Returns true for what runs by itself.
    pub(super) const fn is_step(self) -> bool {
        matches!(self, Self::Step | Self::Settle)
    }

    /// Returns true for a collection of everything that may go.
    #[must_use]
    pub const fn is_gc(self) -> bool {
        matches!(self, Self::Gc | Self::StrictGc | Self::GcNow)
    }
}

/// A number of objects and their bytes on disk.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct ObjectsSize {
    /// Objects.
    pub objects: u64,
    /// Bytes on disk: in packs, their share of the blocks.
    pub bytes: u64,
}

/// The plan for a file.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct StoreFilePlan {
    /// Its path in the store.
    pub name: String,
    /// `None` for a segment of the journal.
    pub tier: Option<Tier>,
    /// Bytes on disk.
    pub bytes: u64,
    /// Its reachable objects.
    pub live: ObjectsSize,
    /// Its unreachable objects, and those that lie in another file too.
    pub garbage: ObjectsSize,
    /// Its fate.
    pub fate: Fate,
}

/// The fate of a file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Fate {
    /// It stays as it is.
    Kept,
    /// Its live objects go into the new pack.
    Replaced,
    /// Somebody writes to it, or an open transaction relies on it.
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
    /// The losses that it works around.
    pub holes: KnownLossesPlan,
}

/// Known losses that a collection works around: objects that are lost, with damage that was
/// accepted.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct KnownLossesPlan {
    /// The number of lost objects.
    pub lost: u64,
    /// Unreachable objects that stay because the lost ones may have led to them. They count as
    /// reachable.
    pub spared: ObjectsSize,
}

impl CollectionPlan {
    /// Returns true if there is nothing to do.
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
