//! The repository that an export writes to. turntree creates it and marks it with a file.
//!
//! It is a bare git repository. The file `turntree` in it records that turntree created it, and its
//! options. The file is written first, so an export that was killed at any moment can be repeated.
//! An export locks the file while it runs.

use std::fs::{self, File, OpenOptions};
use std::io::{self, Read, Seek, Write};
use std::path::Path;

use gix::ObjectId as GitId;
use gix::objs::Kind as GitKind;
use gix::objs::tree::EntryKind;
use turntree::error::{Error, ErrorKind, Result};
use turntree::platform::{Lock, try_lock, unlock};

use super::tree::{Entries, Folder, Leaf, Node};
use super::{check, git_error};

/// The file that marks a repository of turntree.
const MARKER_NAME: &str = "turntree";

/// The first line of the file. It includes the version of the layout.
const MARKER_TEXT: &str = "turntree git export 1\n";

/// The second line: with or without the transcript.
const WITH_SOURCE: &str = "source: yes\n";
const WITHOUT_SOURCE: &str = "source: no\n";

/// Maximum size of the file in bytes.
const MAX_MARKER_BYTES: u64 = 4096;

/// Settings for every repository: a limit of the object size, and no replacement objects.
const OVERRIDES: [&str; 2] =
    ["gitoxide.objects.allocLimit=268435456", "gitoxide.objects.noReplace=true"];

const CONFIG: &str = "[core]\n\trepositoryformatversion = 0\n\tfilemode = true\n\tbare = true\n";
const FOLDERS: [&str; 5] = ["objects", "objects/info", "objects/pack", "refs/heads", "refs/tags"];

/// An exported repository. Other exports to it are locked out while this value exists.
pub(super) struct ExportRepository {
    pub(super) git: gix::Repository,
    /// The marker file, which holds the lock.
    marker: File,
}

impl Drop for ExportRepository {
    fn drop(&mut self) {
        // Closing the file does not release the lock while a newly started process still has it
        // open. If the unlock fails, the lock is released when this process ends.
        let _ = unlock(&self.marker);
    }
}

impl ExportRepository {
    /// Opens the repository in `dir`, or creates it if `dir` is empty or missing.
    ///
    /// # Errors
    /// `InvalidInput` if `dir` has files of other programs, or was exported with a different choice
    /// about the transcript; `Locked` while another export runs.
    pub(super) fn open(dir: &Path, with_source: bool) -> Result<Self> {
        let failed = |error| Error::io(format!("write {}", dir.display()), error);
        let marker = match open_marker(dir)? {
            Some(marker) => marker,
            None => create_marker(dir)?,
        };
        if try_lock(&marker).map_err(failed)? == Lock::Busy {
            let message = format!("another export to {} is running", dir.display());
            return Err(Error::new(ErrorKind::Locked, message));
        }
        if is_unfinished(dir, &marker).map_err(failed)? {
            write_marker(&marker, with_source).map_err(failed)?;
        }
        check_marker(dir, &marker, with_source)?;
        create_skeleton(dir).map_err(failed)?;
        Ok(Self { git: open(dir)?, marker })
    }

    /// Returns the entries of the tree `id`.
    pub(super) fn entries(&self, id: &GitId) -> Result<Entries> {
        let object = self.git.find_object(*id).map_err(|error| git_error("read a tree", error))?;
        let damaged = |found: &str| Error::corrupt(id, "a tree that turntree wrote", found);
        if object.kind != GitKind::Tree {
            return Err(damaged("another object"));
        }
        let tree = gix::objs::TreeRef::from_bytes(&object.data, id.kind())
            .map_err(|error| git_error("decode a tree", error))?;
        let mut entries = Entries::new();
        for entry in tree.entries {
            let name = std::str::from_utf8(entry.filename).map_err(|_| damaged("another name"))?;
            let (kind, id) = (entry.mode.kind(), entry.oid.to_owned());
            let node = match kind {
                EntryKind::Tree => Node::Folder(Folder::at(id)),
                EntryKind::Commit => return Err(damaged("a submodule")),
                kind => Node::Leaf(Leaf { kind, id }),
            };
            entries.insert(name.to_owned(), node);
        }
        Ok(entries)
    }
}

/// Opens a repository. Ignores the environment, the user and system configuration, and the
/// repository's own configuration except for its format.
///
/// # Errors
/// `InvalidInput` if there is no readable repository, `LimitExceeded` if a file that is read as a
/// whole is too long, `Unsupported` if its refs are not stored in files.
pub(super) fn open(dir: &Path) -> Result<gix::Repository> {
    check::check(dir)?;
    let options = gix::open::Options::isolated().with(gix::sec::Trust::Reduced);
    let options = options.config_overrides(OVERRIDES);
    let opened = options.open(dir);
    let repo = opened.map_err(|error| {
        let message = format!("{} is not a readable git repository", dir.display());
        Error::invalid(message).with_source(error)
    })?;
    let repo = repo.to_thread_local();
    let refs = repo.config_snapshot().string("extensions.refStorage");
    match refs.filter(|refs| !refs.eq_ignore_ascii_case(b"files")) {
        None => Ok(repo),
        Some(refs) => {
            let message = format!("{} keeps its refs as '{refs}': expected files", dir.display());
            Err(Error::new(ErrorKind::Unsupported, message))
        }
    }
}

fn open_marker(dir: &Path) -> Result<Option<File>> {
    let path = dir.join(MARKER_NAME);
    match OpenOptions::new().read(true).write(true).open(&path) {
        Ok(file) => Ok(Some(file)),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
        Err(error) if error.kind() == io::ErrorKind::NotADirectory => {
            Err(Error::invalid(format!("{} is a file: expected a directory", dir.display())))
        }
        Err(error) => Err(Error::io(format!("open {}", path.display()), error)),
    }
}

/// Creates an empty marker file in `dir`, which must be empty.
fn create_marker(dir: &Path) -> Result<File> {
    let failed = |error| Error::io(format!("make {}", dir.display()), error);
    fs::create_dir_all(dir).map_err(failed)?;
    if fs::read_dir(dir).map_err(failed)?.next().is_some() {
        let message = format!(
            "{} is not empty, and not a repository that 'git export' made: nothing was written",
            dir.display()
        );
        return Err(Error::invalid(message));
    }
    let path = dir.join(MARKER_NAME);
    match OpenOptions::new().read(true).write(true).create_new(true).open(&path) {
        // Another export created the file first and is running.
        Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {
            open_marker(dir)?.ok_or_else(|| failed(error))
        }
        made => made.map_err(failed),
    }
}

/// Returns true if the marker file is incomplete: it is the only file, and shorter than a complete
/// one.
fn is_unfinished(dir: &Path, marker: &File) -> io::Result<bool> {
    let is_short = marker.metadata()?.len() < (MARKER_TEXT.len() + WITHOUT_SOURCE.len()) as u64;
    Ok(is_short && fs::read_dir(dir)?.count() == 1)
}

fn write_marker(mut marker: &File, with_source: bool) -> io::Result<()> {
    let choice = if with_source { WITH_SOURCE } else { WITHOUT_SOURCE };
    marker.rewind()?;
    marker.write_all(format!("{MARKER_TEXT}{choice}").as_bytes())?;
    marker.sync_all()
}

fn check_marker(dir: &Path, mut marker: &File, with_source: bool) -> Result<()> {
    let path = dir.join(MARKER_NAME);
    let mut text = String::new();
    marker
        .rewind()
        .and_then(|()| marker.take(MAX_MARKER_BYTES).read_to_string(&mut text))
        .map_err(|error| Error::io(format!("read {}", path.display()), error))?;
    let shown = dir.display();
    match (text.strip_prefix(MARKER_TEXT), with_source) {
        (Some(WITH_SOURCE), true) | (Some(WITHOUT_SOURCE), false) => Ok(()),
        (Some(WITH_SOURCE), false) => Err(Error::invalid(format!(
            "{shown} was first exported with --source: pass --source again"
        ))),
        (Some(WITHOUT_SOURCE), true) => Err(Error::invalid(format!(
            "{shown} was first exported without --source: leave it out"
        ))),
        _ => {
            let message = format!("{}: expected a mark of 'git export'", path.display());
            Err(Error::invalid(message))
        }
    }
}

/// Creates the missing files of an empty repository. Writes HEAD last, because git recognizes a
/// repository by it.
fn create_skeleton(dir: &Path) -> io::Result<()> {
    for folder in FOLDERS {
        fs::create_dir_all(dir.join(folder))?;
    }
    for (name, text) in [("config", CONFIG), ("HEAD", "ref: refs/heads/main\n")] {
        let path = dir.join(name);
        if fs::metadata(&path).is_ok_and(|found| found.len() > 0) {
            continue;
        }
        let mut file = File::create(path)?;
        file.write_all(text.as_bytes())?;
        file.sync_all()?;
    }
    Ok(())
}
