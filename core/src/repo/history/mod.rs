//! Reads history: commits from newest to oldest, operations, prompts, and fork points.

pub(super) mod availability;
pub(super) mod bisect;
pub(super) mod divergence;
pub(super) mod earlier_turns;
pub(super) mod grafts;
pub(super) mod merge_base;
pub(super) mod operations;
pub(super) mod prompt_cache;
pub(super) mod prompts;
pub(super) mod provenance;
pub(super) mod walk;
