//! Reads packs: frames, decoded blocks, and ids.

pub(super) mod cache;
pub(super) mod frames;
pub(super) mod identify;
pub(super) mod ids;
pub(super) mod open_ids;
pub(super) mod rebuild;
pub(super) mod verify;
