//! The place of a database that is derived from a store: a file among its caches, which whoever knows
//! how to read it opens by its path.
//!
//! It holds content, so it is for stores in the clear alone; a redaction removes it with everything else
//! in the folder before it returns.

use std::ffi::OsStr;
use std::io;
use std::path::PathBuf;

use super::folder::{MODE, NO_CACHES, open_folder};
use crate::error::{Error, ErrorKind, Result};
use crate::store::{DATABASE_PREFIX, Store, WORKSPACES_DIR};
use crate::workspace::disk::temp_file::TempFile;

/// Makes the file of the database `name` of `store` if there is none, empty and for its owner alone, and
/// returns its path.
///
/// # Errors
/// `Encrypted` for an encrypted store, in which nothing lies in the clear; `Io` when it cannot be made.
pub fn make_database(store: &Store, name: &str) -> Result<PathBuf> {
    if store.keys().is_some() {
        let message = "the store is encrypted, and nothing of it lies in the clear";
        return Err(Error::new(ErrorKind::Encrypted, message));
    }
    let failed = |error| Error::io("make a file beside the store", error);
    if store.keeps_no_caches() {
        return Err(failed(io::Error::new(io::ErrorKind::PermissionDenied, NO_CACHES)));
    }
    let folder = open_folder(store.dir()).map_err(failed)?;
    let file = file_name(name);
    let file = OsStr::new(&file);
    if folder.find(file).map_err(failed)?.is_none() {
        // It is closed before it has its name: whoever closes a file lets go of the locks that others of
        // this process have on it.
        let (part, made) = TempFile::file(&folder, file, MODE)?;
        drop(made);
        match part.name(file, None) {
            // Another process was faster, and made the same.
            Err(error) if matches!(error.kind(), ErrorKind::Locked | ErrorKind::Conflict) => {}
            named => named?,
        }
    }
    Ok(database_path(store, name))
}

/// Returns the path of the database `name` of `store`, be it there or not.
#[must_use]
pub fn database_path(store: &Store, name: &str) -> PathBuf {
    store.dir().join(WORKSPACES_DIR).join(file_name(name))
}

fn file_name(name: &str) -> String {
    format!("{DATABASE_PREFIX}{name}")
}
