//! Remotes: sessions in a bucket of object storage or in a folder, for other machines.

mod bucket;

pub use bucket::{Bucket, Got, Key, Listed, MAX_KEY_BYTES, MAX_PART_BYTES, Page, Put, Version};
