//! Directories held open, so that the check of a path and what is done there are one.
//!
//! A path is a promise about names, and another process may change names between a check and a
//! write. So nothing here takes a path: from the directory on that the user named, one name at a
//! time is opened below the handle of the directory before it, and a name that is not a real
//! directory is refused by the very call that opens it. A name is never `..` and never holds a `/`,
//! so no step leads up or out. This is what `openat2` with `RESOLVE_BENEATH` does for whole paths,
//! in a way that every Unix has; whole paths are no use here, since directories are made on the
//! way.

use std::ffi::{CStr, CString, OsStr};
use std::fs::File;
use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::path::Path;

use rustix::fs::{self, AtFlags, Dir, Mode, OFlags, RenameFlags, Stat, Timespec, Timestamps};
use rustix::io::Errno;

/// Permissions of a new directory, less the user's umask.
const DIRECTORY_MODE: Mode = Mode::from_raw_mode(0o777);

/// Permissions of a directory of a store.
const PRIVATE_MODE: Mode = Mode::from_raw_mode(0o700);

/// An open directory. It stays the same one, whatever becomes of its name.
#[derive(Debug)]
pub(in crate::workspace) struct Folder(OwnedFd);

impl Folder {
    /// Opens the directory that the user named, through links if it must be.
    pub(in crate::workspace) fn open(path: &Path) -> io::Result<Self> {
        Ok(Self(fs::open(
            path,
            OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC,
            Mode::empty(),
        )?))
    }

    /// The same directory, open once more.
    pub(in crate::workspace) fn again(&self) -> io::Result<Self> {
        Ok(Self(self.0.try_clone()?))
    }

    /// Opens the directory `name`; `NotADirectory` for anything else, a link to one included.
    pub(in crate::workspace) fn enter(&self, name: &OsStr) -> io::Result<Self> {
        let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        match fs::openat(&self.0, name, flags, Mode::empty()) {
            // Which of the two comes for a link differs between systems.
            Err(Errno::LOOP | Errno::MLINK) => Err(Errno::NOTDIR.into()),
            opened => Ok(Self(opened?)),
        }
    }

    /// Opens the directory `path` below this one, name by name; `NotADirectory` when the way leads
    /// through anything else.
    pub(in crate::workspace) fn descend(&self, path: &Path) -> io::Result<Self> {
        path.iter().try_fold(self.again()?, |folder, name| folder.enter(name))
    }

    /// Makes the directory `name`; `AlreadyExists` when anything has that name.
    pub(in crate::workspace) fn make(&self, name: &OsStr) -> io::Result<()> {
        Ok(fs::mkdirat(&self.0, name, DIRECTORY_MODE)?)
    }

    /// Makes the directory `name` for its owner alone; `AlreadyExists` when anything has that name.
    pub(in crate::workspace) fn make_private(&self, name: &OsStr) -> io::Result<()> {
        Ok(fs::mkdirat(&self.0, name, PRIVATE_MODE)?)
    }

    /// Returns the entry `name`, if there is one; of a symbolic link, the link itself.
    pub(in crate::workspace) fn find(&self, name: &OsStr) -> io::Result<Option<FolderEntry>> {
        match fs::statat(&self.0, name, AtFlags::SYMLINK_NOFOLLOW) {
            Ok(stat) => Ok(Some(FolderEntry::from(&stat))),
            Err(Errno::NOENT) => Ok(None),
            Err(error) => Err(error.into()),
        }
    }

    /// Returns the stat of `name`; of a symbolic link, of the link itself. Allocates nothing, for
    /// directories of many names.
    pub(in crate::workspace) fn stat(&self, name: &CStr) -> io::Result<Stat> {
        Ok(fs::statat(&self.0, name, AtFlags::SYMLINK_NOFOLLOW)?)
    }

    /// Returns the stat of the directory itself.
    pub(in crate::workspace) fn own_stat(&self) -> io::Result<Stat> {
        Ok(fs::fstat(&self.0)?)
    }

    /// Every name in it, with what it is as far as the directory says, in no order.
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

    /// Makes this moment the one when it was changed last, and returns what the system says of it:
    /// so the clock of the file system is read.
    pub(in crate::workspace) fn touch(&self) -> io::Result<Stat> {
        let now = Timespec { tv_sec: 0, tv_nsec: fs::UTIME_NOW };
        fs::futimens(&self.0, &Timestamps { last_access: now, last_modification: now })?;
        self.own_stat()
    }

    /// Opens the file `name` to read. Never waits for whoever writes to a pipe.
    pub(in crate::workspace) fn read(&self, name: &OsStr) -> io::Result<File> {
        let flags = OFlags::RDONLY | OFlags::NOFOLLOW | OFlags::NONBLOCK | OFlags::CLOEXEC;
        Ok(fs::openat(&self.0, name, flags, Mode::empty())?.into())
    }

    /// Makes the new file `name`, open to read and write; `AlreadyExists` when anything has that
    /// name. Its permissions are those of `mode` that the user's umask leaves.
    pub(in crate::workspace) fn create(&self, name: &OsStr, mode: u32) -> io::Result<File> {
        let flags = OFlags::RDWR | OFlags::CREATE | OFlags::EXCL | OFlags::NOFOLLOW;
        // Permissions only: whoever restores gets no setuid program out of it.
        let mode = Mode::from_raw_mode(mode & 0o777);
        Ok(fs::openat(&self.0, name, flags | OFlags::CLOEXEC, mode)?.into())
    }

    /// Returns the target of the symbolic link `name`.
    pub(in crate::workspace) fn read_link(&self, name: &OsStr) -> io::Result<Vec<u8>> {
        Ok(fs::readlinkat(&self.0, name, Vec::new())?.into_bytes())
    }

    /// Makes the new link `name`; `AlreadyExists` when anything has that name.
    pub(in crate::workspace) fn link(&self, target: &OsStr, name: &OsStr) -> io::Result<()> {
        Ok(fs::symlinkat(target, &self.0, name)?)
    }

    /// Gives `from` the name `to`; `AlreadyExists` when anything has that name, or one that this
    /// file system cannot tell from it.
    pub(in crate::workspace) fn publish(&self, from: &OsStr, to: &OsStr) -> io::Result<()> {
        match fs::renameat_with(&self.0, from, &self.0, to, RenameFlags::NOREPLACE) {
            // A file system that cannot do that in one step has links, which refuse a taken name too.
            Err(Errno::INVAL | Errno::NOSYS | Errno::OPNOTSUPP) => {
                fs::linkat(&self.0, from, &self.0, to, AtFlags::empty())?;
                self.remove(from)
            }
            renamed => Ok(renamed?),
        }
    }

    /// Gives `from` the name `to`, in place of what has it.
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

    /// Makes the names in it durable, where the file system can.
    pub(in crate::workspace) fn sync(&self) -> io::Result<()> {
        match fs::fsync(&self.0) {
            // Some file systems of networks and cameras keep no promises about names.
            Err(Errno::INVAL | Errno::OPNOTSUPP) => Ok(()),
            synced => Ok(synced?),
        }
    }
}

/// Something that has a name in a directory.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(in crate::workspace) struct FolderEntry {
    pub(in crate::workspace) kind: EntryKind,
    /// Its permissions.
    pub(in crate::workspace) mode: u32,
    /// Its identity: device and inode.
    pub(in crate::workspace) identity: (i128, i128),
    /// The number of its hard links.
    pub(in crate::workspace) names: i128,
    /// Its length, and when its content was changed last.
    content: [i128; 3],
    /// When anything of it was changed last.
    changed: [i128; 2],
}

/// The kinds of an existing entry that a write has to tell apart.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(in crate::workspace) enum EntryKind {
    File,
    Link,
    Folder,
    /// A pipe, a socket, a device.
    Special,
}

impl FolderEntry {
    /// Describes an open file.
    pub(in crate::workspace) fn of(file: impl AsFd) -> io::Result<Self> {
        Ok(Self::from(&fs::fstat(file)?))
    }

    /// Narrows the permissions `wanted` for a file that replaces this one: whoever could not read
    /// or write this file cannot read or write the new one.
    pub(in crate::workspace) fn narrow(&self, wanted: u32) -> u32 {
        let readers = self.mode & 0o444;
        match self.kind {
            EntryKind::File => wanted & (0o700 | self.mode & 0o066 | readers >> 2),
            _ => wanted,
        }
    }

    /// Returns whether this is the same entry as `before`, unchanged.
    pub(in crate::workspace) fn is_still(&self, before: &Self) -> bool {
        // Replacing one name of a file changes the file behind its other names.
        let is_unchanged = self.changed == before.changed || before.names > 1;
        self.identity == before.identity && self.content == before.content && is_unchanged
    }
}

/// The fields have other widths on every system, which 128 bits hold all.
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
