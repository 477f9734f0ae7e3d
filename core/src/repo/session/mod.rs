//! Sessions: their labels, the record of forgotten ones, automatic snapshots, explorations.

pub(super) mod exploration;
pub(super) mod forgotten;
pub(super) mod sessions;
pub mod watch;
