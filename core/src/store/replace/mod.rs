//! Replacing: files give way to packs that hold what is kept of them, while others read and write.

pub(super) mod collect;
pub(super) mod encryption;
pub(super) mod idle;
pub(super) mod leftovers;
mod planned;
pub(super) mod reserve;
mod without_ids;
