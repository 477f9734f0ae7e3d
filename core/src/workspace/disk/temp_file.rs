//! The temporary name under which a file is written before it is renamed.
//!
//! The name is derived from the file's own name, and the writer holds a lock on the file that ends
//! with its process. So the next restore that writes the same file finds and removes the remains of
//! a killed one, and never mistakes the file of a running restore for remains.

use std::ffi::{OsStr, OsString};
use std::fs::File;
use std::io;

use super::folder::{EntryKind, Folder, FolderEntry};
use crate::error::{Error, ErrorKind, Result};
use crate::object::{Kind, ObjectId};
use crate::platform::{Lock, try_lock};

pub(in crate::workspace) use crate::platform::TEMPORARY as PREFIX;

/// Hex digits of the name's hash after the prefix.
const DIGITS: usize = 16;

/// A file or link that does not have its own name yet. Dropping it removes it.
#[derive(Debug)]
pub(in crate::workspace) struct TempFile<'f> {
    folder: &'f Folder,
    name: OsString,
    is_named: bool,
}

impl<'f> TempFile<'f> {
    /// Creates an empty file to be renamed to `name`, open and locked.
    ///
    /// # Errors
    /// `Locked` if another restore is writing the same file.
    pub(in crate::workspace) fn file(
        folder: &'f Folder,
        name: &OsStr,
        mode: u32,
    ) -> Result<(Self, File)> {
        let name = part_name(name);
        let file = match folder.create(&name, mode) {
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {
                remove_remains(folder, &name)?;
                folder.create(&name, mode)
            }
            created => created,
        };
        let file = file.map_err(|error| create_error(&name, error))?;
        lock(&file)?;
        // Before it was locked, it looked like remains and may have been removed.
        let failed = |error| Error::io(format!("inspect {}", name.display()), error);
        let mine = FolderEntry::of(&file).map_err(failed)?.identity;
        if folder.find(&name).map_err(failed)?.is_none_or(|found| found.identity != mine) {
            return Err(in_use_error());
        }
        Ok((Self { folder, name, is_named: false }, file))
    }

    /// Creates a link to `target`, to be renamed to `name`.
    ///
    /// # Errors
    /// `Io` if the system refuses.
    pub(in crate::workspace) fn link(
        folder: &'f Folder,
        name: &OsStr,
        target: &[u8],
    ) -> Result<Self> {
        let name = part_name(name);
        remove_remains(folder, &name)?;
        folder.link(target, &name).map_err(|error| create_error(&name, error))?;
        Ok(Self { folder, name, is_named: false })
    }

    /// Renames the file to its own name, replacing `before`, or nothing.
    ///
    /// # Errors
    /// `Conflict` if another entry has that name by now; that entry stays.
    pub(in crate::workspace) fn name(
        mut self,
        name: &OsStr,
        before: Option<&FolderEntry>,
    ) -> Result<()> {
        let Some(before) = before else {
            self.folder.publish(&self.name, name).map_err(|error| match error.kind() {
                io::ErrorKind::AlreadyExists => conflict_error(
                    "an entry with this name, or one that this file system treats as equal, was \
                     created since the check: it was left unchanged",
                ),
                _ => Error::io("rename", error),
            })?;
            self.is_named = true;
            return Ok(());
        };
        let now = self.folder.find(name).map_err(|error| Error::io("inspect it", error))?;
        if !now.is_some_and(|now| now.is_unchanged_since(before)) {
            return Err(conflict_error("it changed since the check, and was left unchanged"));
        }
        self.folder.replace(&self.name, name).map_err(|error| Error::io("rename", error))?;
        self.is_named = true;
        Ok(())
    }
}

impl Drop for TempFile<'_> {
    fn drop(&mut self) {
        if !self.is_named {
            // An error is already being reported; the next restore removes the remains.
            let _ = self.folder.remove(&self.name);
        }
    }
}

/// Returns the temporary name for `name`.
fn part_name(name: &OsStr) -> OsString {
    let digits = ObjectId::of(Kind::Blob, name.as_encoded_bytes()).short(DIGITS);
    OsString::from(format!("{PREFIX}{digits}"))
}

/// Removes remains with a temporary name.
fn remove_remains(folder: &Folder, part: &OsStr) -> Result<()> {
    let failed = |error| Error::io(format!("remove {}", part.display()), error);
    let Some(left) = folder.find(part).map_err(failed)? else { return Ok(()) };
    match left.kind {
        EntryKind::File => {
            let file = folder.read(part).map_err(failed)?;
            lock(&file)?;
            // The previous lock holder may have renamed the file.
            if FolderEntry::of(&file).map_err(failed)?.identity != left.identity {
                return Err(in_use_error());
            }
            if folder.find(part).map_err(failed)?.is_some_and(|now| now.identity == left.identity) {
                folder.remove(part).map_err(failed)?;
            }
        }
        EntryKind::Link => folder.remove(part).map_err(failed)?,
        EntryKind::Folder | EntryKind::Special => {
            let part = part.display();
            return Err(Error::invalid(format!(
                "{part} is a directory or special file, not a temporary file of turntree: remove it"
            )));
        }
    }
    Ok(())
}

/// Locks a file that this process created or is about to remove.
fn lock(file: &File) -> Result<()> {
    match try_lock(file) {
        Ok(Lock::Busy) => Err(in_use_error()),
        // Without locks in the file system, two concurrent restores fail when they rename the file.
        Ok(Lock::Taken) | Err(_) => Ok(()),
    }
}

fn create_error(name: &OsStr, error: io::Error) -> Error {
    if error.kind() == io::ErrorKind::AlreadyExists {
        return in_use_error();
    }
    Error::io(format!("make {}", name.display()), error)
}

fn conflict_error(message: &str) -> Error {
    Error::new(ErrorKind::Conflict, message)
}

fn in_use_error() -> Error {
    Error::new(ErrorKind::Locked, "another restore is writing this file")
}
