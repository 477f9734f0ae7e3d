//! Directories held open: each name is opened below the handle of its parent, by the calls of the
//! system that take a handle and a name.
//!
//! The same call refuses a name that is not a real directory. A name is never `..` and never
//! contains a `/`, so no step leaves the directory. `openat2` with `RESOLVE_BENEATH` does this for
//! whole paths, but this works on every Unix; whole paths would not help, since missing directories
//! are created on the way.

use std::ffi::{CStr, CString, OsStr};
use std::fs::File;
use std::io;
use std::os::fd::OwnedFd;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;

use rustix::fs::{
    self, AtFlags, Dir, FileType, Mode, OFlags, RawMode, RenameFlags, Timespec, Timestamps,
};
use rustix::io::Errno;

use super::stat::RawStat;
use crate::platform::FolderEntry;

/// Permissions of a new directory, minus the user's umask.
const DIRECTORY_MODE: Mode = Mode::from_raw_mode(0o777);

/// Permissions of a directory of a store.
const PRIVATE_MODE: Mode = Mode::from_raw_mode(0o700);

/// An open directory. It stays the same directory, even if it is renamed.
#[derive(Debug)]
pub struct Folder(OwnedFd);

impl Folder {
    /// Opens the directory that the user named, following links.
    ///
    /// # Errors
    /// `NotADirectory` for anything else, `NotFound` if there is none.
    pub fn open(path: &Path) -> io::Result<Self> {
        Ok(Self(fs::open(
            path,
            OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC,
            Mode::empty(),
        )?))
    }

    /// Duplicates the handle.
    pub(crate) fn duplicate(&self) -> io::Result<Self> {
        Ok(Self(self.0.try_clone()?))
    }

    /// Opens the directory `name`; `NotADirectory` for anything else, including a link to a
    /// directory.
    pub(crate) fn enter(&self, name: &OsStr) -> io::Result<Self> {
        let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        match fs::openat(&self.0, name, flags, Mode::empty()) {
            // The error for a link differs between systems.
            Err(Errno::LOOP | Errno::MLINK) => Err(Errno::NOTDIR.into()),
            opened => Ok(Self(opened?)),
        }
    }

    /// Opens the directory `path` below this one, name by name; `NotADirectory` if a component is
    /// anything else.
    pub(crate) fn descend(&self, path: &Path) -> io::Result<Self> {
        path.iter().try_fold(self.duplicate()?, |folder, name| folder.enter(name))
    }

    /// Creates the directory `name`; `AlreadyExists` if the name is taken.
    pub(crate) fn make(&self, name: &OsStr) -> io::Result<()> {
        Ok(fs::mkdirat(&self.0, name, DIRECTORY_MODE)?)
    }

    /// Creates the directory `name` for its owner only; `AlreadyExists` if the name is taken.
    pub(crate) fn make_private(&self, name: &OsStr) -> io::Result<()> {
        Ok(fs::mkdirat(&self.0, name, PRIVATE_MODE)?)
    }

    /// Returns the entry `name`, if it exists; for a symbolic link, the link itself.
    pub(crate) fn find(&self, name: &OsStr) -> io::Result<Option<FolderEntry>> {
        match fs::statat(&self.0, name, AtFlags::SYMLINK_NOFOLLOW) {
            Ok(stat) => Ok(Some(FolderEntry::from(&stat))),
            Err(Errno::NOENT) => Ok(None),
            Err(error) => Err(error.into()),
        }
    }

    /// Returns the stat of `name`; for a symbolic link, of the link itself. Allocates nothing, for
    /// directories with many names.
    pub(crate) fn stat(&self, name: &CStr) -> io::Result<RawStat> {
        Ok(fs::statat(&self.0, name, AtFlags::SYMLINK_NOFOLLOW)?)
    }

    /// Returns the stat of the directory itself.
    pub(crate) fn own_stat(&self) -> io::Result<RawStat> {
        Ok(fs::fstat(&self.0)?)
    }

    /// Returns every name in it, unordered, and whether the directory records it as a directory.
    pub(crate) fn names(&self) -> io::Result<Vec<(CString, bool)>> {
        let mut names = Vec::new();
        for entry in Dir::read_from(&self.0)? {
            let entry = entry?;
            let name = entry.file_name();
            if name != c"." && name != c".." {
                names.push((name.to_owned(), entry.file_type() == FileType::Directory));
            }
        }
        Ok(names)
    }

    /// Returns a new stat of the file system, which reads its clock: the modification time of the
    /// directory is set to now.
    pub(crate) fn touch(&self) -> io::Result<RawStat> {
        let now = Timespec { tv_sec: 0, tv_nsec: fs::UTIME_NOW };
        fs::futimens(&self.0, &Timestamps { last_access: now, last_modification: now })?;
        self.own_stat()
    }

    /// Opens the file `name` for reading. Never waits for the writer of a pipe.
    ///
    /// # Errors
    /// `NotFound` if there is none; an error for a link.
    pub fn read(&self, name: &OsStr) -> io::Result<File> {
        let flags = OFlags::RDONLY | OFlags::NOFOLLOW | OFlags::NONBLOCK | OFlags::CLOEXEC;
        Ok(fs::openat(&self.0, name, flags, Mode::empty())?.into())
    }

    /// Creates the new file `name`, open for reading and writing; `AlreadyExists` if the name is
    /// taken. Its permissions are `mode` minus the user's umask.
    pub(crate) fn create(&self, name: &OsStr, mode: u32) -> io::Result<File> {
        let flags = OFlags::RDWR | OFlags::CREATE | OFlags::EXCL | OFlags::NOFOLLOW;
        // Permission bits only, so that a restore never creates a setuid program.
        let mode = u16::try_from(mode & 0o777).unwrap_or_default();
        let mode = Mode::from_raw_mode(RawMode::from(mode));
        Ok(fs::openat(&self.0, name, flags | OFlags::CLOEXEC, mode)?.into())
    }

    /// Returns the target of the symbolic link `name`.
    pub(crate) fn read_link(&self, name: &OsStr) -> io::Result<Vec<u8>> {
        Ok(fs::readlinkat(&self.0, name, Vec::new())?.into_bytes())
    }

    /// Creates the new link `name`; `AlreadyExists` if the name is taken.
    pub(crate) fn link(&self, target: &[u8], name: &OsStr) -> io::Result<()> {
        Ok(fs::symlinkat(OsStr::from_bytes(target), &self.0, name)?)
    }

    /// Renames `from` to `to`; `AlreadyExists` if the name, or one that this file system considers
    /// equal, is taken.
    ///
    /// # Errors
    /// `AlreadyExists`, and errors of the system.
    pub fn publish(&self, from: &OsStr, to: &OsStr) -> io::Result<()> {
        match fs::renameat_with(&self.0, from, &self.0, to, RenameFlags::NOREPLACE) {
            // A file system without an atomic `NOREPLACE` has hard links, which also refuse a taken
            // name.
            Err(Errno::INVAL | Errno::NOSYS | Errno::OPNOTSUPP) => {
                fs::linkat(&self.0, from, &self.0, to, AtFlags::empty())?;
                self.remove(from)
            }
            renamed => Ok(renamed?),
        }
    }

    /// Renames `from` to `to`, replacing an existing entry.
    pub(crate) fn replace(&self, from: &OsStr, to: &OsStr) -> io::Result<()> {
        Ok(fs::renameat(&self.0, from, &self.0, to)?)
    }

    /// Removes the name of a file or a link.
    ///
    /// # Errors
    /// `NotFound` if there is none.
    pub fn remove(&self, name: &OsStr) -> io::Result<()> {
        Ok(fs::unlinkat(&self.0, name, AtFlags::empty())?)
    }

    /// Removes an empty directory.
    pub(crate) fn remove_folder(&self, name: &OsStr) -> io::Result<()> {
        Ok(fs::unlinkat(&self.0, name, AtFlags::REMOVEDIR)?)
    }

    /// Returns true if its file system is one of the kernel's own, on a disk of this machine or in
    /// memory.
    #[cfg(target_os = "linux")]
    pub(crate) fn is_of_kernel(&self) -> io::Result<bool> {
        super::sync::is_of_kernel(&self.0)
    }

    /// Returns true if its file system is one of the kernel's own. Known for Linux only.
    #[cfg(not(target_os = "linux"))]
    pub(crate) fn is_of_kernel(&self) -> io::Result<bool> {
        Ok(false)
    }

    /// Makes everything of its file system durable, and reports a failed write of any file since it
    /// was opened, as the number of the error. Returns `None` if the system cannot, or may not.
    #[cfg(target_os = "linux")]
    pub(crate) fn sync_file_system(&self) -> Option<Result<(), i32>> {
        super::sync::sync_whole(&self.0)
    }

    /// Makes everything of its file system durable: no other system reports failed writes then.
    #[cfg(not(target_os = "linux"))]
    pub(crate) fn sync_file_system(&self) -> Option<Result<(), i32>> {
        None
    }

    /// Makes the names in it durable, if the file system supports that.
    ///
    /// # Errors
    /// When the disk refuses.
    pub fn sync(&self) -> io::Result<()> {
        match fs::fsync(&self.0) {
            // Some network and camera file systems do not support it.
            Err(Errno::INVAL | Errno::OPNOTSUPP) => Ok(()),
            synced => Ok(synced?),
        }
    }
}
