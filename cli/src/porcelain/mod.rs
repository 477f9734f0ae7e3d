//! The operations shared by commands, the service and hooks: from a repository to a JSON record.
//!
//! Nothing here knows the caller. `commands` adds arguments and text for people, `service` adds
//! requests, schemas and limits; neither uses the other.

pub(crate) mod blame;
pub(crate) mod branches;
pub(crate) mod broad_directory;
pub(crate) mod capture;
pub(crate) mod comparison;
pub(crate) mod compat;
pub(crate) mod conflicts;
pub(crate) mod diff;
pub(crate) mod editing;
pub(crate) mod edits;
pub(crate) mod encryption;
pub(crate) mod entries;
pub(crate) mod export;
pub(crate) mod forgetting;
pub(crate) mod git_commits;
pub(crate) mod git_facts;
pub(crate) mod git_program;
pub(crate) mod history;
pub(crate) mod import_report;
pub(crate) mod kept_files;
pub(crate) mod lessons;
pub(crate) mod line_scan;
pub(crate) mod lost_turns;
pub(crate) mod merge;
pub(crate) mod merge_files;
pub(crate) mod offloading;
pub(crate) mod operations;
pub(crate) mod patience;
pub(crate) mod pins;
pub(crate) mod place;
pub(crate) mod plans;
pub(crate) mod prices;
pub(crate) mod project;
pub(crate) mod pushing;
pub(crate) mod remotes;
pub(crate) mod revision;
pub(crate) mod rewind;
pub(crate) mod rollback;
pub(crate) mod scrubbing;
pub(crate) mod search;
pub(crate) mod secrets;
pub(crate) mod sessions;
pub(crate) mod snapshot;
pub(crate) mod sources;
pub(crate) mod status;
pub(crate) mod store_budget;
pub(crate) mod tags;
pub(crate) mod temp_file;
pub(crate) mod thresholds;
pub(crate) mod undoing;
pub(crate) mod unsaved;
pub(crate) mod upkeep;
pub(crate) mod worktree;
