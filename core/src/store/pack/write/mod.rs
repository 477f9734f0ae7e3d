//! Writes packs: divides objects into blocks, and compresses them.

pub(super) mod compressors;
pub(super) mod measure;
pub(super) mod packer;
pub(super) mod similarity;
pub(super) mod thread_priority;
pub(super) mod writer;
