//! Examines and repairs a damaged store.

pub(super) mod accept_loss;
pub(super) mod detached_operations;
pub(super) mod finding;
pub(super) mod fsck;
pub(super) mod reachability;
pub(super) mod repair_commit;
pub(super) mod salvage;
pub(super) mod whole_objects;
pub(super) mod whole_turns;
