//! Replaces files by packs of the objects to keep, while other processes read and write.

pub(super) mod collect;
pub(super) mod encryption;
pub(super) mod idle;
pub(super) mod leftovers;
mod planned_inventory;
pub(super) mod reserve;
mod without_ids;
