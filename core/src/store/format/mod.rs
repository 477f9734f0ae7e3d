//! The bytes of a store's own files, and nothing that opens one: records, manifest, superblock.
//!
//! What is written and what is accepted stand in one file for each; `format-spec` has a page for each.

pub(super) mod codec;
pub(super) mod id;
pub(super) mod manifest;
pub(super) mod segment;
pub(super) mod superblock;
