//! Damage: seen by reading every byte, told, and mended from what verifies. Nothing is deleted.

pub(super) mod examine;
pub(super) mod known_losses;
pub(super) mod lost_superblock;
pub(super) mod quarantine;
pub(super) mod remains;
pub(super) mod salvage;
#[cfg(test)]
mod salvage_tests;
