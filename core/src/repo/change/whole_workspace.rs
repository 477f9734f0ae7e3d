//! Decides whether the files of a commit are a whole workspace: everything that a capture saw in a
//! directory.
//!
//! A plan deletes files that a state lacks only if the state is a whole workspace. A list of files
//! that a transcript names is not: the directory may hold more.
//!
//! | commit | whole if |
//! |---|---|
//! | a capture of a directory that looked at everything | always |
//! | a restore or a rollback | the restored files are, and the remaining files are, if any remain |
//! | a merge, a cherry-pick | all of its sources are |
//! | any other commit | its parent is |
//!
//! Metadata alone decides: that of the commit if it has [`WORKSPACE_FILES`], otherwise the commits
//! that its files came from.

use std::collections::{BTreeSet, HashSet};

use super::cherry_pick::PICKED_FROM;
use super::merge::{MERGED_COMMIT, MERGED_ONLY};
use crate::context::Selection;
use crate::context::sections::FILES;
use crate::error::{ErrorKind, Result};
use crate::object::{Commit, ObjectId, Trigger};
use crate::repo::{ONLY, RESTORED_FROM, ROLLED_BACK_TO, Repository, WORKSPACE};

/// The metadata key of a commit whose files were captured from a directory or written to one:
/// [`ALL_FILES`] for a whole workspace, [`PART_OF_FILES`] otherwise. A capture of everything lacks
/// it.
pub(crate) const WORKSPACE_FILES: &str = "workspace-files";
/// See [`WORKSPACE_FILES`].
pub(crate) const ALL_FILES: &str = "all";
/// See [`WORKSPACE_FILES`].
pub(crate) const PART_OF_FILES: &str = "part";

/// The metadata key of a capture for skipped paths that no ignore rule of the directory covers, one
/// per line.
pub(crate) const WORKSPACE_SKIPPED: &str = "workspace-skipped";

/// The maximum number of paths in the metadata of a commit.
const MAX_SKIPPED: usize = 256;

/// A workspace whose files a commit has completely.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct WholeWorkspace {
    /// Paths below the directory that its captures skipped, such as too large files: the commit has
    /// no content for them. An empty path means everything.
    pub skipped: BTreeSet<String>,
}

impl WholeWorkspace {
    fn metadata(&self) -> Vec<(String, String)> {
        let all = (WORKSPACE_FILES.to_owned(), ALL_FILES.to_owned());
        [all].into_iter().chain(self.skipped_metadata()).collect()
    }

    /// Returns the metadata of the skipped paths, if there are any. If there are too many, their
    /// top folders replace them.
    pub(crate) fn skipped_metadata(&self) -> Option<(String, String)> {
        let mut paths: BTreeSet<&str> = self.skipped.iter().map(String::as_str).collect();
        if paths.len() > MAX_SKIPPED {
            paths =
                paths.iter().map(|path| path.split_once('/').map_or(*path, |it| it.0)).collect();
        }
        // A path with a line break would be read as two paths.
        if paths.len() > MAX_SKIPPED || paths.iter().any(|path| path.contains('\n')) {
            paths = BTreeSet::from([""]);
        }
        let text = paths.into_iter().collect::<Vec<_>>().join("\n");
        (!self.skipped.is_empty()).then(|| (WORKSPACE_SKIPPED.to_owned(), text))
    }

    /// Returns true if the captures skipped the path or a folder above it.
    #[must_use]
    pub fn skips(&self, path: &str) -> bool {
        let mut above = path.match_indices('/').filter_map(|(at, _)| path.get(..at));
        let has = |path: &str| self.skipped.contains(path);
        has("") || has(path) || above.any(has)
    }

    fn read(&mut self, commit: &Commit) {
        if let Some(text) = commit.metadata.get(WORKSPACE_SKIPPED) {
            self.skipped.extend(text.split('\n').map(str::to_owned));
        }
    }
}

/// Returns the metadata of a commit with the files of a workspace; `None` for an incomplete one.
#[must_use]
pub fn workspace_files(whole: Option<&WholeWorkspace>) -> Vec<(String, String)> {
    let part = || vec![(WORKSPACE_FILES.to_owned(), PART_OF_FILES.to_owned())];
    whole.map_or_else(part, WholeWorkspace::metadata)
}

impl Repository {
    /// Returns the workspace whose files the commit `from` has completely; `None` if nothing proves
    /// that its list of files is complete. Reads commits back to the capture of the files.
    ///
    /// # Errors
    /// Errors of reading commits. An expired commit does not count as a capture.
    pub fn whole_workspace(&self, from: &ObjectId) -> Result<Option<WholeWorkspace>> {
        let grafts = self.grafts()?;
        let (mut whole, mut seen, mut next) =
            (WholeWorkspace::default(), HashSet::new(), vec![*from]);
        // Every source must be whole: a list with a part of unknown origin may lack files.
        while let Some(id) = next.pop() {
            if !seen.insert(id) {
                continue;
            }
            let commit = match self.commit(&id) {
                Ok(commit) => commit,
                Err(error) if matches!(error.kind(), ErrorKind::NotFound | ErrorKind::Expired) => {
                    return Ok(None);
                }
                Err(error) => return Err(error),
            };
            // Forgotten commits between a commit and a graft may have been partial restores.
            let is_known = |parent: &ObjectId| !grafts.is_forgotten(parent);
            match FilesOrigin::of(&commit) {
                FilesOrigin::Capture => whole.read(&commit),
                FilesOrigin::Commits(sources)
                    if !sources.is_empty() && sources.iter().all(is_known) =>
                {
                    next.extend(sources);
                }
                FilesOrigin::Commits(_) | FilesOrigin::Unknown => return Ok(None),
            }
        }
        Ok(Some(whole))
    }
}

/// The origin of the files of a commit.
enum FilesOrigin {
    /// A capture of everything in a directory.
    Capture,
    /// The files of these commits.
    Commits(Vec<ObjectId>),
    Unknown,
}

impl FilesOrigin {
    fn of(commit: &Commit) -> Self {
        let metadata = &commit.metadata;
        let first = || commit.parents.iter().take(1).copied();
        match metadata.get(WORKSPACE_FILES).map(String::as_str) {
            Some(ALL_FILES) => return Self::Capture,
            Some(_) => return Self::Unknown,
            None => {}
        }
        if let Some(target) = metadata.get(ROLLED_BACK_TO).or(metadata.get(RESTORED_FROM)) {
            let only = metadata.get(ONLY).map(|text| Selection::from_text(text));
            return Self::from_source(commit, target, &only.unwrap_or_default(), false);
        }
        let picked = metadata.get(PICKED_FROM).or(metadata.get(MERGED_COMMIT));
        if let Some(picked) = picked {
            let only = metadata.get(MERGED_ONLY).map(|text| Selection::from_text(text));
            return Self::from_source(commit, picked, &only.unwrap_or_default(), true);
        }
        // The commit of a merge that moved files names the directory, but is not a capture.
        if commit.trigger == Trigger::Merge {
            return Self::Commits(commit.parents.clone());
        }
        match metadata.contains_key(WORKSPACE) {
            true => Self::Capture,
            false => Self::Commits(first().collect()),
        }
    }

    /// Returns the origin of files for a commit that took the part `only` from `source`. `is_mixed`
    /// if its own files stayed as well.
    fn from_source(commit: &Commit, source: &str, only: &Selection, is_mixed: bool) -> Self {
        let mut sources: Vec<ObjectId> = Vec::new();
        if only.reaches_files() {
            let Ok(source) = source.parse() else { return Self::Unknown };
            sources.push(source);
        }
        if is_mixed || !only.has_whole_section(FILES) {
            sources.extend(commit.parents.iter().take(1));
        }
        Self::Commits(sources)
    }
}
