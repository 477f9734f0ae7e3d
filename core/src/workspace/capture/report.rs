//! What a capture of a directory found, and what it left out.

use std::path::PathBuf;

use super::table::TableDraft;

/// The section that a directory becomes.
pub(in crate::workspace) const SECTION: &str = "files";

/// What a capture found.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct CaptureReport {
    /// Files and links that the section has as they are in the directory.
    pub files: u64,
    /// Their bytes.
    pub bytes: u64,
    /// How many of them were read, and not known to be unchanged without that.
    pub read: u64,
    /// How many of them are new, or have another content or mode than in the context before.
    pub changed: u64,
    /// Files of the context before that are not there any more, or left out by now.
    pub removed: u64,
    /// What was left out, and why, in order of paths. What was known of it is still in the section.
    pub skipped: Vec<SkippedFile>,
    /// Whether the time was up before everything was looked at: another capture goes on.
    pub unfinished: bool,
    /// What the next capture is to know; nothing when it knows that already.
    pub(in crate::workspace) draft: Option<TableDraft>,
}

/// A path that was left out.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SkippedFile {
    /// The path, below the directory; empty for the directory itself.
    pub path: PathBuf,
    /// Why.
    pub reason: String,
}
