//! Calls of [`Io`] on the files of a store, with errors that name the action and the path.
//!
//! Other processes create, replace and remove files at any time. So a missing name, or one that
//! already exists, is a result here and not an error.

use std::io::{self, ErrorKind};
use std::path::Path;
use std::sync::Arc;

use super::io::{Access, Identity, Io, IoFile};
use crate::error::{Error, Result};

/// Converts the error of a failed system call, with the action and the path.
pub(super) fn failed(action: &str, path: &Path) -> impl Fn(io::Error) -> Error {
    move |source| Error::io(format!("{action} {}", path.display()), source)
}

impl dyn Io + '_ {
    /// Lists the names in a directory.
    pub(super) fn list_names(&self, dir: &Path) -> Result<Vec<String>> {
        self.list(dir).map_err(failed("list", dir))
    }

    /// Lists the names in a directory. Returns none if it is missing: a copy of a store may have
    /// lost an empty folder.
    pub(super) fn list_or_empty(&self, dir: &Path) -> Result<Vec<String>> {
        Ok(none_on(ErrorKind::NotFound, self.list(dir))
            .map_err(failed("list", dir))?
            .unwrap_or_default())
    }

    /// Opens a file that must exist.
    pub(super) fn open_named(&self, path: &Path, access: Access) -> Result<Arc<dyn IoFile>> {
        self.open(path, access).map_err(failed("open", path))
    }

    /// Opens a file, if it exists.
    pub(super) fn open_if_exists(
        &self,
        path: &Path,
        access: Access,
    ) -> Result<Option<Arc<dyn IoFile>>> {
        none_on(ErrorKind::NotFound, self.open(path, access)).map_err(failed("open", path))
    }

    /// Creates a file, unless the name is taken.
    pub(super) fn create_if_free(&self, path: &Path) -> Result<Option<Arc<dyn IoFile>>> {
        none_on(ErrorKind::AlreadyExists, self.create(path)).map_err(failed("create", path))
    }

    /// Creates a directory, unless it exists.
    pub(super) fn create_dir_if_missing(&self, dir: &Path) -> Result<()> {
        none_on(ErrorKind::AlreadyExists, self.create_dir(dir)).map_err(failed("create", dir))?;
        Ok(())
    }

    /// Removes a name, if it exists.
    pub(super) fn remove_if_exists(&self, path: &Path) -> Result<()> {
        none_on(ErrorKind::NotFound, self.remove(path)).map_err(failed("remove", path))?;
        Ok(())
    }

    /// Returns the identity of the file with a name, if it exists.
    pub(super) fn identity_if_exists(&self, path: &Path) -> Result<Option<Identity>> {
        none_on(ErrorKind::NotFound, self.identity(path)).map_err(failed("inspect", path))
    }

    /// Makes the names in a directory durable.
    pub(super) fn sync_names(&self, dir: &Path) -> Result<()> {
        self.sync_dir(dir).map_err(failed("sync", dir))
    }
}

/// Converts one kind of error to `None`.
fn none_on<T>(absent: ErrorKind, answer: io::Result<T>) -> io::Result<Option<T>> {
    match answer {
        Err(source) if source.kind() == absent => Ok(None),
        answer => answer.map(Some),
    }
}
