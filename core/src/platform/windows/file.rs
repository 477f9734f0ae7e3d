//! Files: opening, identities, locks, positioned reads and writes.
//!
//! Files are opened so that other processes may rename, replace and remove them, which is what
//! Rust's library does. Other programs do not: a virus scanner or an indexer holds new files for
//! moments, so changes of names are tried again for a while.

use std::borrow::Cow;
use std::ffi::{OsStr, OsString};
use std::fs::{self, DirBuilder, File, Metadata, OpenOptions, Permissions};
use std::io;
use std::os::windows::fs::{FileExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use windows_sys::Win32::Foundation::{
    ERROR_ACCESS_DENIED, ERROR_INVALID_FUNCTION, ERROR_INVALID_HANDLE, ERROR_LOCK_VIOLATION,
    ERROR_NOT_SUPPORTED, ERROR_SHARING_VIOLATION, GENERIC_WRITE,
};
use windows_sys::Win32::Storage::FileSystem::{
    FILE_APPEND_DATA, FILE_FLAG_BACKUP_SEMANTICS, FILE_FLAG_OPEN_REPARSE_POINT,
    FILE_READ_ATTRIBUTES, FILE_SHARE_DELETE, FILE_SHARE_READ,
};

use super::calls;
use super::errors::number;
use super::stat::RawStat;
use crate::platform::Lock;

/// The environment variable with the home directory of the user.
pub const HOME_VARIABLE: &str = "USERPROFILE";

/// The git settings of the machine: git for Windows has them where it is installed.
pub(crate) const SYSTEM_CONFIG: Option<&str> = None;

/// How long a change of a name is tried while another program has the file.
const PATIENCE: Duration = Duration::from_millis(500);

/// First and longest pause between two attempts.
const PAUSE_MIN: Duration = Duration::from_millis(1);
const PAUSE_MAX: Duration = Duration::from_millis(50);

/// Does nothing: a new file has the permissions of its directory, and those of a user's profile are
/// for the user and the administrators alone.
pub fn private(options: &mut OpenOptions) -> &mut OpenOptions {
    options
}

/// Does nothing: a new file has the permissions of its directory.
pub fn with_permissions_of<'o>(
    options: &'o mut OpenOptions,
    _other: &Metadata,
) -> &'o mut OpenOptions {
    options
}

/// Returns `None`: a script needs no permissions of its own.
#[must_use]
pub fn script_permissions(_before: Option<&Metadata>) -> Option<Permissions> {
    None
}

/// Returns false: whether a file is a program follows from its name.
#[must_use]
pub fn is_program(_found: &Metadata) -> bool {
    false
}

/// Returns false: the permissions of a file are those of its directory, and are not inspected.
#[must_use]
pub fn has_other_users(_found: &Metadata) -> bool {
    false
}

/// Returns a builder of directories. They have the permissions of their parent.
#[must_use]
pub fn private_folders() -> DirBuilder {
    DirBuilder::new()
}

/// Opens a symbolic link or a junction itself, which is no regular file.
pub fn without_links(options: &mut OpenOptions) -> &mut OpenOptions {
    options.custom_flags(FILE_FLAG_OPEN_REPARSE_POINT)
}

/// Does nothing: opening a pipe or a device waits for nothing here.
pub(crate) fn waiting_for_nothing(options: &mut OpenOptions) -> &mut OpenOptions {
    options
}

/// Returns true for a regular file.
pub(crate) fn is_plain_file(file: &File) -> io::Result<bool> {
    // A device such as NUL looks like an empty file.
    Ok(winapi_util::file::typ(file)?.is_disk() && file.metadata()?.is_file())
}

/// Returns the name of the kind of an entry that is no file, directory or link.
pub(crate) fn kind_of_special(_found: &Metadata) -> &'static str {
    "device"
}

/// Returns the volume and the index of the file at `path`, following links.
///
/// # Errors
/// `NotFound` if there is none.
pub fn identity(path: &Path) -> io::Result<(u64, u64)> {
    file_identity(&open_to_inspect(path, 0)?)
}

/// Returns the volume and the index of the entry at `path`; of a link, not of its target.
///
/// # Errors
/// `NotFound` if there is none.
pub fn own_identity(path: &Path) -> io::Result<(u64, u64)> {
    file_identity(&open_to_inspect(path, FILE_FLAG_OPEN_REPARSE_POINT)?)
}

/// Returns the volume and the index of an open file.
pub(crate) fn file_identity(file: &File) -> io::Result<(u64, u64)> {
    let found = winapi_util::file::information(file)?;
    Ok((found.volume_serial_number(), found.file_index()))
}

/// Opens a file or a directory for its attributes alone.
pub(super) fn open_to_inspect(path: &Path, flags: u32) -> io::Result<File> {
    let mut options = OpenOptions::new();
    options.access_mode(FILE_READ_ATTRIBUTES).custom_flags(FILE_FLAG_BACKUP_SEMANTICS | flags);
    patiently(|| options.open(path))
}

/// Returns the stat of an open file.
pub(crate) fn stat_of(file: &File) -> io::Result<RawStat> {
    RawStat::of(file)
}

/// Returns the stat of the file at `path`, following links.
pub(crate) fn stat_of_path(path: &Path) -> io::Result<RawStat> {
    RawStat::of(&open_to_inspect(path, 0)?)
}

/// Returns the identity of a store's directory, which no copy shares: the index and the creation
/// time. A program could choose the latter, but not the former.
pub(crate) fn store_identity(store: &Path) -> io::Result<Vec<i128>> {
    let found = winapi_util::file::information(open_to_inspect(store, 0)?)?;
    let made = found.creation_time().unwrap_or_default();
    Ok(vec![found.volume_serial_number().into(), found.file_index().into(), made.into()])
}

/// Tries to take the exclusive lock of a file, which no read or write respects.
///
/// # Errors
/// When the file system has no locks.
pub fn try_lock(file: &File) -> io::Result<Lock> {
    Ok(if calls::lock(file)? { Lock::Taken } else { Lock::Busy })
}

/// Opens a directory under a lock that ends with the handle; `None` if another handle has it.
///
/// A directory has no bytes to lock. So it is opened for new entries, and lets no other process do
/// so; listing and opening its files need no such access.
///
/// # Errors
/// When the directory cannot be opened.
pub fn lock_folder(dir: &Path) -> io::Result<Option<File>> {
    let mut options = OpenOptions::new();
    options
        .access_mode(FILE_APPEND_DATA)
        .share_mode(FILE_SHARE_READ | FILE_SHARE_DELETE)
        .custom_flags(FILE_FLAG_BACKUP_SEMANTICS);
    match options.open(dir) {
        Ok(folder) => Ok(Some(folder)),
        Err(error) if error.raw_os_error() == Some(number(ERROR_SHARING_VIOLATION)) => Ok(None),
        Err(error) => Err(error),
    }
}

/// Releases the lock of a file.
///
/// # Errors
/// When the file system has no locks.
pub fn unlock(file: &File) -> io::Result<()> {
    calls::unlock(file)
}

/// Reads at an offset.
///
/// # Errors
/// When the disk refuses.
pub fn read_at(file: &File, buffer: &mut [u8], offset: u64) -> io::Result<usize> {
    file.seek_read(buffer, offset)
}

/// Writes all bytes at an offset.
///
/// # Errors
/// When the disk refuses; any part of the bytes may have been written.
pub fn write_all_at(file: &File, bytes: &[u8], offset: u64) -> io::Result<()> {
    let (mut rest, mut at) = (bytes, offset);
    while !rest.is_empty() {
        match file.seek_write(rest, at)? {
            0 => return Err(io::ErrorKind::WriteZero.into()),
            written => {
                rest = rest.get(written..).unwrap_or_default();
                at += written as u64;
            }
        }
    }
    Ok(())
}

/// Makes the bytes of a file durable. That takes a handle that may write, so a file that is open for
/// reading is opened once more.
pub(crate) fn sync_data(file: &File) -> io::Result<()> {
    match file.sync_data() {
        Err(error) if error.raw_os_error() == Some(number(ERROR_ACCESS_DENIED)) => {
            calls::open_again_to_write(file)?.sync_data()
        }
        synced => synced,
    }
}

/// Renames a file; `AlreadyExists` if the name is taken.
pub(crate) fn rename_to_free(from: &Path, to: &Path) -> io::Result<()> {
    patiently(|| calls::rename_to_free(from, to))
}

/// Renames a file, and replaces an existing one, also while other processes have it open.
pub(crate) fn replace(from: &Path, to: &Path) -> io::Result<()> {
    patiently(|| fs::rename(from, to))
}

/// Removes the name of a file, also while other processes have it open.
pub(crate) fn remove(path: &Path) -> io::Result<()> {
    patiently(|| fs::remove_file(path))
}

/// Tries a call again while another program has the file open alone.
pub(super) fn patiently<T>(mut call: impl FnMut() -> io::Result<T>) -> io::Result<T> {
    let passing = [ERROR_ACCESS_DENIED, ERROR_SHARING_VIOLATION, ERROR_LOCK_VIOLATION].map(number);
    let started = Instant::now();
    let mut pause = PAUSE_MIN;
    loop {
        match call() {
            Err(error)
                if error.raw_os_error().is_some_and(|number| passing.contains(&number))
                    && started.elapsed() < PATIENCE =>
            {
                std::thread::sleep(pause);
                pause = (pause * 2).min(PAUSE_MAX);
            }
            done => return done,
        }
    }
}

/// Makes the names in a directory durable, as far as the system does that: NTFS writes its log, with
/// the changes of names in their order. Other file systems may refuse.
///
/// # Errors
/// When the disk refuses.
pub fn sync_names(dir: &Path) -> io::Result<()> {
    let mut options = OpenOptions::new();
    options.access_mode(GENERIC_WRITE).custom_flags(FILE_FLAG_BACKUP_SEMANTICS);
    let refusals = [
        ERROR_ACCESS_DENIED,
        ERROR_INVALID_FUNCTION,
        ERROR_INVALID_HANDLE,
        ERROR_NOT_SUPPORTED,
        ERROR_SHARING_VIOLATION,
    ];
    let refusals = refusals.map(number);
    match options.open(dir).and_then(|dir| dir.sync_all()) {
        Err(error) if error.raw_os_error().is_some_and(|number| refusals.contains(&number)) => {
            // The directory must exist, as everywhere.
            open_to_inspect(dir, 0).map(drop)
        }
        synced => synced,
    }
}

/// Returns the free bytes of the file system of `dir`.
///
/// # Errors
/// When the system refuses.
pub fn free_bytes(dir: &Path) -> io::Result<u64> {
    calls::free_bytes(dir)
}

/// Returns the path of an existing file without links and `..`, in the form that people write.
///
/// # Errors
/// `NotFound` if it does not exist.
pub fn canonical(path: &Path) -> io::Result<PathBuf> {
    dunce::canonicalize(path)
}

/// Returns the bytes of a path, with `/` between its names.
#[must_use]
pub(crate) fn path_bytes(path: &Path) -> Cow<'_, [u8]> {
    let bytes = path.as_os_str().as_encoded_bytes();
    Cow::Owned(bytes.iter().map(|byte| if *byte == b'\\' { b'/' } else { *byte }).collect())
}

/// Returns the text of a path, with `/` between its names, as keys of files have it; `None` if it is
/// not Unicode.
#[must_use]
pub fn path_text(path: &Path) -> Option<Cow<'_, str>> {
    path.to_str().map(|text| Cow::Owned(text.replace('\\', "/")))
}

/// Returns the name with these bytes. Names of Windows are text: other bytes are replaced, and no
/// file has the name then.
#[must_use]
pub fn name_of_bytes(bytes: &[u8]) -> Cow<'_, OsStr> {
    match String::from_utf8_lossy(bytes) {
        Cow::Borrowed(name) => Cow::Borrowed(OsStr::new(name)),
        Cow::Owned(name) => Cow::Owned(OsString::from(name)),
    }
}
