//! The errors of an index, by their remedy.

use rusqlite::ErrorCode;
use turntree::error::Error;

/// The reason why an index is unusable.
#[derive(Debug)]
pub(in crate::search) enum IndexError {
    /// Damaged, or of another version or store. The search drops and rebuilds it.
    Damaged,
    /// The store cannot keep an index, for this reason. The search builds one in memory.
    Refused(String),
    /// The store itself is unreadable.
    Store(Error),
}

impl IndexError {
    pub(super) fn refused(why: &str) -> Self {
        Self::Refused(why.to_owned())
    }
}

impl From<Error> for IndexError {
    fn from(error: Error) -> Self {
        Self::Store(error)
    }
}

impl From<rusqlite::Error> for IndexError {
    fn from(error: rusqlite::Error) -> Self {
        let why = match error.sqlite_error_code() {
            Some(ErrorCode::ReadOnly) => "it cannot be written to",
            Some(ErrorCode::DiskFull) => "the disk is full",
            Some(ErrorCode::CannotOpen | ErrorCode::PermissionDenied) => "it cannot be opened",
            Some(ErrorCode::DatabaseBusy | ErrorCode::DatabaseLocked) => {
                "another process has been filling it for a long time"
            }
            Some(ErrorCode::SystemIoFailure) => "the disk reports an error",
            Some(ErrorCode::OutOfMemory) => "memory is exhausted",
            // The statements match the schema, so any other error means that the tables are not
            // ours.
            _ => return Self::Damaged,
        };
        Self::refused(why)
    }
}
