//! The bytes of a pack: its fixed parts, blocks, ids, and links without ids.

pub(super) mod block;
pub(super) mod chunk;
pub(super) mod index;
pub(super) mod layout;
pub(super) mod links;
pub(super) mod pack_draft;
