//! Changes branches and content: merges, undo, and the filters and records of removed content.

pub(super) mod adoption;
pub(super) mod cherry_pick;
pub(super) mod filter;
pub(super) mod forgotten_operations;
pub(super) mod merge;
pub(super) mod redactions;
pub(super) mod resolve;
pub(super) mod secret_settings;
pub(super) mod undo;
pub(super) mod whole_workspace;
