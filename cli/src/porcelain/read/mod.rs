//! Reads a store: revisions, history, differences, searches, and lists.

pub(crate) mod alignment;
pub(crate) mod blame;
pub(crate) mod branches;
pub(crate) mod comparison;
pub(crate) mod diff;
pub(crate) mod entries;
pub(crate) mod explorations;
pub(crate) mod history;
pub(crate) mod lost_turns;
pub(crate) mod paths;
pub(crate) mod place;
pub(crate) mod prices;
pub(crate) mod revision;
pub(crate) mod search;
pub(crate) mod secret_scan;
pub(crate) mod secrets;
pub(crate) mod sessions;
