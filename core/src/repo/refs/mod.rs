//! Named refs: branches, tags, pins, remotes, and the branch of a directory.

pub(super) mod branch;
pub(super) mod branch_lookup;
pub(super) mod pin;
pub(super) mod place;
pub(super) mod remote_refs;
pub(super) mod tag;
