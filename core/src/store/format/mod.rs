//! The bytes of a store's own files, and nothing that opens one: records, manifest, superblock.
//!
//! Each format has one file with its writer and its reader, and a page in `format-spec`.

pub(super) mod codec;
pub(super) mod id;
pub(super) mod manifest;
pub(super) mod segment;
pub(super) mod superblock;
