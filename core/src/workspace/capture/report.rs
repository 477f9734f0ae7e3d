//! The report of a capture: counts, and the files that were skipped.

use std::path::PathBuf;

use super::table::TableDraft;

/// The section that a directory becomes.
pub(in crate::workspace) const SECTION: &str = "files";

/// The report of a capture.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct CaptureReport {
    /// Files and links that the section has as they are in the directory.
    pub files: u64,
    /// Their bytes.
    pub bytes: u64,
    /// The number of files that were read because their stat did not prove them unchanged.
    pub read: u64,
    /// The number of files that are new or have another content or mode than in the parent context.
    pub changed: u64,
    /// Files of the context before that are not there any more, or left out by now.
    pub removed: u64,
    /// Files that were skipped, in order of paths. Their last known content stays in the section.
    pub skipped: Vec<SkippedFile>,
    /// True when the time was up first: another capture continues.
    pub unfinished: bool,
    /// The table for the next capture; `None` when it has not changed.
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
