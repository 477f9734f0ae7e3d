//! Collects garbage: on request, within a budget of the store, and automatically in small steps.

pub mod auto;
pub(super) mod collection;
pub(super) mod file_choice;
pub(super) mod freed_sessions;
pub(super) mod last_step;
mod pack_journal;
pub(super) mod session_sizes;
pub(super) mod store_budget;
