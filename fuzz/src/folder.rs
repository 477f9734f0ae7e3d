//! Folders for targets that read files: new for each input, and inspected afterwards.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};

use tempfile::TempDir;

/// The in-memory file system, on systems that have one.
const IN_MEMORY: &str = "/dev/shm";

/// Creates a folder that is deleted when it is dropped.
pub(crate) fn new_folder() -> TempDir {
    TempDir::new_in(IN_MEMORY).or_else(|_| TempDir::new()).expect("a folder")
}

/// Returns every file and folder below `folder`; files with their content.
pub(crate) fn listing(folder: &Path) -> BTreeMap<PathBuf, Option<Vec<u8>>> {
    let mut found = BTreeMap::new();
    let mut left = vec![folder.to_owned()];
    while let Some(folder) = left.pop() {
        for entry in fs::read_dir(folder).expect("a folder of ours") {
            let path = entry.expect("a name").path();
            let content = match path.is_dir() {
                true => {
                    left.push(path.clone());
                    None
                }
                false => Some(fs::read(&path).expect("a file of ours")),
            };
            found.insert(path, content);
        }
    }
    found
}
