//! Directories held open, so that checking a path and acting on it are atomic.
//!
//! Another process may rename directories between a check and a write. So nothing here takes a
//! path: from the user's directory down, each name is opened below the handle of its parent, and
//! the same call refuses a name that is not a real directory. A name is never `..` and never
//! contains a `/`, so no step leaves the directory. `openat2` with `RESOLVE_BENEATH` does this for
//! whole paths, but this works on every Unix; whole paths would not help, since missing directories
//! are created on the way.

use std::ffi::{CStr, CString, OsStr};
use std::fs::File;
use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::path::Path;

use rustix::fs::{self, AtFlags, Dir, Mode, OFlags, RenameFlags, Stat, Timespec, Timestamps};
use rustix::io::Errno;

/// Permissions of a new directory, minus the user's umask.
const DIRECTORY_MODE: Mode = Mode::from_raw_mode(0o777);

/// Permissions of a directory of a store.
const PRIVATE_MODE: Mode = Mode::from_raw_mode(0o700);

/// An open directory. It stays the same directory, even if it is renamed.
#[derive(Debug)]
pub(in crate::workspace) struct Folder(OwnedFd);

impl Folder {
    /// Opens the directory that the user named, following links.
    pub(in crate::workspace) fn open(path: &Path) -> io::Result<Self> {
        Ok(Self(fs::open(
            path,
            OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC,
            Mode::empty(),
        )?))
    }

    /// Duplicates the handle.
    pub(in crate::workspace) fn duplicate(&self) -> io::Result<Self> {
        Ok(Self(self.0.try_clone()?))
    }

    /// Opens the directory `name`; `NotADirectory` for anything else, including a link to a
    /// directory.
    pub(in crate::workspace) fn enter(&self, name: &OsStr) -> io::Result<Self> {
        let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        match fs::openat(&self.0, name, flags, Mode::empty()) {
            // The error for a link differs between systems.
            Err(Errno::LOOP | Errno::MLINK) => Err(Errno::NOTDIR.into()),
            opened => Ok(Self(opened?)),
        }
    }

    /// Opens the directory `path` below this one, name by name; `NotADirectory` if a component is
    /// anything else.
    pub(in crate::workspace) fn descend(&self, path: &Path) -> io::Result<Self> {
        path.iter().try_fold(self.duplicate()?, |folder, name| folder.enter(name))
    }

    /// Creates the directory `name`; `AlreadyExists` if the name is taken.
    pub(in crate::workspace) fn make(&self, name: &OsStr) -> io::Result<()> {
        Ok(fs::mkdirat(&self.0, name, DIRECTORY_MODE)?)
    }

    /// Creates the directory `name` for its owner only; `AlreadyExists` if the name is taken.
    pub(in crate::workspace) fn make_private(&self, name: &OsStr) -> io::Result<()> {
        Ok(fs::mkdirat(&self.0, name, PRIVATE_MODE)?)
    }

    /// Returns the entry `name`, if it exists; for a symbolic link, the link itself.
    pub(in crate::workspace) fn find(&self, name: &OsStr) -> io::Result<Option<FolderEntry>> {
        match fs::statat(&self.0, name, AtFlags::SYMLINK_NOFOLLOW) {
            Ok(stat) => Ok(Some(FolderEntry::from(&stat))),
            Err(Errno::NOENT) => Ok(None),
            Err(error) => Err(error.into()),
        }
    }

    /// Returns the stat of `name`; for a symbolic link, of the link itself. Allocates nothing, for
    /// directories with many names.
    pub(in crate::workspace) fn stat(&self, name: &CStr) -> io::Result<Stat> {
        Ok(fs::statat(&self.0, name, AtFlags::SYMLINK_NOFOLLOW)?)
    }

    /// Returns the stat of the directory itself.
    pub(in crate::workspace) fn own_stat(&self) -> io::Result<Stat> {
        Ok(fs::fstat(&self.0)?)
    }

    /// Returns every name in it, unordered, with its type as far as the directory records it.
    pub(in crate::workspace) fn names(&self) -> io::Result<Vec<(CString, fs::FileType)>> {
        let mut names = Vec::new();
        for entry in Dir::read_from(&self.0)? {
            let entry = entry?;
            let name = entry.file_name();
            if name != c"." && name != c".." {
                names.push((name.to_owned(), entry.file_type()));
            }
        }
        Ok(names)
    }

    /// Sets the modification time to now and returns the new stat, which reads the clock of the
    /// file system.
    pub(in crate::workspace) fn touch(&self) -> io::Result<Stat> {
        let now = Timespec { tv_sec: 0, tv_nsec: fs::UTIME_NOW };
        fs::futimens(&self.0, &Timestamps { last_access: now, last_modification: now })?;
        self.own_stat()
    }

    /// Opens the file `name` for reading. Never waits for the writer of a pipe.
    pub(in crate::workspace) fn read(&self, name: &OsStr) -> io::Result<File> {
        let flags = OFlags::RDONLY | OFlags::NOFOLLOW | OFlags::NONBLOCK | OFlags::CLOEXEC;
        Ok(fs::openat(&self.0, name, flags, Mode::empty())?.into())
    }

    /// Creates the new file `name`, open for reading and writing; `AlreadyExists` if the name is
    /// taken. Its permissions are `mode` minus the user's umask.
    pub(in crate::workspace) fn create(&self, name: &OsStr, mode: u32) -> io::Result<File> {
        let flags = OFlags::RDWR | OFlags::CREATE | OFlags::EXCL | OFlags::NOFOLLOW;
        // Permission bits only, so that a restore never creates a setuid program.
        let mode = Mode::from_raw_mode(mode & 0o777);
        Ok(fs::openat(&self.0, name, flags | OFlags::CLOEXEC, mode)?.into())
    }

    /// Returns the target of the symbolic link `name`.
    pub(in crate::workspace) fn read_link(&self, name: &OsStr) -> io::Result<Vec<u8>> {
        Ok(fs::readlinkat(&self.0, name, Vec::new())?.into_bytes())
    }

    /// Creates the new link `name`; `AlreadyExists` if the name is taken.
    pub(in crate::workspace) fn link(&self, target: &OsStr, name: &OsStr) -> io::Result<()> {
        Ok(fs::symlinkat(target, &self.0, name)?)
    }

    /// Renames `from` to `to`; `AlreadyExists` if the name, or one that this file system considers
    /// equal, is taken.
    pub(in crate::workspace) fn publish(&self, from: &OsStr, to: &OsStr) -> io::Result<()> {
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
    pub(in crate::workspace) fn replace(&self, from: &OsStr, to: &OsStr) -> io::Result<()> {
        Ok(fs::renameat(&self.0, from, &self.0, to)?)
    }

    /// Removes the name of a file or a link.
    pub(in crate::workspace) fn remove(&self, name: &OsStr) -> io::Result<()> {
        Ok(fs::unlinkat(&self.0, name, AtFlags::empty())?)
    }

    /// Removes an empty directory.
    pub(in crate::workspace) fn remove_folder(&self, name: &OsStr) -> io::Result<()> {
        Ok(fs::unlinkat(&self.0, name, AtFlags::REMOVEDIR)?)
    }

    /// Returns the number of the kind of its file system.
    #[cfg(target_os = "linux")]
    pub(in crate::workspace) fn file_system(&self) -> io::Result<fs::FsWord> {
        Ok(fs::fstatfs(&self.0)?.f_type)
    }

    /// Makes everything of its file system durable. Reports a failed write of any file since it was
    /// opened.
    #[cfg(target_os = "linux")]
    pub(in crate::workspace) fn sync_file_system(&self) -> Result<(), Errno> {
        rustix::io::retry_on_intr(|| fs::syncfs(&self.0))
    }

    /// Makes the names in it durable, if the file system supports that.
    pub(in crate::workspace) fn sync(&self) -> io::Result<()> {
        match fs::fsync(&self.0) {
            // Some network and camera file systems do not support it.
            Err(Errno::INVAL | Errno::OPNOTSUPP) => Ok(()),
            synced => Ok(synced?),
        }
    }
}

/// An entry of a directory.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(in crate::workspace) struct FolderEntry {
    pub(in crate::workspace) kind: EntryKind,
    /// The permissions.
    pub(in crate::workspace) mode: u32,
    /// The identity: device and inode.
    pub(in crate::workspace) identity: (i128, i128),
    /// The number of hard links.
    pub(in crate::workspace) names: i128,
    /// The size, and the modification time.
    content: [i128; 3],
    /// The change time.
    changed: [i128; 2],
}

/// The kinds of an existing entry that a write distinguishes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(in crate::workspace) enum EntryKind {
    File,
    Link,
    Folder,
    /// A pipe, a socket or a device.
    Special,
}

impl FolderEntry {
    /// Describes an open file.
    pub(in crate::workspace) fn of(file: impl AsFd) -> io::Result<Self> {
        Ok(Self::from(&fs::fstat(file)?))
    }

    /// Returns its size in bytes.
    pub(in crate::workspace) const fn size(&self) -> i128 {
        let [size, ..] = self.content;
        size
    }

    /// Narrows the permissions `wanted` for a file that replaces this one: users who could not read
    /// or write this file cannot read or write the new one.
    pub(in crate::workspace) fn narrow_permissions(&self, wanted: u32) -> u32 {
        let readers = self.mode & 0o444;
        match self.kind {
            EntryKind::File => wanted & (0o700 | self.mode & 0o066 | readers >> 2),
            _ => wanted,
        }
    }

    /// Returns true if this is the same entry as `before`, unchanged.
    pub(in crate::workspace) fn is_unchanged_since(&self, before: &Self) -> bool {
        // Replacing one name of a file changes the file behind its other names.
        let is_unchanged = self.changed == before.changed || before.names > 1;
        self.identity == before.identity && self.content == before.content && is_unchanged
    }
}

/// Field widths differ between systems; 128 bits hold all of them.
impl From<&Stat> for FolderEntry {
    fn from(stat: &Stat) -> Self {
        let kind = match fs::FileType::from_raw_mode(stat.st_mode) {
            fs::FileType::RegularFile => EntryKind::File,
            fs::FileType::Symlink => EntryKind::Link,
            fs::FileType::Directory => EntryKind::Folder,
            _ => EntryKind::Special,
        };
        Self {
            kind,
            mode: Mode::from_raw_mode(stat.st_mode).bits(),
            identity: (stat.st_dev.into(), stat.st_ino.into()),
            names: stat.st_nlink.into(),
            content: [stat.st_size.into(), stat.st_mtime.into(), stat.st_mtime_nsec.into()],
            changed: [stat.st_ctime.into(), stat.st_ctime_nsec.into()],
        }
    }
}
