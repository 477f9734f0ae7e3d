//! Moves content between stores, files and remotes.

pub(crate) mod export;
pub(crate) mod import_report;
pub(crate) mod new_remotes;
pub(crate) mod push;
pub(crate) mod remotes;
pub(crate) mod scrub;
pub(crate) mod temp_file;
pub(crate) mod transcript_sources;
