//! Reads the storage directories of a framework.
//!
//! Only its own folders are read, no link is followed, and unreadable files are reported.

use std::fs;
use std::path::{Path, PathBuf};

use bytes::Bytes;
use turntree::error::{Error, Result};
use turntree::workspace::read_regular;

/// Largest file, in bytes.
const MAX_FILE_BYTES: u64 = 256 << 20;

/// Most folders in folders.
const MAX_DEPTH: usize = 32;

/// A file of the folder.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FolderFile {
    /// Its path below the folder, its parts separated by `/`.
    pub path: String,
    /// The content.
    pub bytes: Bytes,
}

/// An oddity of a file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FolderNote {
    /// The file.
    pub path: String,
    /// The description, as readable text.
    pub what: String,
}

/// The files of a directory.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct StoredTree {
    /// The name of the directory.
    pub name: String,
    /// Files by their path below it, in order.
    pub files: Vec<FolderFile>,
    /// Files that were left out.
    pub odd: Vec<FolderNote>,
}

/// Returns the folders of a directory to read, by its name and a test for folders: the folder
/// without a name is the whole directory.
pub type FoldersOf = fn(&str, &dyn Fn(&str) -> bool) -> Vec<&'static str>;

/// Reads the files in the folders of `dir` that `folders_of` names. All of it is held in memory.
///
/// # Errors
/// `Io` when a directory cannot be read.
pub fn read_tree(dir: &Path, folders_of: FoldersOf) -> Result<StoredTree> {
    let name = dir.file_name().unwrap_or_default().to_string_lossy().into_owned();
    let has =
        |folder: &str| fs::symlink_metadata(dir.join(folder)).is_ok_and(|found| found.is_dir());
    let mut gathered = StoredTree { name: name.clone(), ..StoredTree::default() };
    for folder in folders_of(&name, &has) {
        gathered.folder(&dir.join(folder), folder, 0)?;
    }
    gathered.files.sort_by(|a, b| a.path.cmp(&b.path));
    Ok(gathered)
}

/// Reads the files of `dir`, and of the folders in it that `folders` names, whose paths are
/// `wanted`. All of it is held in memory; other files are not read.
///
/// # Errors
/// `Io` when a directory cannot be read.
pub fn read_files(
    dir: &Path,
    folders: &[&str],
    wanted: impl Fn(&str) -> bool,
) -> Result<StoredTree> {
    let name = dir.file_name().unwrap_or_default().to_string_lossy().into_owned();
    let mut gathered = StoredTree { name, ..StoredTree::default() };
    for folder in std::iter::once("").chain(folders.iter().copied()) {
        let place = dir.join(folder);
        if !fs::symlink_metadata(&place).is_ok_and(|found| found.is_dir()) {
            continue;
        }
        let failed = |error| Error::io(format!("read the directory {}", place.display()), error);
        for entry in fs::read_dir(&place).map_err(failed)? {
            let path = entry.map_err(failed)?.path();
            let name = path.file_name().unwrap_or_default().to_string_lossy();
            let below =
                if folder.is_empty() { name.into_owned() } else { format!("{folder}/{name}") };
            if wanted(&below) {
                gathered.found(&path, below);
            }
        }
    }
    gathered.files.sort_by(|a, b| a.path.cmp(&b.path));
    gathered.odd.sort_by(|a, b| a.path.cmp(&b.path));
    Ok(gathered)
}

impl StoredTree {
    /// Takes a file, if it is one that can be read.
    fn found(&mut self, path: &Path, below: String) {
        match fs::symlink_metadata(path) {
            Err(error) => self.leave_out(below, &error.to_string()),
            Ok(found) if !found.is_file() => self.leave_out(below, "it is not a file"),
            Ok(found) if found.len() > MAX_FILE_BYTES => {
                self.leave_out(below, &format!("it is larger than {MAX_FILE_BYTES} bytes"));
            }
            Ok(_) => match read_regular(path, MAX_FILE_BYTES) {
                Ok(bytes) => self.files.push(FolderFile { path: below, bytes: bytes.into() }),
                Err(error) => self.leave_out(below, &error.to_string()),
            },
        }
    }

    fn folder(&mut self, dir: &Path, below: &str, depth: usize) -> Result<()> {
        let failed = |error| Error::io(format!("read the directory {}", dir.display()), error);
        let mut paths: Vec<PathBuf> = Vec::new();
        for entry in fs::read_dir(dir).map_err(failed)? {
            paths.push(entry.map_err(failed)?.path());
        }
        paths.sort();
        for path in paths {
            let name = path.file_name().unwrap_or_default();
            let shown = name.to_string_lossy();
            let below =
                if below.is_empty() { shown.into_owned() } else { format!("{below}/{shown}") };
            let found = fs::symlink_metadata(&path);
            match found {
                _ if name.to_str().is_none() => self.leave_out(below, "its name is not UTF-8"),
                Err(error) => self.leave_out(below, &error.to_string()),
                Ok(found) if found.is_dir() && depth < MAX_DEPTH => {
                    self.folder(&path, &below, depth + 1)?;
                }
                Ok(found) if found.is_dir() => self.leave_out(below, "it is nested too deep"),
                Ok(_) => self.found(&path, below),
            }
        }
        Ok(())
    }

    fn leave_out(&mut self, path: String, why: &str) {
        self.odd.push(FolderNote { path, what: format!("left out: {why}") });
    }
}
