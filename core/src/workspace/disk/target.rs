//! The directory that a restore writes to, and the folders below it.

use std::collections::BTreeSet;
use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::{fs, io};

use super::folder::{EntryKind, Folder, FolderEntry};
use crate::error::{Error, Result};

/// Names in the directory of every store.
pub(in crate::workspace) const OF_A_STORE: [&str; 2] = ["superblock", "journal"];

/// The target of a restore, open.
#[derive(Debug)]
pub(in crate::workspace) struct TargetDir<'a> {
    path: &'a Path,
    folder: Folder,
    /// Folders below the target in which names changed.
    touched: BTreeSet<PathBuf>,
    /// Directories above the target in which names were created.
    above: Vec<PathBuf>,
}

impl<'a> TargetDir<'a> {
    /// Opens the directory `path`, if it exists.
    ///
    /// # Errors
    /// `InvalidInput` if it is not a directory, or belongs to a store.
    pub(in crate::workspace) fn open(path: &'a Path) -> Result<Option<Self>> {
        let folder = match Folder::open(path) {
            Ok(folder) => folder,
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
            Err(error) if error.kind() == io::ErrorKind::NotADirectory => {
                return Err(not_a_directory(path));
            }
            Err(error) => return Err(Error::io(format!("open {}", path.display()), error)),
        };
        let store = store_above(path)
            .map_err(|error| Error::io(format!("find {}", path.display()), error))?;
        if let Some(store) = store {
            return Err(Error::invalid(format!(
                "{} belongs to the store {}: files are never restored into a store",
                path.display(),
                store.display()
            )));
        }
        Ok(Some(Self { path, folder, touched: BTreeSet::new(), above: Vec::new() }))
    }

    /// Opens the directory `path`, and creates it if needed.
    pub(in crate::workspace) fn open_or_create(path: &'a Path) -> Result<Self> {
        if let Some(target) = Self::open(path)? {
            return Ok(target);
        }
        let missing = path.ancestors().take_while(|folder| fs::symlink_metadata(folder).is_err());
        let above = missing.filter_map(|folder| Some(parent_of(folder)?.to_owned())).collect();
        fs::create_dir_all(path)
            .map_err(|error| Error::io(format!("make {}", path.display()), error))?;
        let target = Self::open(path)?.ok_or_else(|| {
            Error::not_found(format!("{} was deleted after it was created", path.display()))
        })?;
        Ok(Self { above, ..target })
    }

    /// Opens the folder `path` below the target, if it exists.
    ///
    /// # Errors
    /// `InvalidInput` if a component is not a real directory, or the path enters a store.
    pub(in crate::workspace) fn enter(&self, path: &Path) -> Result<Option<Folder>> {
        self.descend_to(path, &mut |_, _| Ok(false))
    }

    /// Opens the folder `path` below the target, and creates missing folders.
    pub(in crate::workspace) fn enter_or_create(&mut self, path: &Path) -> Result<Folder> {
        let mut touched = std::mem::take(&mut self.touched);
        let entered = self.descend_to(path, &mut |parent, way| {
            let failed =
                |error| Error::io(format!("make {}", self.path.join(way).display()), error);
            match parent.make(way.file_name().unwrap_or_default()) {
                // Another process created it first: entering it will show what it is.
                Err(error) if error.kind() != io::ErrorKind::AlreadyExists => Err(failed(error)),
                _ => {
                    touched.extend(way.parent().map(Path::to_owned));
                    Ok(true)
                }
            }
        });
        if matches!(entered, Ok(Some(_))) {
            touched.insert(path.to_owned());
        }
        self.touched = touched;
        entered?.ok_or_else(|| {
            Error::not_found(format!(
                "{} was deleted after it was created",
                self.path.join(path).display()
            ))
        })
    }

    /// Records that a name in the folder `path` was removed.
    pub(in crate::workspace) fn note_removed(&mut self, path: &Path) {
        self.touched.insert(path.to_owned());
    }

    /// Removes the folder `path` if it is empty. If the system refuses, the empty folder stays, and
    /// the write that it blocks reports the error.
    pub(in crate::workspace) fn remove_if_empty(&mut self, path: &Path) {
        let (Some(parent), Some(name)) = (path.parent(), path.file_name()) else { return };
        let Ok(Some(folder)) = self.enter(parent) else { return };
        if folder.remove_folder(name).is_ok() {
            self.touched.remove(path);
            self.note_removed(parent);
        }
    }

    /// Removes the folder `path` if it contains only empty folders, so that a file can take its
    /// name.
    pub(in crate::workspace) fn remove_if_hollow(&mut self, path: &Path) {
        let is_folder = |found: &FolderEntry| found.kind == EntryKind::Folder;
        let parent = path.parent().unwrap_or(Path::new(""));
        let name = path.file_name().unwrap_or_default();
        let found = self.enter(parent).ok().flatten().and_then(|folder| folder.find(name).ok()?);
        if !found.as_ref().is_some_and(is_folder) {
            return;
        }
        let names = self.enter(path).ok().flatten().and_then(|folder| folder.names().ok());
        for (name, _) in names.unwrap_or_default() {
            self.remove_if_hollow(&path.join(OsStr::from_bytes(name.as_bytes())));
        }
        self.remove_if_empty(path);
    }

    /// Descends to `path`, one name at a time. `missing` may create missing folders.
    fn descend_to(
        &self,
        path: &Path,
        missing: &mut dyn FnMut(&Folder, &Path) -> Result<bool>,
    ) -> Result<Option<Folder>> {
        let failed = |action: &str, way: &Path, error: io::Error| match error.kind() {
            io::ErrorKind::NotADirectory => not_a_directory(&self.path.join(way)),
            _ => Error::io(format!("{action} {}", self.path.join(way).display()), error),
        };
        let mut way = PathBuf::new();
        let again = self.folder.duplicate();
        let mut folder = again.map_err(|error| failed("open", &way, error))?;
        for name in path {
            way.push(name);
            let entered = match folder.enter(name) {
                Err(error) if error.kind() == io::ErrorKind::NotFound => {
                    if !missing(&folder, &way)? {
                        return Ok(None);
                    }
                    folder.enter(name)
                }
                entered => entered,
            };
            folder = entered.map_err(|error| failed("open", &way, error))?;
            let is_store = is_store_at(&folder).map_err(|error| failed("inspect", &way, error))?;
            if is_store {
                let path = self.path.join(&way);
                let refused =
                    format!("{} is a store: files are never restored into a store", path.display());
                return Err(Error::invalid(refused));
            }
        }
        Ok(Some(folder))
    }

    /// Syncs every folder in which names changed, once.
    ///
    /// # Errors
    /// `InvalidInput` if another process replaced a folder concurrently.
    pub(in crate::workspace) fn sync_changed(self) -> Result<()> {
        let failed = |path: &Path, error| Error::io(format!("sync {}", path.display()), error);
        for path in self.touched.iter().rev() {
            let full = self.path.join(path);
            let folder = self.enter(path)?.ok_or_else(|| {
                Error::not_found(format!("{} was deleted after it was written", full.display()))
            })?;
            folder.sync().map_err(|error| failed(&full, error))?;
        }
        for path in &self.above {
            Folder::open(path)
                .and_then(|folder| folder.sync())
                .map_err(|error| failed(path, error))?;
        }
        Ok(())
    }
}

/// Returns the directory of the store that contains `path`, if any.
pub fn store_above(path: &Path) -> io::Result<Option<PathBuf>> {
    let whole = fs::canonicalize(path)?;
    Ok(whole.ancestors().find(|folder| is_store(folder)).map(Path::to_owned))
}

/// Returns true if the directory `path` is a store.
fn is_store(path: &Path) -> bool {
    OF_A_STORE.iter().all(|name| fs::symlink_metadata(path.join(name)).is_ok())
}

fn is_store_at(folder: &Folder) -> io::Result<bool> {
    for name in OF_A_STORE {
        if folder.find(name.as_ref())?.is_none() {
            return Ok(false);
        }
    }
    Ok(true)
}

fn not_a_directory(path: &Path) -> Error {
    let path = path.display();
    Error::invalid(format!("{path} is not a directory: no file is written through it"))
}

/// Returns the parent directory of `path`.
pub(in crate::workspace) fn parent_of(path: &Path) -> Option<&Path> {
    path.parent().map(|parent| if parent == Path::new("") { Path::new(".") } else { parent })
}
