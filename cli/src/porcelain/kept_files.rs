//! Ignored files that a project wants kept all the same: what `.worktreeinclude` lists and git ignores.
//!
//! The list is in the syntax of `.gitignore`, as Claude Code has it. Such files are often secrets. So they go
//! into no turn, and where somebody has asked for it by the list alone: beside a pin before a command that may
//! destroy them, and into directories that are made for other branches.

use std::collections::HashSet;
use std::fs;
use std::io::Write;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::{OpenOptionsExt, PermissionsExt};
use std::path::{Component, Path, PathBuf};
use std::time::Duration;

use bytes::Bytes;
use turntree::context::FileMode;
use turntree::object::MAX_BLOB_BYTES;
use turntree::workspace::read_regular;
use turntree::{Error, Result};

use super::git_program::paths;

/// The file with the list, at the top of the project.
const LIST: &str = ".worktreeinclude";

/// The rules of that file, and those by which git ignores files.
const LISTED: &str = "--exclude-from=.worktreeinclude";
const IGNORED: &str = "--exclude-standard";

/// Most files that are kept.
const MAX_FILES: usize = 1000;

/// Largest file that is kept: lists are for settings, and not for what is built.
const MAX_BYTES: u64 = 16 << 20;

/// Returns the paths, relative to `root`, of ordinary files that the list of `root` names and git ignores: none
/// without a list, without git, and when git takes longer than `time`.
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

/// Reads such a file as a context has it; nothing when it has gone.
pub(crate) fn read_kept(root: &Path, path: &Path) -> Option<(FileMode, Bytes)> {
    let whole = root.join(path);
    let is_program = fs::metadata(&whole).ok()?.permissions().mode() & 0o111 != 0;
    let mode = if is_program { FileMode::Executable } else { FileMode::Regular };
    Some((mode, read_regular(&whole, MAX_BLOB_BYTES as u64).ok()?.into()))
}

/// Copies such files of the project at `from` into the directory `to`, where nothing has their names. A folder
/// that is a link leads out of the directory, and gets none; what git does not ignore there, as with an older
/// list of rules, goes again, since a turn would have it.
///
/// # Errors
/// `Io` for a file that cannot be written.
pub(crate) fn copy_kept(from: &Path, to: &Path, time: Duration) -> Result<()> {
    let mut copied = Vec::new();
    for path in kept_files(from, time) {
        let target = to.join(&path);
        let failed = |error| Error::io(format!("write {}", target.display()), error);
        let Some(folder) = target.parent() else { continue };
        fs::create_dir_all(folder).map_err(failed)?;
        let is_inside = folder.canonicalize().ok().zip(to.canonicalize().ok());
        let is_inside = is_inside.is_some_and(|(folder, to)| folder.starts_with(to));
        if !is_inside || fs::symlink_metadata(&target).is_ok() {
            continue;
        }
        let Ok(found) = fs::metadata(from.join(&path)) else { continue };
        let content = read_regular(&from.join(&path), MAX_BLOB_BYTES as u64);
        let Ok(content) = content else { continue };
        let mut options = fs::OpenOptions::new();
        let file = options.write(true).create_new(true).mode(found.permissions().mode() & 0o777);
        let mut file = file.open(&target).map_err(failed)?;
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

/// The files below `root` that git does not track and `rules` ignore.
fn ignored_files(root: &Path, rules: &str, time: Duration) -> Option<Vec<PathBuf>> {
    paths(root, &["ls-files", "-z", "--others", "--ignored", rules], time)
}

/// The key of such a file in the section `files`; nothing for a name that is no text.
pub(crate) fn key_of(path: &Path) -> Option<&str> {
    std::str::from_utf8(path.as_os_str().as_bytes()).ok()
}
