//! What can go wrong with an index, by what is done then.

use rusqlite::ErrorCode;
use turntree::error::Error;

/// Why an index could not be used.
#[derive(Debug)]
pub(in crate::search) enum Trouble {
    /// It is damaged, or of another version or store: it is dropped and made again.
    Damaged,
    /// It cannot be kept beside the store, for this reason: one in memory takes its place.
    Refused(String),
    /// The store itself cannot be read.
    Store(Error),
}

impl Trouble {
    pub(super) fn refused(why: &str) -> Self {
        Self::Refused(why.to_owned())
    }
}

impl From<Error> for Trouble {
    fn from(error: Error) -> Self {
        Self::Store(error)
    }
}

impl From<rusqlite::Error> for Trouble {
    fn from(error: rusqlite::Error) -> Self {
        let why = match error.sqlite_error_code() {
            Some(ErrorCode::ReadOnly) => "it cannot be written to",
            Some(ErrorCode::DiskFull) => "the disk is full",
            Some(ErrorCode::CannotOpen | ErrorCode::PermissionDenied) => "it cannot be opened",
            Some(ErrorCode::DatabaseBusy | ErrorCode::DatabaseLocked) => {
                "another process has filled it for a long time"
            }
            Some(ErrorCode::SystemIoFailure) => "the disk refuses",
            Some(ErrorCode::OutOfMemory) => "there is no memory left",
            // Our statements fit our tables, so these are not our tables.
            _ => return Self::Damaged,
        };
        Self::refused(why)
    }
}
