//! Directories held open. Windows opens by path, so each is held by a handle that lets no other
//! process rename or remove it, nor a directory above it: the path names the same directory while
//! the handle is open.
//!
//! A name is opened without following links and junctions, and refused if it is one. A path is in
//! the form that the system takes as it is: no name in it is a device, and none loses its trailing
//! dots.

use std::ffi::{CStr, CString, OsStr, OsString};
use std::fs::{self, File, OpenOptions};
use std::io;
use std::os::windows::fs::{FileTypeExt, OpenOptionsExt, symlink_dir, symlink_file};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};

use windows_sys::Win32::Foundation::{ERROR_PRIVILEGE_NOT_HELD, GENERIC_READ, GENERIC_WRITE};
use windows_sys::Win32::Storage::FileSystem::{
    DELETE, FILE_FLAG_BACKUP_SEMANTICS, FILE_FLAG_DELETE_ON_CLOSE, FILE_FLAG_OPEN_REPARSE_POINT,
    FILE_READ_ATTRIBUTES, FILE_SHARE_READ, FILE_SHARE_WRITE,
};

use super::errors::{link_refusal, number};
use super::file::{open_to_inspect, patiently, remove, rename_to_free, replace, sync_names};
use super::stat::{LINK, RawStat};
use crate::platform::{FolderEntry, TEMPORARY};

/// An open directory. It stays at its path while it is open.
#[derive(Debug)]
pub struct Folder {
    handle: File,
    /// The path without links, in the long form.
    path: PathBuf,
}

impl Folder {
    /// Opens the directory that the user named, following links.
    ///
    /// # Errors
    /// `NotADirectory` for anything else, `NotFound` if there is none.
    pub fn open(path: &Path) -> io::Result<Self> {
        Self::hold(fs::canonicalize(path)?)
    }

    /// Opens the directory at `path`; `NotADirectory` for anything else, including a link.
    fn hold(path: PathBuf) -> io::Result<Self> {
        let mut options = OpenOptions::new();
        options
            .access_mode(GENERIC_READ)
            .share_mode(FILE_SHARE_READ | FILE_SHARE_WRITE)
            .custom_flags(FILE_FLAG_BACKUP_SEMANTICS | FILE_FLAG_OPEN_REPARSE_POINT);
        let handle = patiently(|| options.open(&path))?;
        let kind = handle.metadata()?.file_type();
        if !kind.is_dir() || kind.is_symlink() {
            return Err(io::ErrorKind::NotADirectory.into());
        }
        Ok(Self { handle, path })
    }

    /// Returns the path of an entry. A name is one component.
    fn at(&self, name: &OsStr) -> io::Result<PathBuf> {
        let mut path = OsString::with_capacity(self.path.as_os_str().len() + name.len() + 1);
        path.push(&self.path);
        if !self.path.as_os_str().as_encoded_bytes().ends_with(b"\\") {
            path.push("\\");
        }
        path.push(name);
        let bytes = name.as_encoded_bytes();
        if bytes.is_empty() || bytes == b"." || bytes == b".." || bytes.iter().any(is_separator) {
            let message = format!("{} cannot be the name of a file here", name.display());
            return Err(io::Error::new(io::ErrorKind::InvalidInput, message));
        }
        Ok(path.into())
    }

    /// Duplicates the handle.
    pub(crate) fn duplicate(&self) -> io::Result<Self> {
        Ok(Self { handle: self.handle.try_clone()?, path: self.path.clone() })
    }

    /// Opens the directory `name`; `NotADirectory` for anything else, including a link to a
    /// directory.
    pub(crate) fn enter(&self, name: &OsStr) -> io::Result<Self> {
        Self::hold(self.at(name)?)
    }

    /// Opens the directory `path` below this one, name by name; `NotADirectory` if a component is
    /// anything else.
    pub(crate) fn descend(&self, path: &Path) -> io::Result<Self> {
        path.iter().try_fold(self.duplicate()?, |folder, name| folder.enter(name))
    }

    /// Creates the directory `name`; `AlreadyExists` if the name is taken.
    pub(crate) fn make(&self, name: &OsStr) -> io::Result<()> {
        fs::create_dir(self.at(name)?)
    }

    /// Creates the directory `name`, with the permissions of this one; `AlreadyExists` if the name
    /// is taken.
    pub(crate) fn make_private(&self, name: &OsStr) -> io::Result<()> {
        self.make(name)
    }

    /// Returns the entry `name`, if it exists; for a symbolic link, the link itself.
    pub(crate) fn find(&self, name: &OsStr) -> io::Result<Option<FolderEntry>> {
        match self.stat_of_name(name) {
            Ok(stat) => Ok(Some(FolderEntry::from(&stat))),
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
            Err(error) => Err(error),
        }
    }

    fn stat_of_name(&self, name: &OsStr) -> io::Result<RawStat> {
        let file = open_to_inspect(&self.at(name)?, FILE_FLAG_OPEN_REPARSE_POINT)?;
        let mut stat = RawStat::of(&file)?;
        if stat.st_mode == LINK {
            stat.st_size = self.read_link(name)?.len() as u64;
        }
        Ok(stat)
    }

    /// Returns the stat of `name`; for a symbolic link, of the link itself.
    pub(crate) fn stat(&self, name: &CStr) -> io::Result<RawStat> {
        self.stat_of_name(&super::file::name_of_bytes(name.to_bytes()))
    }

    /// Returns the stat of the directory itself.
    pub(crate) fn own_stat(&self) -> io::Result<RawStat> {
        RawStat::of(&self.handle)
    }

    /// Returns every name in it, unordered, and whether the directory records it as a directory.
    pub(crate) fn names(&self) -> io::Result<Vec<(CString, bool)>> {
        let mut names = Vec::new();
        for entry in fs::read_dir(&self.path)? {
            let entry = entry?;
            let kind = entry.file_type()?;
            let name = CString::new(entry.file_name().into_encoded_bytes())?;
            names.push((name, kind.is_dir() && !kind.is_symlink()));
        }
        Ok(names)
    }

    /// Returns a new stat of the file system, which reads its clock: that of a file that is created
    /// in the directory, and deleted when it is closed.
    pub(crate) fn touch(&self) -> io::Result<RawStat> {
        static COUNT: AtomicU64 = AtomicU64::new(0);
        let count = COUNT.fetch_add(1, Ordering::Relaxed);
        let name = format!("{TEMPORARY}clock-{}-{count}", std::process::id());
        let mut options = OpenOptions::new();
        options
            .write(true)
            .create_new(true)
            .access_mode(GENERIC_WRITE | DELETE | FILE_READ_ATTRIBUTES)
            .custom_flags(FILE_FLAG_DELETE_ON_CLOSE);
        RawStat::of(&options.open(self.at(name.as_ref())?)?)
    }

    /// Opens the file `name` for reading; a link itself.
    ///
    /// # Errors
    /// `NotFound` if there is none; an error for a link.
    pub fn read(&self, name: &OsStr) -> io::Result<File> {
        let mut options = OpenOptions::new();
        options.read(true).custom_flags(FILE_FLAG_OPEN_REPARSE_POINT);
        let file = options.open(self.at(name)?)?;
        if file.metadata()?.file_type().is_symlink() {
            return Err(link_refusal());
        }
        Ok(file)
    }

    /// Creates the new file `name`, open for reading and writing; `AlreadyExists` if the name is
    /// taken. It has the permissions of its directory.
    pub(crate) fn create(&self, name: &OsStr, _mode: u32) -> io::Result<File> {
        let mut options = OpenOptions::new();
        options.read(true).write(true).create_new(true);
        options.custom_flags(FILE_FLAG_OPEN_REPARSE_POINT);
        options.open(self.at(name)?)
    }

    /// Returns the target of the symbolic link `name`, with `/` between names.
    pub(crate) fn read_link(&self, name: &OsStr) -> io::Result<Vec<u8>> {
        Ok(super::file::path_bytes(&fs::read_link(self.at(name)?)?).into_owned())
    }

    /// Creates the new link `name`; `AlreadyExists` if the name is taken.
    pub(crate) fn link(&self, target: &[u8], name: &OsStr) -> io::Result<()> {
        let target = std::str::from_utf8(target)
            .map_err(|_| io::Error::new(io::ErrorKind::InvalidData, "its target is not text"))?;
        let target = PathBuf::from(target.replace('/', "\\"));
        let link = self.at(name)?;
        // The system has two kinds of links. One to nothing becomes a link to a file.
        let made = match fs::metadata(self.path.join(&target)).is_ok_and(|found| found.is_dir()) {
            true => symlink_dir(&target, link),
            false => symlink_file(&target, link),
        };
        made.map_err(|error| match error.raw_os_error() {
            Some(raw) if raw == number(ERROR_PRIVILEGE_NOT_HELD) => io::Error::new(
                io::ErrorKind::PermissionDenied,
                "Windows lets this user create no symbolic links: turn on the developer mode, or \
                 run as administrator",
            ),
            _ => error,
        })
    }

    /// Renames `from` to `to`; `AlreadyExists` if the name, or one that this file system considers
    /// equal, is taken.
    ///
    /// # Errors
    /// `AlreadyExists`, and errors of the system.
    pub fn publish(&self, from: &OsStr, to: &OsStr) -> io::Result<()> {
        rename_to_free(&self.at(from)?, &self.at(to)?)
    }

    /// Renames `from` to `to`, replacing an existing entry.
    pub(crate) fn replace(&self, from: &OsStr, to: &OsStr) -> io::Result<()> {
        replace(&self.at(from)?, &self.at(to)?)
    }

    /// Removes the name of a file or a link.
    ///
    /// # Errors
    /// `NotFound` if there is none.
    pub fn remove(&self, name: &OsStr) -> io::Result<()> {
        let path = self.at(name)?;
        // A link to a directory is removed as a directory: its target stays.
        match fs::symlink_metadata(&path)?.file_type().is_symlink_dir() {
            true => patiently(|| fs::remove_dir(&path)),
            false => remove(&path),
        }
    }

    /// Removes an empty directory.
    pub(crate) fn remove_folder(&self, name: &OsStr) -> io::Result<()> {
        fs::remove_dir(self.at(name)?)
    }

    /// Returns false: no call makes a whole file system durable.
    pub(crate) fn is_of_kernel(&self) -> io::Result<bool> {
        Ok(false)
    }

    /// Returns `None`: no call makes a whole file system durable.
    pub(crate) fn sync_file_system(&self) -> Option<Result<(), i32>> {
        None
    }

    /// Makes the names in it durable, if the file system supports that.
    ///
    /// # Errors
    /// When the disk refuses.
    pub fn sync(&self) -> io::Result<()> {
        sync_names(&self.path)
    }
}

const fn is_separator(byte: &u8) -> bool {
    matches!(byte, b'/' | b'\\' | b'\0')
}
