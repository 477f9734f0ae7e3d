//! The stat of an entry.

use std::fs::{File, Metadata};
use std::io;
use std::os::windows::fs::{FileTypeExt, MetadataExt};

use windows_sys::Win32::Storage::FileSystem::FILE_ATTRIBUTE_READONLY;

use super::calls;

/// Types and permissions, as Unix writes them.
const FILE: u32 = 0o100_666;
const FOLDER: u32 = 0o040_777;
pub(super) const LINK: u32 = 0o120_777;
const SPECIAL: u32 = 0o020_666;
const WRITERS: u32 = 0o222;

/// Steps of times in a second, and the seconds from 1601 to 1970.
const STEPS: i64 = 10_000_000;
const UNTIL_1970: i64 = 11_644_473_600;
const NANOS_PER_STEP: i64 = 100;

/// The stat of an entry, with the names of Unix.
#[derive(Debug, Clone, Copy)]
pub(crate) struct RawStat {
    pub(crate) st_dev: u64,
    pub(crate) st_ino: u64,
    pub(crate) st_mode: u32,
    pub(crate) st_nlink: u64,
    pub(crate) st_size: u64,
    pub(crate) st_mtime: i64,
    pub(crate) st_mtime_nsec: i64,
    pub(crate) st_ctime: i64,
    pub(crate) st_ctime_nsec: i64,
}

impl RawStat {
    /// Describes an open entry. The size of a link is not known.
    pub(super) fn of(file: &File) -> io::Result<Self> {
        let found = winapi_util::file::information(file)?;
        let (changed, metadata) = (calls::change_time(file)?, file.metadata()?);
        let modified = found.last_write_time().unwrap_or_default().cast_signed();
        let is_read_only = metadata.file_attributes() & FILE_ATTRIBUTE_READONLY != 0;
        let denied = if is_read_only && metadata.is_file() { WRITERS } else { 0 };
        Ok(Self {
            st_dev: found.volume_serial_number(),
            st_ino: found.file_index(),
            st_mode: mode_of(&metadata) & !denied,
            st_nlink: found.number_of_links(),
            st_size: metadata.file_size(),
            st_mtime: seconds(modified),
            st_mtime_nsec: nanos(modified),
            st_ctime: seconds(changed),
            st_ctime_nsec: nanos(changed),
        })
    }
}

fn mode_of(found: &Metadata) -> u32 {
    let kind = found.file_type();
    match () {
        () if kind.is_symlink() || kind.is_symlink_dir() || kind.is_symlink_file() => LINK,
        () if kind.is_dir() => FOLDER,
        () if kind.is_file() => FILE,
        () => SPECIAL,
    }
}

/// A time of zero means that the file system has none.
const fn seconds(time: i64) -> i64 {
    if time == 0 { 0 } else { time.div_euclid(STEPS) - UNTIL_1970 }
}

const fn nanos(time: i64) -> i64 {
    time.rem_euclid(STEPS) * NANOS_PER_STEP
}
