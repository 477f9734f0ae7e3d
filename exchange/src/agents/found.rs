//! A session of an agent that was found somewhere.

use std::fs::Metadata;
use std::path::PathBuf;
use std::time::SystemTime;

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

/// Returns the modification time of a file; the Unix epoch if it is unknown.
pub(super) fn modified(is: &Metadata) -> SystemTime {
    is.modified().unwrap_or(SystemTime::UNIX_EPOCH)
}
