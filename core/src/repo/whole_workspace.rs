//! Whether the files of a commit are a whole workspace: all that a capture saw in a directory.
//!
//! A plan deletes what a state does not have only if the state is a whole workspace. A list of files
//! that a transcript names is not: the directory may hold more.
//!
//! | commit | whole if |
//! |---|---|
//! | a capture of a directory that looked at everything | always |
//! | a restore or a rollback | what it brought back is; what it kept is too, unless it kept no files |
//! | a merge, a cherry-pick | all that it was made of is |
//! | any other commit | the one before it is |
//!
//! Metadata alone decides. Commits say it themselves since [`WORKSPACE_FILES`]; earlier versions wrote
//! the directory into the commit of a restore of anything, so for these it follows from what was
//! restored.

use std::collections::{BTreeSet, HashSet};

use super::merge::{MERGED_COMMIT, MERGED_ONLY};
use super::pick::PICKED_FROM;
use super::{ONLY, RESTORED_FROM, ROLLED_BACK_TO, Repository, WORKSPACE};
use crate::context::Selection;
use crate::error::{ErrorKind, Result};
use crate::object::{Commit, ObjectId, Trigger};

/// Metadata of a commit whose files are from a directory, or went to one: [`ALL_FILES`] when they were
/// a whole workspace, [`PART_OF_FILES`] when not. Commits of earlier versions do not have it.
pub const WORKSPACE_FILES: &str = "workspace-files";
/// See [`WORKSPACE_FILES`].
pub const ALL_FILES: &str = "all";
/// See [`WORKSPACE_FILES`].
pub const PART_OF_FILES: &str = "part";

/// Metadata of a capture: the paths that it did not take along although no rule of the directory
/// ignores them, a line each.
pub const WORKSPACE_SKIPPED: &str = "workspace-skipped";

/// Most paths that the metadata of a commit lists.
const MAX_SKIPPED: usize = 256;

/// A workspace of which a commit has all files.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct WholeWorkspace {
    /// Paths below the directory that its captures did not take along, such as files that were too
    /// large: the commit has no content for them. An empty path stands for everything.
    pub skipped: BTreeSet<String>,
}

impl WholeWorkspace {
    fn metadata(&self) -> Vec<(String, String)> {
        let all = (WORKSPACE_FILES.to_owned(), ALL_FILES.to_owned());
        [all].into_iter().chain(self.skipped_metadata()).collect()
    }

    /// Returns the metadata of the paths that were not taken along, if there are any. Of many, their
    /// outermost folders stand for them.
    pub(crate) fn skipped_metadata(&self) -> Option<(String, String)> {
        let mut paths: BTreeSet<&str> = self.skipped.iter().map(String::as_str).collect();
        if paths.len() > MAX_SKIPPED {
            paths =
                paths.iter().map(|path| path.split_once('/').map_or(*path, |it| it.0)).collect();
        }
        // A path of two lines would come back as two paths.
        if paths.len() > MAX_SKIPPED || paths.iter().any(|path| path.contains('\n')) {
            paths = BTreeSet::from([""]);
        }
        let text = paths.into_iter().collect::<Vec<_>>().join("\n");
        (!self.skipped.is_empty()).then(|| (WORKSPACE_SKIPPED.to_owned(), text))
    }

    /// Returns whether its captures did not take the path along, or a folder above it.
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

/// Returns the metadata of a commit whose files were those of a workspace, if that was whole.
#[must_use]
pub fn workspace_files(whole: Option<&WholeWorkspace>) -> Vec<(String, String)> {
    let part = || vec![(WORKSPACE_FILES.to_owned(), PART_OF_FILES.to_owned())];
    whole.map_or_else(part, WholeWorkspace::metadata)
}

impl Repository {
    /// Returns the workspace of which the commit `from` has all files; `None` when nothing shows that
    /// its list of files is complete. Reads commits up to the capture that the files come from.
    ///
    /// # Errors
    /// Those of reading commits. A commit that retention dropped counts as no capture.
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
            // What lies between a commit and a graft may have been a restore of anything.
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

/// Where the files of a commit come from.
enum FilesOrigin {
    /// A look at everything in a directory.
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
            return Self::taken(commit, target, &only.unwrap_or_default(), false);
        }
        let picked = metadata.get(PICKED_FROM).or(metadata.get(MERGED_COMMIT));
        if let Some(picked) = picked {
            let only = metadata.get(MERGED_ONLY).map(|text| Selection::from_text(text));
            return Self::taken(commit, picked, &only.unwrap_or_default(), true);
        }
        // The commit of a merge that moved files names the directory and is no capture of it.
        if commit.trigger == Trigger::Merge {
            return Self::Commits(commit.parents.clone());
        }
        match metadata.contains_key(WORKSPACE) {
            true => Self::Capture,
            false => Self::Commits(first().collect()),
        }
    }

    /// The origin of files that a commit took `only` so much of from `source`; `is_mixed` when its own
    /// stayed too.
    fn taken(commit: &Commit, source: &str, only: &Selection, is_mixed: bool) -> Self {
        let mut sources: Vec<ObjectId> = Vec::new();
        if only.reaches_files() {
            let Ok(source) = source.parse() else { return Self::Unknown };
            sources.push(source);
        }
        if is_mixed || !only.has_all_of("files") {
            sources.extend(commit.parents.iter().take(1));
        }
        Self::Commits(sources)
    }
}
