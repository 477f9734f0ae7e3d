//! Finds files of open-codesign that belong together: its directory, or a database with its log.

use std::fs;
use std::io::Read;
use std::path::{Path, PathBuf};

use turntree::Error;
use turntree::object::MAX_BLOB_BYTES;
use turntree::platform::canonical;
use turntree::workspace::{open_regular, read_regular};
use turntree_exchange::Format;
use turntree_exchange::formats::FolderFile;
use turntree_exchange::formats::codesign::is_stored;
use turntree_exchange::{StoredTree, read_files};

use crate::view::error::Result;

/// The format of these files.
const FORMAT: &str = "codesign";

/// The directory with chats.
const FOLDERS: [&str; 1] = ["sessions"];

/// The name under which a database is imported, whatever its file name.
const DATABASE: &str = "designs.db";
const LOG: &str = "-wal";

/// The files at `path`: those of an open-codesign directory, or a database with its log. `None` for
/// anything else, and if another format is given.
pub(super) fn gather(path: &Path, format: Option<&Format>) -> Result<Option<StoredTree>> {
    if format.is_some_and(|format| format.name != FORMAT) {
        return Ok(None);
    }
    if path.is_dir() {
        let found = read_files(&full(path)?, &FOLDERS, is_stored)?;
        return Ok(Some(found).filter(|found| !found.files.is_empty()));
    }
    let mut log = path.as_os_str().to_owned();
    log.push(LOG);
    let log = PathBuf::from(log);
    let has_log = fs::metadata(&log).is_ok_and(|found| found.is_file() && found.len() > 0);
    if !has_log || !is_database(path) {
        return Ok(None);
    }
    let mut found = StoredTree::default();
    for (path, name) in [(path, DATABASE.to_owned()), (&log, format!("{DATABASE}{LOG}"))] {
        let bytes = read_regular(path, MAX_BLOB_BYTES as u64)
            .map_err(|error| Error::io(format!("read {}", path.display()), error))?;
        found.files.push(FolderFile { path: name, bytes: bytes.into() });
    }
    Ok(Some(found))
}

/// The canonical path of the directory; its last component names the session.
pub(super) fn full(path: &Path) -> Result<PathBuf> {
    let failed = |error| Error::io(format!("open {}", path.display()), error);
    Ok(canonical(path).map_err(failed)?)
}

/// Returns true if a file begins like a database.
fn is_database(path: &Path) -> bool {
    let mut head = Vec::new();
    let read = open_regular(path).and_then(|file| file.take(16).read_to_end(&mut head));
    read.is_ok() && turntree_exchange::detect(&head).is_ok_and(|format| format.name == FORMAT)
}
