//! Measures the bytes of a store by session and section.

pub(super) mod context_sizes;
pub(super) mod full_copies;
pub(super) mod stats;
pub(super) mod usage;
