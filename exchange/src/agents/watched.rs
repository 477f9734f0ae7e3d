//! Folders in which agents write their sessions.

use std::path::{Path, PathBuf};

use super::name::is_file_of_session;

/// A folder in which an agent writes its sessions. It need not be there.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct WatchedFolder {
    /// The folder.
    pub path: PathBuf,
    /// Set when the folders in it are searched, too.
    pub is_deep: bool,
}

impl WatchedFolder {
    /// Returns true if an event for the file or folder at `path` may be about a session: a write
    /// below this folder, or the creation or deletion of this folder.
    #[must_use]
    pub fn concerns(&self, path: &Path) -> bool {
        if self.path.starts_with(path) {
            return true;
        }
        let is_inside = match self.is_deep {
            true => path.starts_with(&self.path),
            false => path.parent() == Some(&self.path),
        };
        // A name without an extension is taken for a folder.
        is_inside && (path.extension().is_none() || is_file_of_session(path))
    }
}
