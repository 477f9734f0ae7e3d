//! The report of a capture: counts, and the files that were skipped.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use super::table::TableDraft;
use crate::platform::canonical;
use crate::repo::{PART_OF_FILES, WORKSPACE, WORKSPACE_FILES, WholeWorkspace};

pub(in crate::workspace) const IGNORED: &str = "it exists, but a rule ignores it";
pub(in crate::workspace) const NOT_A_FILE: &str = "it is neither a file nor a link";
pub(in crate::workspace) const NOT_UTF8: &str = "its name is not UTF-8";
pub(in crate::workspace) const TOO_LONG: &str = "its path is too long";

/// Reasons for which no capture can include a file, whatever its options.
const NEVER_TAKEN: [&str; 3] = [NOT_A_FILE, NOT_UTF8, TOO_LONG];

/// The report of a capture.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct CaptureReport {
    /// Number of files and links whose state in the section equals the directory.
    pub files: u64,
    /// Bytes of these files.
    pub bytes: u64,
    /// Number of files that were read because their stat did not prove them unchanged.
    pub read: u64,
    /// Number of files that are new, or differ in content or mode from the parent context.
    pub changed: u64,
    /// Number of files of the previous context that were deleted or are now ignored.
    pub removed: u64,
    /// Skipped files, ordered by path. Their last known content stays in the section.
    pub skipped: Vec<SkippedFile>,
    /// True if the deadline passed first: another capture continues.
    pub unfinished: bool,
    /// Problems with ignored settings and indexes of git, one sentence each.
    pub warnings: Vec<String>,
    /// Paths that another state ignores or did not capture; they stay unchanged.
    pub(in crate::workspace) beside: BTreeMap<PathBuf, UnchangedPath>,
    /// The table for the next capture; `None` if it did not change.
    pub(in crate::workspace) draft: Option<TableDraft>,
}

/// A path that another state ignores or did not capture.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(in crate::workspace) struct UnchangedPath {
    /// The path, or the skipped folder that contains it.
    pub(in crate::workspace) shown: PathBuf,
    /// The reason.
    pub(in crate::workspace) reason: &'static str,
}

impl CaptureReport {
    /// Returns the metadata for a commit of this capture of the directory `dir`.
    #[must_use]
    pub fn metadata(&self, dir: &Path) -> Vec<(String, String)> {
        let files = match self.whole() {
            Some(whole) => whole.skipped_metadata(),
            None => Some((WORKSPACE_FILES.to_owned(), PART_OF_FILES.to_owned())),
        };
        [workspace_metadata(dir)].into_iter().chain(files).collect()
    }

    /// Returns the workspace whose files are all captured; `None` if the deadline passed first.
    pub(in crate::workspace) fn whole(&self) -> Option<WholeWorkspace> {
        let is_of_options = |it: &&SkippedFile| !NEVER_TAKEN.contains(&it.reason.as_str());
        let skipped = self.skipped.iter().filter(is_of_options).map(|skipped| &skipped.path);
        let left = skipped.chain(self.beside.values().map(|left| &left.shown));
        let skipped = left.filter_map(|path| path.to_str().map(str::to_owned)).collect();
        (!self.unfinished).then_some(WholeWorkspace { skipped })
    }
}

/// Returns the metadata of a commit whose files came from, or went to, a directory: its canonical
/// path. A path that is not UTF-8 is encoded so that it names no directory.
#[must_use]
pub fn workspace_metadata(dir: &Path) -> (String, String) {
    let whole = canonical(dir).unwrap_or_else(|_| dir.to_owned());
    (WORKSPACE.to_owned(), whole.to_string_lossy().into_owned())
}

/// A skipped path.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct SkippedFile {
    /// The path relative to the directory; empty for the directory itself.
    pub path: PathBuf,
    /// The reason.
    pub reason: String,
}
