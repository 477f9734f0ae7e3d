//! The engine: one file for each module or task of `core`.
//!
//! Files that import transcripts need the feature `exchange` of the tests, and those that run the
//! program the feature `program`. Without both, the engine and the test kit are built alone.

mod archive_blocks;
mod archive_ids;
mod archive_parity;
#[cfg(feature = "program")]
mod bisect;
mod blame;
mod bounded;
#[cfg(feature = "exchange")]
mod bundle;
#[cfg(feature = "exchange")]
mod bundle_golden;
mod bundle_operations;
mod bundle_partial;
mod capture;
mod capture_cache;
mod change;
#[cfg(feature = "program")]
mod checkout;
mod checkout_hostile;
mod concurrency;
mod divergence;
mod encryption;
mod forgotten;
#[cfg(feature = "exchange")]
mod fsck;
mod gc;
#[cfg(feature = "exchange")]
mod history_index;
mod hostile_bytes;
#[cfg(feature = "exchange")]
mod hostile_files;
#[cfg(feature = "exchange")]
mod independent_reader;
#[cfg(feature = "exchange")]
mod independent_transcript;
mod key_rotation;
#[cfg(feature = "exchange")]
mod known_losses;
mod known_tips;
mod letting_go;
#[cfg(feature = "exchange")]
mod local;
mod lost_superblock;
#[cfg(feature = "exchange")]
mod merge;
mod notes;
mod one_sync;
mod pack_ids;
mod pin;
mod prompt_counts;
mod redact;
#[cfg(feature = "exchange")]
mod redactions;
mod remote;
mod remote_collect;
mod remote_folder;
#[cfg(feature = "exchange")]
mod remote_lazy;
mod remote_log;
mod remote_model;
mod remote_processes;
mod remote_sealed;
mod repair;
mod retention;
mod retention_capped;
mod retention_long;
mod revision;
mod rewind;
#[cfg(feature = "program")]
mod rewind_hostile;
#[cfg(feature = "exchange")]
mod search;
#[cfg(feature = "exchange")]
mod search_contents;
#[cfg(feature = "program")]
mod search_incomplete;
mod stale_views;
#[cfg(feature = "exchange")]
mod stats;
mod store_golden;
#[cfg(feature = "exchange")]
mod store_in_git;
mod store_open;
mod undo;
mod upkeep;
#[cfg(feature = "program")]
mod vfs;
