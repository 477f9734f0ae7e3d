//! One run of the program: its options and environment, the store that it opens, its input.

pub(crate) mod age_keys;
pub(crate) mod browser;
pub(crate) mod buckets;
pub(crate) mod complete;
#[cfg(feature = "postgres")]
mod database;
pub(crate) mod directory_map;
pub(crate) mod fault;
pub(crate) mod global;
pub(crate) mod held_store;
pub(crate) mod here;
pub(crate) mod identity;
pub(crate) mod incoming;
pub(crate) mod interrupts;
pub(crate) mod invocation;
pub(crate) mod itself;
pub(crate) mod linked_worktree;
pub(crate) mod live;
pub(crate) mod maintenance;
pub(crate) mod moved_project;
pub(crate) mod parser;
pub(crate) mod private_file;
pub(crate) mod remote_keys;
mod ssh;
#[cfg(feature = "storage")]
pub(crate) mod storage;
pub(crate) mod store_keys;
pub(crate) mod store_log;
pub(crate) mod store_watch;
pub(crate) mod trust;
