//! A session that was found on this machine, and the databases and folders that hold several.

use std::fs::Metadata;
use std::io::BufRead;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::SystemTime;

use turntree::error::{Error, Result};

use super::watched::WatchedFolder;
use crate::model::format::Format;

/// A session of an agent.
#[derive(Debug, Clone)]
pub struct FoundSession {
    /// The agent: that of the place, or the format of a file that the user named.
    pub agent: String,
    /// The file; for the files of opencode, the session's own record.
    pub path: PathBuf,
    /// The id of the session in the file, when that is a database.
    pub entry: Option<String>,
    /// The format.
    pub format: &'static Format,
    /// The name.
    pub session: String,
    /// Its bytes, in all its files, or in its rows.
    pub bytes: u64,
    /// The last modification of its file, if the system reports it, or of the database.
    pub modified: SystemTime,
}

/// A way to keep sessions other than as one file each: a database, or folders of files. Its
/// sessions are read as documents.
pub(super) trait SessionSource: Sync {
    /// Returns true if a folder holds sessions in this way, by its content.
    fn is_folder(&self, _folder: &Path) -> bool {
        false
    }

    /// Returns true if a file holds sessions in this way, by its name.
    fn is_named(&self, _file: &Path) -> bool {
        false
    }

    /// Returns true if a file that the user named may hold sessions in this way, by its beginning.
    fn may_be(&self, _file: &Path) -> bool {
        false
    }

    /// Returns the files or folders that hold the sessions of a place of the agent.
    fn within(&self, _place: &Path) -> Vec<PathBuf> {
        Vec::new()
    }

    /// Returns the folder of a place in which the agent writes.
    fn watched(&self, place: &Path) -> WatchedFolder {
        WatchedFolder { path: place.to_owned(), is_deep: true }
    }

    /// Lists the sessions that a file or folder holds; `None` if it holds none in this way.
    ///
    /// # Errors
    /// Errors of reading.
    fn sessions(&self, holder: &Path) -> Result<Option<HeldSessions>>;

    /// Returns true if a session is held in this way.
    fn has(&self, found: &FoundSession) -> bool;

    /// Returns a folder that changes with a session although its path does not.
    fn other_sign(&self, _found: &FoundSession) -> Option<PathBuf> {
        None
    }

    /// Returns a reader for many sessions, which may keep files open.
    fn reader(&self) -> Box<dyn SessionReader>;
}

/// Reads the sessions of a source.
pub(super) trait SessionReader: Sync {
    /// Returns the document of a session of the source; `None` for any other session. Errors that
    /// occur while it is read are left in `failure`.
    ///
    /// # Errors
    /// Errors of opening it.
    fn document(&self, found: &FoundSession, failure: &Failure)
    -> Result<Option<Box<dyn BufRead>>>;
}

/// The sessions of a file or folder that holds several.
#[derive(Debug, Default)]
pub(super) struct HeldSessions {
    pub(super) sessions: Vec<FoundSession>,
    /// The content that is not read.
    pub(super) odd: Option<Error>,
}

/// The slot in which a reader leaves its error, since those who read from it see an error of I/O
/// only.
#[derive(Debug, Clone, Default)]
pub(super) struct Failure(Arc<Mutex<Option<Error>>>);

impl Failure {
    pub(super) fn put(&self, error: Error) {
        *self.0.lock().unwrap_or_else(PoisonError::into_inner) = Some(error);
    }

    /// Returns the error, if there was one.
    pub(super) fn take(&self) -> Option<Error> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).take()
    }
}

/// Returns the modification time of a file; the Unix epoch if it is unknown.
pub(super) fn modified(is: &Metadata) -> SystemTime {
    is.modified().unwrap_or(SystemTime::UNIX_EPOCH)
}
