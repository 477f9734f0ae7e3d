//! Files: opening, identities, locks, positioned reads and writes.

use std::borrow::Cow;
use std::ffi::{CString, OsStr};
use std::fs::{self, DirBuilder, File, Metadata, OpenOptions, Permissions, TryLockError};
use std::io::{self, ErrorKind};
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::{
    DirBuilderExt, FileExt, FileTypeExt, MetadataExt, OpenOptionsExt, PermissionsExt,
};
use std::path::{Path, PathBuf};
use std::time::UNIX_EPOCH;

use rustix::fs::OFlags;

use super::stat::RawStat;
use crate::platform::Lock;

/// The environment variable with the home directory of the user.
pub const HOME_VARIABLE: &str = "HOME";

/// The git settings of the machine.
pub(crate) const SYSTEM_CONFIG: Option<&str> = Some("/etc/gitconfig");

/// The file whose inode and change time identify a store on file systems without creation times.
const SUPERBLOCK: &str = "superblock";

/// Makes a file that is created readable for its owner only.
pub fn private(options: &mut OpenOptions) -> &mut OpenOptions {
    options.mode(0o600)
}

/// Gives a file that is created the permissions of another file.
pub fn with_permissions_of<'o>(
    options: &'o mut OpenOptions,
    other: &Metadata,
) -> &'o mut OpenOptions {
    options.mode(other.mode() & 0o777)
}

/// Returns the permissions of a script that replaces another script, or is new.
#[must_use]
pub fn script_permissions(before: Option<&Metadata>) -> Option<Permissions> {
    let mode = before.map_or(0o755, |found| found.permissions().mode() | 0o100);
    Some(Permissions::from_mode(mode))
}

/// Returns true if a file is executable.
#[must_use]
pub fn is_program(found: &Metadata) -> bool {
    found.mode() & 0o111 != 0
}

/// Returns true if users other than the owner can read, change or enter an entry.
#[must_use]
pub fn has_other_users(found: &Metadata) -> bool {
    found.mode() & 0o077 != 0
}

/// Returns a builder of directories that only their owner can enter.
#[must_use]
pub fn private_folders() -> DirBuilder {
    let mut builder = DirBuilder::new();
    builder.mode(0o700);
    builder
}

/// Refuses a symbolic link, and does not wait for the other end of a pipe.
pub fn without_links(options: &mut OpenOptions) -> &mut OpenOptions {
    options
        .custom_flags((OFlags::NOFOLLOW | OFlags::NONBLOCK | OFlags::CLOEXEC).bits().cast_signed())
}

/// Does not wait for the other end of a pipe, and takes no terminal as its own.
pub(crate) fn waiting_for_nothing(options: &mut OpenOptions) -> &mut OpenOptions {
    options.custom_flags((OFlags::NONBLOCK | OFlags::NOCTTY | OFlags::CLOEXEC).bits().cast_signed())
}

/// Returns true for a regular file.
pub(crate) fn is_plain_file(file: &File) -> io::Result<bool> {
    Ok(file.metadata()?.is_file())
}

/// Returns the name of the kind of an entry that is no file, directory or link.
pub(crate) fn kind_of_special(found: &Metadata) -> &'static str {
    let kind = found.file_type();
    match () {
        () if kind.is_fifo() => "named pipe",
        () if kind.is_socket() => "socket",
        () => "device",
    }
}

/// Returns the device and the inode of the file at `path`, following links.
///
/// # Errors
/// `NotFound` if there is none.
pub fn identity(path: &Path) -> io::Result<(u64, u64)> {
    let found = fs::metadata(path)?;
    Ok((found.dev(), found.ino()))
}

/// Returns the device and the inode of the entry at `path`; of a link, not of its target.
///
/// # Errors
/// `NotFound` if there is none.
pub fn own_identity(path: &Path) -> io::Result<(u64, u64)> {
    let found = fs::symlink_metadata(path)?;
    Ok((found.dev(), found.ino()))
}

/// Returns the device and the inode of an open file.
pub(crate) fn file_identity(file: &File) -> io::Result<(u64, u64)> {
    let found = file.metadata()?;
    Ok((found.dev(), found.ino()))
}

/// Returns the stat of an open file.
pub(crate) fn stat_of(file: &File) -> io::Result<RawStat> {
    Ok(rustix::fs::fstat(file)?)
}

/// Returns the stat of the file at `path`, following links.
pub(crate) fn stat_of_path(path: &Path) -> io::Result<RawStat> {
    let name = CString::new(path.as_os_str().as_bytes())?;
    Ok(rustix::fs::stat(&*name)?)
}

/// Returns the identity of a store's directory, which no copy shares: inodes and creation times
/// cannot be chosen.
pub(crate) fn store_identity(store: &Path) -> io::Result<Vec<i128>> {
    let found = fs::metadata(store)?;
    let made = found.created().ok().and_then(|time| time.duration_since(UNIX_EPOCH).ok());
    if let Some(made) = made {
        return Ok(vec![
            i128::from(found.ino()),
            i128::try_from(made.as_nanos()).unwrap_or_default(),
        ]);
    }
    let found = fs::metadata(store.join(SUPERBLOCK))?;
    Ok([found.ino().into(), found.ctime().into(), found.ctime_nsec().into()].into())
}

/// Tries to take the exclusive lock of a file, which no read or write respects.
///
/// # Errors
/// When the file system has no locks.
pub fn try_lock(file: &File) -> io::Result<Lock> {
    match file.try_lock() {
        Ok(()) => Ok(Lock::Taken),
        Err(TryLockError::WouldBlock) => Ok(Lock::Busy),
        Err(TryLockError::Error(error)) => Err(error),
    }
}

/// Opens a directory under a lock that ends with the handle; `None` if another handle has it.
///
/// # Errors
/// When the directory cannot be opened, or the file system has no locks.
pub fn lock_folder(dir: &Path) -> io::Result<Option<File>> {
    let folder = File::open(dir)?;
    Ok(match try_lock(&folder)? {
        Lock::Taken => Some(folder),
        Lock::Busy => None,
    })
}

/// Releases the lock of a file.
///
/// # Errors
/// When the file system has no locks.
pub fn unlock(file: &File) -> io::Result<()> {
    file.unlock()
}

/// Reads at an offset, without moving the position of the file.
///
/// # Errors
/// When the disk refuses.
pub fn read_at(file: &File, buffer: &mut [u8], offset: u64) -> io::Result<usize> {
    FileExt::read_at(file, buffer, offset)
}

/// Writes all bytes at an offset, without moving the position of the file.
///
/// # Errors
/// When the disk refuses; any part of the bytes may have been written.
pub fn write_all_at(file: &File, bytes: &[u8], offset: u64) -> io::Result<()> {
    file.write_all_at(bytes, offset)
}

/// Makes the bytes of a file durable, and the length needed to read them.
pub(crate) fn sync_data(file: &File) -> io::Result<()> {
    file.sync_data()
}

/// Renames a file; `AlreadyExists` if the name is taken.
pub(crate) fn rename_to_free(from: &Path, to: &Path) -> io::Result<()> {
    // A link refuses a taken name on every Unix; `rename` would replace it.
    fs::hard_link(from, to)?;
    match fs::remove_file(from) {
        // Another process has removed it since; `to` exists.
        Err(error) if error.kind() == ErrorKind::NotFound => Ok(()),
        removed => removed,
    }
}

/// Renames a file, and replaces an existing one, also while other processes have it open.
pub(crate) fn replace(from: &Path, to: &Path) -> io::Result<()> {
    fs::rename(from, to)
}

/// Removes the name of a file, also while other processes have it open.
pub(crate) fn remove(path: &Path) -> io::Result<()> {
    fs::remove_file(path)
}

/// Makes the names in a directory durable.
///
/// # Errors
/// When the disk refuses.
pub fn sync_names(dir: &Path) -> io::Result<()> {
    File::open(dir)?.sync_all()
}

/// Returns the free bytes of the file system of `dir`.
///
/// # Errors
/// When the system refuses.
pub fn free_bytes(dir: &Path) -> io::Result<u64> {
    let system = rustix::fs::statvfs(dir)?;
    Ok(system.f_bavail.saturating_mul(system.f_frsize))
}

/// Returns the path of an existing file without links and `..`, in the form that people write.
///
/// # Errors
/// `NotFound` if it does not exist.
pub fn canonical(path: &Path) -> io::Result<PathBuf> {
    fs::canonicalize(path)
}

/// Returns the bytes of a path, with `/` between its names.
#[must_use]
pub(crate) fn path_bytes(path: &Path) -> Cow<'_, [u8]> {
    Cow::Borrowed(path.as_os_str().as_bytes())
}

/// Returns the text of a path, with `/` between its names, as keys of files have it; `None` if it is
/// not Unicode.
#[must_use]
pub fn path_text(path: &Path) -> Option<Cow<'_, str>> {
    path.to_str().map(Cow::Borrowed)
}

/// Returns the name with these bytes.
#[must_use]
pub fn name_of_bytes(bytes: &[u8]) -> Cow<'_, OsStr> {
    Cow::Borrowed(OsStr::from_bytes(bytes))
}
