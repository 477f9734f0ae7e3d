//! Writing: a commit appends one batch to a segment; a full segment is sealed and published.
//!
//! [`publish`] is the one place in which a manifest gets its name: sealing, collections and repairs
//! hand it their change.

pub(super) mod commit;
pub(super) mod ownership;
pub(super) mod publish;
pub(super) mod seal;
pub(super) mod untracked;
