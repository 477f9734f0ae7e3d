//! Writes to a store: a commit appends one batch to a segment; a full segment is sealed and
//! published.
//!
//! Only [`publish`] links a manifest to its name: sealing, collections and repairs pass their
//! change to it.

pub(super) mod commit;
pub(super) mod ownership;
pub(super) mod publish;
pub(super) mod seal;
pub(super) mod untracked;
