//! Replacing: files give way to packs that hold what is kept of them, while others read and write.

pub(super) mod collect;
pub(super) mod encryption;
pub(super) mod leftovers;
mod planned;
mod without_ids;
