//! Finds damage by reading every byte, reports it, and repairs files from the objects that verify.
//! Deletes nothing.

pub(super) mod examine;
pub(super) mod known_losses;
pub(super) mod lost_superblock;
pub(super) mod orphaned_files;
pub(super) mod quarantine;
pub(super) mod salvage;
#[cfg(test)]
mod salvage_tests;
