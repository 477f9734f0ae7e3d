//! Encodings of the store's own files: records, manifest, superblock. Opens no files.
//!
//! Each format has one file with its writer and its reader, and a page in `format-spec`.

pub(super) mod codec;
pub(super) mod id;
pub(super) mod manifest;
pub(super) mod segment;
pub(super) mod superblock;
