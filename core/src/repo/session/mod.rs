//! Sessions: their labels, the record of forgotten ones, and automatic snapshots.

pub(super) mod forgotten;
pub(super) mod sessions;
pub mod watch;
