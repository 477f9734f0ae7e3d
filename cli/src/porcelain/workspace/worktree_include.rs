//! Ignored files that a project keeps: files listed in `.worktreeinclude` that git ignores.
//!
//! The list has the syntax of `.gitignore`, as in Claude Code. Such files are often secrets, so no
//! turn stores them. They are stored only in the snapshot of a pin before a command that may
//! destroy them, and copied into new directories of other branches. The list itself is the user's
//! consent.

use std::borrow::Cow;
use std::collections::HashSet;
use std::fs;
use std::io::Write;
use std::path::{Component, Path, PathBuf};
use std::time::Duration;

use bytes::Bytes;
use turntree::context::FileMode;
use turntree::object::MAX_BLOB_BYTES;
use turntree::platform::{canonical, is_program, path_text, with_permissions_of};
use turntree::workspace::read_regular;
use turntree::{Error, Result};

use crate::porcelain::git::program::paths;

/// The list, at the top of the project.
const LIST: &str = ".worktreeinclude";

/// Git options for the patterns of that file, and for the standard ignore patterns.
const LISTED: &str = "--exclude-from=.worktreeinclude";
const IGNORED: &str = "--exclude-standard";

/// Maximum number of kept files.
const MAX_FILES: usize = 1000;

/// Largest kept file: the list is meant for settings, not for build output.
const MAX_BYTES: u64 = 16 << 20;

/// Returns the paths, relative to `root`, of regular files that the list of `root` names and git
/// ignores. Empty without a list, without git, and if git takes longer than `time`.
pub(crate) fn kept_files(root: &Path, time: Duration) -> Vec<PathBuf> {
    if !fs::metadata(root.join(LIST)).is_ok_and(|found| found.is_file()) {
        return Vec::new();
    }
    let named = ignored_files(root, LISTED, time).unwrap_or_default();
    if named.is_empty() {
        return Vec::new();
    }
    let ignored = ignored_files(root, IGNORED, time).unwrap_or_default();
    let ignored: HashSet<PathBuf> = ignored.into_iter().collect();
    let is_kept = |path: &PathBuf| {
        let is_plain = path.components().all(|part| matches!(part, Component::Normal(_)));
        let found = fs::symlink_metadata(root.join(path));
        is_plain
            && ignored.contains(path)
            && found.is_ok_and(|found| found.is_file() && found.len() <= MAX_BYTES)
    };
    named.into_iter().filter(is_kept).take(MAX_FILES).collect()
}

/// Reads such a file as a context entry; `None` if it was deleted.
pub(crate) fn read_kept(root: &Path, path: &Path) -> Option<(FileMode, Bytes)> {
    let whole = root.join(path);
    let mode = if is_program(&fs::metadata(&whole).ok()?) {
        FileMode::Executable
    } else {
        FileMode::Regular
    };
    Some((mode, read_regular(&whole, MAX_BLOB_BYTES as u64).ok()?.into()))
}

/// Copies such files of the project at `from` into the directory `to`, if no file has their name.
/// Skips folders that are links out of the directory. Deletes copies that git does not ignore
/// there, for example with older ignore patterns, because a turn would store them.
///
/// # Errors
/// `Io` if a file cannot be written.
pub(crate) fn copy_kept(from: &Path, to: &Path, time: Duration) -> Result<()> {
    let mut copied = Vec::new();
    for path in kept_files(from, time) {
        let target = to.join(&path);
        let failed = |error| Error::io(format!("write {}", target.display()), error);
        let Some(folder) = target.parent() else { continue };
        fs::create_dir_all(folder).map_err(failed)?;
        let is_inside = canonical(folder).ok().zip(canonical(to).ok());
        let is_inside = is_inside.is_some_and(|(folder, to)| folder.starts_with(to));
        if !is_inside || fs::symlink_metadata(&target).is_ok() {
            continue;
        }
        let Ok(found) = fs::metadata(from.join(&path)) else { continue };
        let content = read_regular(&from.join(&path), MAX_BLOB_BYTES as u64);
        let Ok(content) = content else { continue };
        let mut options = fs::OpenOptions::new();
        let options = with_permissions_of(options.write(true).create_new(true), &found);
        let mut file = options.open(&target).map_err(failed)?;
        file.write_all(&content).map_err(failed)?;
        copied.push(path);
    }
    if copied.is_empty() {
        return Ok(());
    }
    let Some(ignored) = ignored_files(to, IGNORED, time) else { return Ok(()) };
    for path in copied.iter().filter(|path| !ignored.contains(path)) {
        let target = to.join(path);
        fs::remove_file(&target)
            .map_err(|error| Error::io(format!("remove {}", target.display()), error))?;
    }
    Ok(())
}

/// The untracked files below `root` that `rules` ignore.
fn ignored_files(root: &Path, rules: &str, time: Duration) -> Option<Vec<PathBuf>> {
    paths(root, &["ls-files", "-z", "--others", "--ignored", rules], time)
}

/// The key of such a file in the section `files`; `None` if the name is not UTF-8.
pub(crate) fn key_of(path: &Path) -> Option<Cow<'_, str>> {
    path_text(path)
}
