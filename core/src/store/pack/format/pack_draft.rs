//! The content of a pack to write, and the size of the written pack.

use super::layout::Salt;
use crate::object::{Kind, ObjectId, ObjectSource};
use crate::store::format::id::StoreId;
use crate::store::pack::{PackId, Tier, Tombstone};

/// An object to write to a pack.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct PackItem {
    /// The id of the object.
    pub id: ObjectId,
    /// The kind of the object.
    pub kind: Kind,
    /// The lane of the object. Objects of different lanes share no block.
    pub placement: u32,
    /// The cohort of the object. Objects of different cohorts share no block either, nor a base if
    /// they are large: damage to one cohort leaves the others intact.
    pub cohort: u32,
}

/// The content of a pack to write.
pub(in crate::store) struct PackDraft<'a> {
    pub(in crate::store) store: StoreId,
    /// Random bytes, different for every pack. Clients that supply payloads must not know them.
    pub(in crate::store) salt: Salt,
    pub(in crate::store) tier: Tier,
    /// True if the pack lists the ids of its objects. Otherwise opening it has to read all of it.
    pub(in crate::store) lists_ids: bool,
    /// Each object once, in the order in which they are stored.
    pub(in crate::store) items: &'a [PackItem],
    /// Ids without content. None of them is among the items.
    pub(in crate::store) gone: &'a [(ObjectId, Kind, Tombstone)],
    /// A source of every item.
    pub(in crate::store) source: &'a (dyn ObjectSource + Sync),
}

/// The size of the written pack.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(in crate::store) struct PackFileSize {
    pub(in crate::store) id: PackId,
    /// Bytes of the file, and of its parity.
    pub(in crate::store) bytes: u64,
    pub(in crate::store) objects: u32,
    /// Bytes of the objects.
    pub(in crate::store) raw_bytes: u64,
}
