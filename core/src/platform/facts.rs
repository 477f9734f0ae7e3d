//! What identifies a state of a file.

use std::fs::File;
use std::io;
use std::path::Path;

use super::{RawStat, stat_of, stat_of_path};

/// The identity of a file, and its last change. Two equal facts are of one state of a file, as far
/// as the clock of the file system tells.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub struct FileFacts {
    /// The device or volume, and the number of the file on it.
    pub identity: (u64, u64),
    /// The number of hard links.
    pub links: u64,
    /// The size in bytes.
    pub bytes: u64,
    /// When the content changed, in seconds and nanoseconds since 1970. Users can set it.
    pub modified: (i64, i64),
    /// When the content or the attributes changed. Only the system sets it.
    pub changed: (i64, i64),
}

impl FileFacts {
    /// Describes an open file.
    ///
    /// # Errors
    /// When the system refuses.
    pub fn of(file: &File) -> io::Result<Self> {
        Ok(Self::from(&stat_of(file)?))
    }

    /// Describes the file at `path`, following links.
    ///
    /// # Errors
    /// `NotFound` if there is none.
    pub fn at(path: &Path) -> io::Result<Self> {
        Ok(Self::from(&stat_of_path(path)?))
    }
}

/// Field widths differ between systems. No value is larger than these fields, except in theory: then
/// it is the largest.
impl From<&RawStat> for FileFacts {
    fn from(stat: &RawStat) -> Self {
        let unsigned = |number: i128| u64::try_from(number).unwrap_or(u64::MAX);
        let signed = |number: i128| i64::try_from(number).unwrap_or(i64::MAX);
        Self {
            identity: (unsigned(stat.st_dev.into()), unsigned(stat.st_ino.into())),
            links: unsigned(stat.st_nlink.into()),
            bytes: unsigned(stat.st_size.into()),
            modified: (signed(stat.st_mtime.into()), signed(stat.st_mtime_nsec.into())),
            changed: (signed(stat.st_ctime.into()), signed(stat.st_ctime_nsec.into())),
        }
    }
}
