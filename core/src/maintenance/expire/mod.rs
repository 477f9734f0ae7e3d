//! Expires turns, sessions and payloads by the retention plan.

pub(super) mod evict;
pub(super) mod expire_sessions;
pub(super) mod forget_turns;
pub(super) mod packed_cost;
pub(super) mod plan_turns;
