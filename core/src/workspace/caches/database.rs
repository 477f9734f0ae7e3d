//! The path of a database that is derived from a store: a file in its cache folder. Its reader
//! opens it by path.
//!
//! It holds content, so only unencrypted stores have one. A redaction deletes it with the rest of
//! the folder before it returns.

use std::ffi::OsStr;
use std::io;
use std::path::PathBuf;

use super::folder::{MODE, NO_CACHES, open_folder};
use crate::error::{Error, ErrorKind, Result};
use crate::repo::Repository;
use crate::store::{DATABASE_PREFIX, WORKSPACES_DIR};
use crate::workspace::disk::temp_file::TempFile;

/// Creates the file of the database `name` of `store` if it is missing, empty and readable only by
/// its owner, and returns its path.
///
/// # Errors
/// `Encrypted` for an encrypted store, which has no plaintext files; `Io` if creating it fails.
pub fn make_database(repo: &Repository, name: &str) -> Result<PathBuf> {
    let store = repo.store();
    if store.keys().is_some() {
        let message = "the store is encrypted and has no plaintext files";
        return Err(Error::new(ErrorKind::Encrypted, message));
    }
    let failed = |error| Error::io("create a file next to the store", error);
    if store.keeps_no_caches() {
        return Err(failed(io::Error::new(io::ErrorKind::PermissionDenied, NO_CACHES)));
    }
    let folder = open_folder(store.dir()).map_err(failed)?;
    let file = file_name(name);
    let file = OsStr::new(&file);
    if folder.find(file).map_err(failed)?.is_none() {
        // Close the file before it gets its name: closing a file releases all POSIX locks that this
        // process has on it.
        let (part, made) = TempFile::file(&folder, file, MODE)?;
        drop(made);
        match part.name(file, None) {
            // Another process created the same file first.
            Err(error) if matches!(error.kind(), ErrorKind::Locked | ErrorKind::Conflict) => {}
            named => named?,
        }
    }
    Ok(database_path(repo, name))
}

/// Returns the path of the database `name` of `store`, whether it exists or not.
#[must_use]
pub fn database_path(repo: &Repository, name: &str) -> PathBuf {
    let store = repo.store();
    store.dir().join(WORKSPACES_DIR).join(file_name(name))
}

fn file_name(name: &str) -> String {
    format!("{DATABASE_PREFIX}{name}")
}
