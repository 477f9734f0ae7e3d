//! The report of a capture: counts, and the files that were skipped.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use super::table::TableDraft;
use crate::repo::{PART_OF_FILES, WORKSPACE, WORKSPACE_FILES, WholeWorkspace};

/// The section that a directory becomes.
pub(in crate::workspace) const SECTION: &str = "files";

pub(in crate::workspace) const IGNORED: &str = "it is there and not captured: a rule ignores it";
pub(in crate::workspace) const NOT_A_FILE: &str = "it is neither a file nor a link";
pub(in crate::workspace) const NOT_UTF8: &str = "its name is not UTF-8";
pub(in crate::workspace) const TOO_LONG: &str = "its path is too long";

/// Why a name is skipped that no capture could take along, whatever its options.
const NEVER_TAKEN: [&str; 3] = [NOT_A_FILE, NOT_UTF8, TOO_LONG];

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
    /// What is wrong with settings and indexes of git, which were passed over, a sentence each.
    pub warnings: Vec<String>,
    /// Paths that another state ignores or did not take along: they stay as they are.
    pub(in crate::workspace) beside: BTreeMap<PathBuf, LeftBeside>,
    /// The table for the next capture; `None` when it has not changed.
    pub(in crate::workspace) draft: Option<TableDraft>,
}

/// A path that another state ignores or did not take along.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(in crate::workspace) struct LeftBeside {
    /// The path, or the folder that it is left with.
    pub(in crate::workspace) shown: PathBuf,
    /// Why.
    pub(in crate::workspace) reason: &'static str,
}

impl CaptureReport {
    /// Returns what a commit of this capture says of the directory `dir`, which it captured.
    #[must_use]
    pub fn metadata(&self, dir: &Path) -> Vec<(String, String)> {
        let files = match self.whole() {
            Some(whole) => whole.skipped_metadata(),
            None => Some((WORKSPACE_FILES.to_owned(), PART_OF_FILES.to_owned())),
        };
        [workspace_metadata(dir)].into_iter().chain(files).collect()
    }

    /// Returns the workspace of which it has all files; `None` when the time was up first.
    pub(in crate::workspace) fn whole(&self) -> Option<WholeWorkspace> {
        let is_of_options = |it: &&SkippedFile| !NEVER_TAKEN.contains(&it.reason.as_str());
        let skipped = self.skipped.iter().filter(is_of_options).map(|skipped| &skipped.path);
        let left = skipped.chain(self.beside.values().map(|left| &left.shown));
        let skipped = left.filter_map(|path| path.to_str().map(str::to_owned)).collect();
        (!self.unfinished).then_some(WholeWorkspace { skipped })
    }
}

/// The metadata of a commit whose files came from, or went to, a directory: its whole path. One
/// that is not UTF-8 is written so that it leads nowhere.
#[must_use]
pub fn workspace_metadata(dir: &Path) -> (String, String) {
    let whole = dir.canonicalize().unwrap_or_else(|_| dir.to_owned());
    (WORKSPACE.to_owned(), whole.to_string_lossy().into_owned())
}

/// A path that was left out.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SkippedFile {
    /// The path, below the directory; empty for the directory itself.
    pub path: PathBuf,
    /// Why.
    pub reason: String,
}
