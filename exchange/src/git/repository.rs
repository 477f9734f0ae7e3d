//! The repository that an export writes to: made by turntree, and known by a mark of its own.
//!
//! A git repository without a working tree. The file `turntree` in it says that turntree made it and
//! how; it is written first, so an export that was killed at any moment can be run again, and it is
//! locked while one is at work.

use std::fs::{self, File, OpenOptions, TryLockError};
use std::io::{self, Read, Seek, Write};
use std::path::Path;

use gix::ObjectId as GitId;
use gix::objs::Kind as GitKind;
use gix::objs::tree::EntryKind;
use turntree::error::{Error, ErrorKind, Result};

use super::tree::{Entries, Folder, Leaf, Node};
use super::{git_error, plain};

/// The file that says who made the repository.
const MARK: &str = "turntree";

/// Its first line; the layout of what is exported is part of it.
const MARK_TEXT: &str = "turntree git export 1\n";

/// The second line, with the transcript and without.
const WITH_SOURCE: &str = "source: yes\n";
const WITHOUT_SOURCE: &str = "source: no\n";

/// Most bytes of a mark.
const MAX_MARK_BYTES: u64 = 4096;

/// Bounds that hold for every repository: the largest size that an object may claim, and that an
/// object is the one with its id.
const OVERRIDES: [&str; 2] =
    ["gitoxide.objects.allocLimit=268435456", "gitoxide.objects.noReplace=true"];

const CONFIG: &str = "[core]\n\trepositoryformatversion = 0\n\tfilemode = true\n\tbare = true\n";
const FOLDERS: [&str; 5] = ["objects", "objects/info", "objects/pack", "refs/heads", "refs/tags"];

/// A repository of turntree's, which nobody else exports to as long as this is there.
pub(super) struct ExportRepository {
    pub(super) git: gix::Repository,
    /// Holds the lock.
    mark: File,
}

impl Drop for ExportRepository {
    fn drop(&mut self) {
        // Closing is not enough while a process that was just started still has the file. A lock that
        // cannot be given back goes with this process.
        let _ = self.mark.unlock();
    }
}

impl ExportRepository {
    /// Opens the repository in `dir`, or makes it where nothing is.
    ///
    /// # Errors
    /// `InvalidInput` when there is something that turntree did not make, or that was exported with
    /// another choice about the transcript; `Locked` while another export is at work.
    pub(super) fn open(dir: &Path, with_source: bool) -> Result<Self> {
        let failed = |error| Error::io(format!("write {}", dir.display()), error);
        let mark = match open_mark(dir)? {
            Some(mark) => mark,
            None => make_mark(dir)?,
        };
        match mark.try_lock() {
            Err(TryLockError::WouldBlock) => {
                let message = format!("another export to {} is at work", dir.display());
                return Err(Error::new(ErrorKind::Locked, message));
            }
            Err(TryLockError::Error(error)) => return Err(failed(error)),
            Ok(()) => {}
        }
        if is_unfinished(dir, &mark).map_err(failed)? {
            write_mark(&mark, with_source).map_err(failed)?;
        }
        check_mark(dir, &mark, with_source)?;
        make_skeleton(dir).map_err(failed)?;
        Ok(Self { git: open(dir)?, mark })
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

/// Opens a repository without looking at the environment, at what the user or the system has set, or
/// at more of its own settings than its format.
///
/// # Errors
/// `InvalidInput` when there is none that can be read, `LimitExceeded` when what is read of it whole is
/// too long for that, `Unsupported` when its refs are not in files.
pub(super) fn open(dir: &Path) -> Result<gix::Repository> {
    plain::check(dir)?;
    let options = gix::open::Options::isolated().with(gix::sec::Trust::Reduced);
    let options = options.config_overrides(OVERRIDES);
    let opened = options.open(dir);
    let repo = opened.map_err(|error| {
        let message = format!("{} is not a git repository that can be read", dir.display());
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

fn open_mark(dir: &Path) -> Result<Option<File>> {
    let path = dir.join(MARK);
    match OpenOptions::new().read(true).write(true).open(&path) {
        Ok(file) => Ok(Some(file)),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
        Err(error) if error.kind() == io::ErrorKind::NotADirectory => {
            Err(Error::invalid(format!("{} is a file: expected a directory", dir.display())))
        }
        Err(error) => Err(Error::io(format!("open {}", path.display()), error)),
    }
}

/// Makes a mark in `dir`, still empty, where nothing else may be.
fn make_mark(dir: &Path) -> Result<File> {
    let failed = |error| Error::io(format!("make {}", dir.display()), error);
    fs::create_dir_all(dir).map_err(failed)?;
    if fs::read_dir(dir).map_err(failed)?.next().is_some() {
        let message = format!(
            "{} is not empty, and not a repository that 'git export' made: nothing was written",
            dir.display()
        );
        return Err(Error::invalid(message));
    }
    let path = dir.join(MARK);
    match OpenOptions::new().read(true).write(true).create_new(true).open(&path) {
        // Somebody else was faster, and is at work.
        Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {
            open_mark(dir)?.ok_or_else(|| failed(error))
        }
        made => made.map_err(failed),
    }
}

/// Returns true if a mark is not whole: there is nothing but it, and it is shorter than any that
/// is.
fn is_unfinished(dir: &Path, mark: &File) -> io::Result<bool> {
    let is_short = mark.metadata()?.len() < (MARK_TEXT.len() + WITHOUT_SOURCE.len()) as u64;
    Ok(is_short && fs::read_dir(dir)?.count() == 1)
}

fn write_mark(mut mark: &File, with_source: bool) -> io::Result<()> {
    let choice = if with_source { WITH_SOURCE } else { WITHOUT_SOURCE };
    mark.rewind()?;
    mark.write_all(format!("{MARK_TEXT}{choice}").as_bytes())?;
    mark.sync_all()
}

fn check_mark(dir: &Path, mut mark: &File, with_source: bool) -> Result<()> {
    let path = dir.join(MARK);
    let mut text = String::new();
    mark.rewind()
        .and_then(|()| mark.take(MAX_MARK_BYTES).read_to_string(&mut text))
        .map_err(|error| Error::io(format!("read {}", path.display()), error))?;
    let shown = dir.display();
    match (text.strip_prefix(MARK_TEXT), with_source) {
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

/// Makes what a repository begins with, as far as it is not there. HEAD comes last: with it git takes
/// the directory for a repository.
fn make_skeleton(dir: &Path) -> io::Result<()> {
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
