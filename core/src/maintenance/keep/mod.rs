//! Decides what stays: the roots, the commit graph, policies, and the retention plan.

pub(super) mod budget_setting;
pub(super) mod fit;
pub(super) mod forget_choice;
pub(super) mod graph;
pub(super) mod newest_time;
pub(super) mod parity_policy;
pub(super) mod policy;
pub(super) mod retention;
pub(super) mod retention_plan;
pub(super) mod roots;
pub(super) mod store_bound;
