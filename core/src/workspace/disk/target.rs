//! The directory that a restore writes to, and the folders below it.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};
use std::{fs, io};

use super::clash::{Clash, clashes};
use super::durable::{FileSystems, most_open};
use super::folder::{EntryKind, Folder, FolderEntry};
use crate::error::{Error, Result};
use crate::platform::{canonical, name_of_bytes};

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
    /// The file systems of the folders that were opened for writing.
    file_systems: FileSystems,
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
        let (touched, above) = (BTreeSet::new(), Vec::new());
        Ok(Some(Self { path, folder, touched, above, file_systems: FileSystems::default() }))
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

    /// The same target, whose directory was made for this: until the end, a crash may take any part
    /// of it.
    pub(in crate::workspace) fn made(self) -> Self {
        let above = parent_of(self.path).map(Path::to_owned).into_iter().collect();
        Self { above, ..self }
    }

    /// Opens the folder `path` below the target, if it exists.
    ///
    /// # Errors
    /// `InvalidInput` if a component is not a real directory, or the path enters a store.
    pub(in crate::workspace) fn enter(&self, path: &Path) -> Result<Option<Folder>> {
        self.descend_to(path, &mut |_, _| Ok(false))
    }

    /// Returns the file systems of the folders that were opened for writing.
    pub(in crate::workspace) const fn file_systems(&self) -> &FileSystems {
        &self.file_systems
    }

    /// Returns true if the target was made for this. Until the end, a crash may take any part of
    /// it: nothing in it replaced something.
    pub(in crate::workspace) const fn is_new(&self) -> bool {
        !self.above.is_empty()
    }

    /// Opens the folder `path` below the target for writing, and creates missing folders. Returns
    /// its device, too.
    pub(in crate::workspace) fn enter_or_create(&mut self, path: &Path) -> Result<(i128, Folder)> {
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
        let full = self.path.join(path);
        let folder = entered?.ok_or_else(|| {
            Error::not_found(format!("{} was deleted after it was created", full.display()))
        })?;
        let failed = |error| Error::io(format!("inspect {}", full.display()), error);
        Ok((self.file_systems.note(&folder).map_err(failed)?, folder))
    }

    /// Returns the paths of files that would be one entry here: this file system considers their
    /// names equal. The second of each pair comes later.
    pub(in crate::workspace) fn clashes<'p>(
        &self,
        paths: impl Iterator<Item = &'p Path>,
    ) -> Result<Vec<Clash<'p>>> {
        clashes(&self.folder, paths)
            .map_err(|error| Error::io(format!("compare names in {}", self.path.display()), error))
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
            self.remove_if_hollow(&path.join(name_of_bytes(name.as_bytes())));
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

    /// Syncs every folder in which names changed, once, and the files of a new target.
    ///
    /// # Errors
    /// `InvalidInput` if another process replaced a folder concurrently.
    pub(in crate::workspace) fn sync_changed(mut self) -> Result<()> {
        let touched: Vec<PathBuf> = std::mem::take(&mut self.touched).into_iter().rev().collect();
        for paths in touched.chunks(most_open()) {
            let mut by_device: BTreeMap<i128, Vec<(&Path, Folder)>> = BTreeMap::new();
            for path in paths {
                let full = self.path.join(path);
                let folder = self.enter(path)?.ok_or_else(|| {
                    Error::not_found(format!("{} was deleted after it was written", full.display()))
                })?;
                let noted = self.file_systems.note(&folder);
                let device = noted.map_err(|error| sync_error(&full, error))?;
                by_device.entry(device).or_default().push((path, folder));
            }
            for (device, folders) in by_device {
                let Some(file_system) = self.file_systems.get(device) else { continue };
                let synced = file_system.sync_all(&folders, |(path, folder)| {
                    folder.sync().map_err(|error| sync_error(&self.path.join(path), error))
                });
                synced.into_iter().collect::<Result<()>>()?;
            }
        }
        self.file_systems.sync_deferred()?;
        for path in &self.above {
            Folder::open(path)
                .and_then(|folder| folder.sync())
                .map_err(|error| sync_error(path, error))?;
        }
        Ok(())
    }
}

fn sync_error(path: &Path, error: io::Error) -> Error {
    Error::io(format!("sync {}", path.display()), error)
}

/// Returns the directory of the store that contains `path`, if any.
pub fn store_above(path: &Path) -> io::Result<Option<PathBuf>> {
    let whole = canonical(path)?;
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
