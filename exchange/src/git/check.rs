//! Checks a repository before it is opened: its files must be regular files of bounded size.
//!
//! Opening a pipe named `HEAD` would block, and reading a device named `packed-refs` would fill the
//! memory. Objects and packs need no check: gix opens only files, and their claimed sizes are
//! limited.

use std::collections::HashSet;
use std::fs::{self, Metadata};
use std::io;
use std::path::{Path, PathBuf};

use turntree::error::{Error, Result};
use turntree::workspace::read_regular;

use super::{git_error, is_invalid_path};

/// Size limit of files that hold a name: `HEAD`, a ref, the path of another folder.
const MAX_POINTER_BYTES: u64 = 64 << 10;

/// Size limit of configuration files and short lists.
const MAX_LIST_BYTES: u64 = 16 << 20;

/// Size limit of the file with all refs.
const MAX_PACKED_REFS_BYTES: u64 = 256 << 20;

/// The files of a repository that are read, with their size limits.
const FILES: [(&str, u64); 6] = [
    ("HEAD", MAX_POINTER_BYTES),
    ("commondir", MAX_POINTER_BYTES),
    ("config", MAX_LIST_BYTES),
    ("config.worktree", MAX_LIST_BYTES),
    ("shallow", MAX_LIST_BYTES),
    ("packed-refs", MAX_PACKED_REFS_BYTES),
];

/// Maximum nesting depth of ref folders.
const MAX_DEPTH: usize = 64;

/// Checks all files that are read when the repository in `dir` is opened and its refs are followed.
///
/// # Errors
/// `InvalidInput` or `LimitExceeded` with the first file that is not regular or too long.
pub(super) fn check(dir: &Path) -> Result<()> {
    let dot = dir.join(".git");
    let git = match read_pointer(&dot, "gitdir:")? {
        Some(named) => dir.join(named),
        None if is_git_dir(&dot) => dot,
        None if is_git_dir(dir) => dir.to_owned(),
        None => return Ok(()),
    };
    check_git_dir(&git)?;
    let common = match read_pointer(&git.join("commondir"), "")? {
        Some(named) => git.join(named),
        None => git,
    };
    check_git_dir(&common)?;
    check_alternates(&common.join("objects"))
}

/// Returns true if a folder may be a git directory.
fn is_git_dir(dir: &Path) -> bool {
    let has = |name| fs::symlink_metadata(dir.join(name)).is_ok();
    has("HEAD") && (has("objects") || has("commondir"))
}

/// Returns the path in a file after the prefix `lead`, or `None` if the file does not exist.
fn read_pointer(path: &Path, lead: &str) -> Result<Option<PathBuf>> {
    if metadata_of(path)?.is_none_or(|found| found.is_dir()) {
        return Ok(None);
    }
    let bytes = read_checked(path, MAX_POINTER_BYTES)?;
    let text = String::from_utf8_lossy(&bytes);
    Ok(text.strip_prefix(lead).map(|named| PathBuf::from(named.trim())))
}

fn check_git_dir(git: &Path) -> Result<()> {
    for (name, limit) in FILES {
        check_file(&git.join(name), limit)?;
    }
    check_refs(&git.join("refs"), 0)
}

/// Checks that every ref is a regular file, or a link to one. Git never creates links to folders.
fn check_refs(dir: &Path, depth: usize) -> Result<()> {
    let failed = |error| Error::io(format!("read {}", dir.display()), error);
    let entries = match fs::read_dir(dir) {
        Ok(entries) => entries,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(()),
        Err(error) => return Err(failed(error)),
    };
    for entry in entries {
        let entry = entry.map_err(failed)?;
        match entry.file_type().map_err(failed)?.is_dir() {
            true if depth == MAX_DEPTH => {
                return Err(Error::limit(
                    "nested folders of refs",
                    MAX_DEPTH as u64,
                    MAX_DEPTH as u64 + 1,
                ));
            }
            true => check_refs(&entry.path(), depth + 1)?,
            false => check_file(&entry.path(), MAX_POINTER_BYTES)?,
        }
    }
    Ok(())
}

/// Checks the lists of alternate object folders, recursively.
fn check_alternates(objects: &Path) -> Result<()> {
    let (mut left, mut seen) = (vec![objects.to_owned()], HashSet::new());
    while let Some(place) = left.pop() {
        let path = place.join("info/alternates");
        if !seen.insert(place) || metadata_of(&path)?.is_none() {
            continue;
        }
        let list = read_checked(&path, MAX_LIST_BYTES)?;
        let named = gix::odb::alternate::parse(&list)
            .map_err(|error| git_error(format!("read {}", path.display()), error))?;
        left.extend(named.into_iter().map(|named| objects.join(named)));
    }
    Ok(())
}

fn read_checked(path: &Path, limit: u64) -> Result<Vec<u8>> {
    check_file(path, limit)?;
    read_regular(path, limit).map_err(|error| Error::io(format!("read {}", path.display()), error))
}

/// Checks that `path` is a regular file of at most `limit` bytes, or does not exist.
fn check_file(path: &Path, limit: u64) -> Result<()> {
    let Some(found) = metadata_of(path)? else { return Ok(()) };
    if !found.is_file() {
        return Err(Error::invalid(format!("{}: expected a file", path.display())));
    }
    if found.len() > limit {
        return Err(Error::limit("bytes", limit, found.len()).at(path.display()));
    }
    Ok(())
}

/// Returns the metadata of `path` after following links. `None` if it does not exist, or for a
/// dangling link.
fn metadata_of(path: &Path) -> Result<Option<Metadata>> {
    let is_nothing = |error: &io::Error| {
        let kind = error.kind();
        matches!(kind, io::ErrorKind::NotFound | io::ErrorKind::NotADirectory)
    };
    match fs::metadata(path) {
        Ok(found) => Ok(Some(found)),
        Err(error) if is_nothing(&error) => Ok(None),
        Err(error) if is_invalid_path(&error) => {
            let message = format!("{}: it is not a valid path of a file", path.display());
            Err(Error::invalid(message))
        }
        Err(error) => Err(Error::io(format!("inspect {}", path.display()), error)),
    }
}
