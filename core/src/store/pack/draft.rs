//! A pack to be: what goes into it, and what came of it.

use super::layout::Salt;
use super::{PackId, Tier, Tombstone};
use crate::object::{Kind, ObjectId, ObjectSource};
use crate::store::format::id::StoreId;

/// An object that goes into a pack.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct PackItem {
    /// Its id.
    pub id: ObjectId,
    /// Its kind.
    pub kind: Kind,
    /// Objects of different lanes do not share a block.
    pub placement: u32,
    /// Objects of different cohorts do not share a block either, nor a base when there is much of them:
    /// damage to those of one leaves those of the others whole.
    pub cohort: u32,
}

/// A pack to be.
pub(in crate::store) struct PackDraft<'a> {
    pub(in crate::store) store: StoreId,
    /// Random bytes, different for every pack: nobody who supplies payloads may know them.
    pub(in crate::store) salt: Salt,
    pub(in crate::store) tier: Tier,
    /// True if it lists the ids of its objects: else whoever opens it has to read all of it.
    pub(in crate::store) lists_ids: bool,
    /// Each object once, in the order in which they are stored.
    pub(in crate::store) items: &'a [PackItem],
    /// Ids without content, which are not among the items.
    pub(in crate::store) gone: &'a [(ObjectId, Kind, Tombstone)],
    /// Has every item.
    pub(in crate::store) source: &'a (dyn ObjectSource + Sync),
}

/// The size of the file that was written.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(in crate::store) struct PackWritten {
    pub(in crate::store) id: PackId,
    /// Bytes of the file, and of its parity.
    pub(in crate::store) bytes: u64,
    pub(in crate::store) objects: u32,
    /// Bytes of the objects.
    pub(in crate::store) raw_bytes: u64,
}
