//! Checks a repository before it is opened: that it is in files, and that these have an end.
//!
//! A pipe in place of `HEAD` would be waited for, and a device in place of the packed refs read until
//! memory ends. Objects and packs need no such look: only files are taken for these, and there is a
//! bound for what they claim to be long.

use std::collections::HashSet;
use std::fs::{self, Metadata};
use std::io;
use std::path::{Path, PathBuf};

use turntree::error::{Error, Result};
use turntree::workspace::read_regular;

use super::{git_error, is_no_path};

/// Files that name something: `HEAD`, a ref, another folder.
const MAX_POINTER_BYTES: u64 = 64 << 10;

/// Settings, and lists of a few things.
const MAX_LIST_BYTES: u64 = 16 << 20;

/// All refs in one file.
const MAX_PACKED_REFS_BYTES: u64 = 256 << 20;

/// The files that are read of the folder of a repository, and their largest sizes.
const FILES: [(&str, u64); 6] = [
    ("HEAD", MAX_POINTER_BYTES),
    ("commondir", MAX_POINTER_BYTES),
    ("config", MAX_LIST_BYTES),
    ("config.worktree", MAX_LIST_BYTES),
    ("shallow", MAX_LIST_BYTES),
    ("packed-refs", MAX_PACKED_REFS_BYTES),
];

/// Most folders of refs in each other.
const MAX_DEPTH: usize = 64;

/// Looks at what is read when the repository in `dir` is opened and its refs are followed.
///
/// # Errors
/// `InvalidInput` or `LimitExceeded`, naming the first that is no file or too long.
pub(super) fn check(dir: &Path) -> Result<()> {
    let dot = dir.join(".git");
    let git = match pointed(&dot, "gitdir:")? {
        Some(named) => dir.join(named),
        None if is_git(&dot) => dot,
        None if is_git(dir) => dir.to_owned(),
        None => return Ok(()),
    };
    folder(&git)?;
    let common = match pointed(&git.join("commondir"), "")? {
        Some(named) => git.join(named),
        None => git,
    };
    folder(&common)?;
    alternates(&common.join("objects"))
}

/// Returns true if a folder may be taken for that of a repository.
fn is_git(dir: &Path) -> bool {
    let has = |name| fs::symlink_metadata(dir.join(name)).is_ok();
    has("HEAD") && (has("objects") || has("commondir"))
}

/// The path that a file names behind `lead`; nothing when there is no such file.
fn pointed(path: &Path, lead: &str) -> Result<Option<PathBuf>> {
    if found(path)?.is_none_or(|found| found.is_dir()) {
        return Ok(None);
    }
    let bytes = read(path, MAX_POINTER_BYTES)?;
    let text = String::from_utf8_lossy(&bytes);
    Ok(text.strip_prefix(lead).map(|named| PathBuf::from(named.trim())))
}

fn folder(git: &Path) -> Result<()> {
    for (name, limit) in FILES {
        file(&git.join(name), limit)?;
    }
    refs(&git.join("refs"), 0)
}

/// Every ref is a file, or a link to one; links to folders are nothing that git makes.
fn refs(dir: &Path, depth: usize) -> Result<()> {
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
                    "folders of refs in each other",
                    MAX_DEPTH as u64,
                    MAX_DEPTH as u64 + 1,
                ));
            }
            true => refs(&entry.path(), depth + 1)?,
            false => file(&entry.path(), MAX_POINTER_BYTES)?,
        }
    }
    Ok(())
}

/// Follows the lists of other places of objects.
fn alternates(objects: &Path) -> Result<()> {
    let (mut left, mut seen) = (vec![objects.to_owned()], HashSet::new());
    while let Some(place) = left.pop() {
        let path = place.join("info/alternates");
        if !seen.insert(place) || found(&path)?.is_none() {
            continue;
        }
        let list = read(&path, MAX_LIST_BYTES)?;
        let named = gix::odb::alternate::parse(&list)
            .map_err(|error| git_error(format!("read {}", path.display()), error))?;
        left.extend(named.into_iter().map(|named| objects.join(named)));
    }
    Ok(())
}

fn read(path: &Path, limit: u64) -> Result<Vec<u8>> {
    file(path, limit)?;
    read_regular(path, limit).map_err(|error| Error::io(format!("read {}", path.display()), error))
}

/// That `path` is a file of at most `limit` bytes, or nothing.
fn file(path: &Path, limit: u64) -> Result<()> {
    let Some(found) = found(path)? else { return Ok(()) };
    if !found.is_file() {
        return Err(Error::invalid(format!("{}: expected a file", path.display())));
    }
    if found.len() > limit {
        return Err(Error::limit("bytes", limit, found.len()).at(path.display()));
    }
    Ok(())
}

/// Returns the metadata at `path`, behind links; nothing where there is nothing, or links lead
/// nowhere.
fn found(path: &Path) -> Result<Option<Metadata>> {
    let is_nothing = |error: &io::Error| {
        let kind = error.kind();
        matches!(kind, io::ErrorKind::NotFound | io::ErrorKind::NotADirectory)
    };
    match fs::metadata(path) {
        Ok(found) => Ok(Some(found)),
        Err(error) if is_nothing(&error) => Ok(None),
        Err(error) if is_no_path(&error) => {
            let message = format!("{}: no file can have such a path", path.display());
            Err(Error::invalid(message))
        }
        Err(error) => Err(Error::io(format!("look at {}", path.display()), error)),
    }
}
