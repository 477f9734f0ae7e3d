//! Changes branches: snapshots, edits, merges, rollbacks, undo, tags and lessons.

pub(crate) mod compat;
pub(crate) mod conflict_writers;
pub(crate) mod conflicts;
pub(crate) mod context_edits;
pub(crate) mod conversation_edits;
pub(crate) mod forget_operations;
pub(crate) mod lessons;
pub(crate) mod merge;
pub(crate) mod merge_files;
pub(crate) mod offload;
pub(crate) mod operations;
pub(crate) mod pins;
pub(crate) mod rollback;
pub(crate) mod snapshot;
pub(crate) mod tags;
pub(crate) mod thresholds;
pub(crate) mod undo;
