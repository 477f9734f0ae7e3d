//! Walks and marks reachable objects, and orders them for a pack.

pub(super) mod cohorts;
pub(super) mod last_mark;
pub(super) mod marker;
pub(super) mod node_versions;
pub(super) mod pack_order;
pub(super) mod sections;
pub(super) mod walk;
