//! Maintains a store: its encryption, its budget, and background maintenance.

pub(crate) mod encryption;
pub(crate) mod maintenance_wait;
pub(crate) mod store_budget;
pub(crate) mod upkeep;
