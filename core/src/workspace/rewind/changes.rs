//! Plans the file changes of a rewind in a workspace.
//!
//! Compares the `files` section that was just captured with the target section, so the cost follows
//! the changes. A file is changed only while it equals the capture: then its content is in the
//! store. Files stay if they cannot be captured, or are ignored by the rules of the directory, of
//! the current snapshot or of the target state.

use std::collections::{BTreeMap, BTreeSet};
use std::ffi::{OsStr, OsString};
use std::path::{Path, PathBuf};

use crate::context::sections::FILES;
use crate::context::{Context, FileEntry, FileMode, Selection, text_key};
use crate::error::{Error, ErrorKind, Result};
use crate::object::ObjectSource;
use crate::platform::name_of_bytes;
use crate::repo::WholeWorkspace;
use crate::tree::{Item, Map, diff_maps};
use crate::workspace::capture::{CaptureReport, IGNORED};
use crate::workspace::disk::content::Content;
use crate::workspace::disk::folder::{EntryKind, Folder, FolderEntry};
use crate::workspace::disk::layout::workspace_path;
use crate::workspace::disk::target::TargetDir;

/// The changes of files in a workspace, ordered by path.
#[derive(Debug, Clone)]
#[non_exhaustive]
pub struct FileChanges {
    /// The directory.
    pub dir: PathBuf,
    /// Files that would be written or deleted.
    pub files: Vec<FileChange>,
    /// Files that stay although the state differs, or that could not be examined.
    pub left: Vec<UntouchedFile>,
    /// Number of captured files that are already up to date.
    pub unchanged: u64,
    /// True to delete files that the state lacks. False if the files of the state were never
    /// captured from a directory: such a list may be incomplete.
    pub deletes: bool,
    /// True if the directory was made for these files.
    pub(in crate::workspace) is_made: bool,
}

/// A file that would be written or deleted.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FileChange {
    /// The path relative to the directory.
    pub path: PathBuf,
    /// The change.
    pub kind: ChangeKind,
    /// True if the file on disk is not in the newest snapshot of the branch. It is saved first.
    pub unsaved: bool,
    /// True if the newest snapshot of the branch has no file at this path.
    pub unknown: bool,
    /// True if the file was created after the newest snapshot of the branch: that snapshot has all
    /// files of the directory at that time, but not this one.
    pub is_new: bool,
    /// The file to write; `None` to delete.
    pub(in crate::workspace) wanted: Option<FileEntry>,
    /// The current entry on disk.
    pub(in crate::workspace) found: Option<FolderEntry>,
}

/// The kinds of changes of a file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ChangeKind {
    /// The file is missing and would be written.
    Create,
    /// The file has other content and would be written.
    Overwrite,
    /// The file would be deleted.
    Delete,
}

/// A file that stays unchanged.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct UntouchedFile {
    /// The path relative to the directory.
    pub path: PathBuf,
    /// The reason.
    pub reason: String,
}

/// The states that a plan compares.
pub(in crate::workspace) struct ComparedStates<'a> {
    /// The workspace as it was just captured.
    pub(in crate::workspace) now: &'a Context,
    /// The newest snapshot of the branch.
    pub(in crate::workspace) saved: &'a Context,
    /// The target state.
    pub(in crate::workspace) wanted: &'a Context,
    /// The selected part of it.
    pub(in crate::workspace) only: &'a Selection,
    /// True if the list of files of the target is complete, so that other files are deleted.
    pub(in crate::workspace) whole: bool,
    /// The capture of `now`.
    pub(in crate::workspace) captured: &'a CaptureReport,
    /// The workspace of `saved`; `None` if it may lack files.
    pub(in crate::workspace) saved_whole: Option<&'a WholeWorkspace>,
    /// True if the directory was made for the files, and is removed if one cannot be written.
    pub(in crate::workspace) is_made: bool,
}

impl FileChanges {
    /// Returns the numbers of files to write and to delete.
    #[must_use]
    pub fn counts(&self) -> (u64, u64) {
        let is_delete = |file: &&FileChange| file.kind == ChangeKind::Delete;
        let deleted = self.files.iter().filter(is_delete).count() as u64;
        (self.files.len() as u64 - deleted, deleted)
    }

    /// Plans the changes of the directory `dir` according to `sides`. `source` has the contexts of
    /// all sides.
    ///
    /// # Errors
    /// Errors of reading the contexts; `Redacted` or `Corrupt` for content that cannot be written;
    /// `InvalidInput` if `dir` belongs to a store.
    pub(in crate::workspace) fn plan(
        source: &dyn ObjectSource,
        dir: &Path,
        sides: &ComparedStates<'_>,
    ) -> Result<Self> {
        let open = |context: &Context| context.map(source, FILES);
        let (now, saved, wanted) = (open(sides.now)?, open(sides.saved)?, open(sides.wanted)?);
        let target = TargetDir::open(dir)?
            .ok_or_else(|| Error::not_found(format!("{} is not a directory", dir.display())))?;
        let mut looking = ChangePlanner::new(source, target, sides.captured);
        let pending = looking.find_differing(&now, &wanted, sides)?;
        let is_leaving = |(path, file): &(&PathBuf, &PendingChange)| {
            file.want.is_none() && !sides.captured.beside.contains_key(*path)
        };
        let leaving: BTreeSet<PathBuf> =
            pending.iter().filter(is_leaving).map(|(path, _)| path.clone()).collect();
        let mut unchanged = now.len();
        let mut files = Vec::new();
        for (path, PendingChange { key, have, want }) in pending {
            unchanged -= u64::from(have.is_some());
            // INVARIANT: deleted and overwritten files were just captured. Files ignored by the
            // rules of any of the three sides are not captured: at most their last known content
            // is.
            if let Some(left) = sides.captured.beside.get(&path) {
                looking.beside.insert(left.shown.clone(), left.reason.to_owned());
                continue;
            }
            let (have, wanted) = (entry(have.as_ref())?, entry(want.as_ref())?);
            match looking.plan_change(&path, have.as_ref(), wanted.as_ref(), &leaving) {
                Ok(None) => {}
                Ok(Some((kind, found))) => {
                    let known = entry(saved.get(source, key.as_bytes())?.as_ref())?;
                    let unknown = kind != ChangeKind::Create && known.is_none();
                    let unsaved = kind != ChangeKind::Create && known != have;
                    let has_all = |saved: &WholeWorkspace| !saved.skips(&key);
                    let is_new = unknown && sides.saved_whole.is_some_and(has_all);
                    // Do not begin a change that cannot be completed: check that the content is
                    // readable.
                    if let Some(file) = wanted.as_ref().filter(|_| !sides.is_made) {
                        Content::Blob(file.blob).bytes(source)?;
                    }
                    files.push(FileChange { path, kind, unsaved, unknown, is_new, wanted, found });
                }
                Err(reason) => looking.note_untouched(path, reason),
            }
        }
        let (left, deletes, is_made) = (looking.finish(), sides.whole, sides.is_made);
        Ok(Self { dir: dir.to_owned(), files, left, unchanged, deletes, is_made })
    }
}

/// A differing entry.
#[derive(Debug)]
struct PendingChange {
    key: String,
    have: Option<Item>,
    want: Option<Item>,
}

/// A planner that examines one file after another.
struct ChangePlanner<'a> {
    source: &'a dyn ObjectSource,
    target: TargetDir<'a>,
    captured: &'a CaptureReport,
    /// The reason for each path that the capture skipped.
    skipped: BTreeMap<&'a Path, &'a str>,
    /// The reason for each other path that stays unchanged.
    left: BTreeMap<PathBuf, String>,
    /// The reason for each path that another state ignores, or for the skipped folder that contains
    /// it.
    beside: BTreeMap<PathBuf, String>,
    /// The folder examined last.
    folder: Option<(PathBuf, Option<Folder>)>,
}

/// The change of a file and its entry on disk; `None` for no change; an error with the reason to
/// skip it.
type PlannedChange = Result<Option<(ChangeKind, Option<FolderEntry>)>, String>;

impl<'a> ChangePlanner<'a> {
    fn new(
        source: &'a dyn ObjectSource,
        target: TargetDir<'a>,
        captured: &'a CaptureReport,
    ) -> Self {
        let skipped = captured.skipped.iter().map(|it| (&*it.path, &*it.reason)).collect();
        let (left, beside) = (BTreeMap::new(), BTreeMap::new());
        Self { source, target, captured, skipped, left, beside, folder: None }
    }

    /// Collects the files that differ between `now` and `wanted`, by path.
    fn find_differing(
        &mut self,
        now: &Map,
        wanted: &Map,
        sides: &ComparedStates<'_>,
    ) -> Result<BTreeMap<PathBuf, PendingChange>> {
        let mut pending = BTreeMap::new();
        for change in diff_maps(now, wanted, self.source) {
            let change = change?;
            let key = text_key(&change.key)?;
            let is_other = change.new.is_none() && !sides.whole;
            if is_other || !sides.only.has(FILES, &key) {
                continue;
            }
            match workspace_path(&key) {
                Ok(path) => {
                    pending.insert(path, PendingChange { key, have: change.old, want: change.new });
                }
                Err(error) => self.note_untouched(PathBuf::from(key), error.to_string()),
            }
        }
        Ok(pending)
    }

    fn note_untouched(&mut self, path: PathBuf, reason: String) {
        self.left.entry(path).or_insert(reason);
    }

    fn finish(mut self) -> Vec<UntouchedFile> {
        self.left.append(&mut self.beside);
        let skipped = self.skipped.iter();
        self.left.extend(skipped.map(|(path, reason)| ((*path).to_owned(), (*reason).to_owned())));
        self.left.into_iter().map(|(path, reason)| UntouchedFile { path, reason }).collect()
    }

    /// Returns the reason why a file, or a folder above it, could not be captured.
    fn skip_reason(&self, path: &Path) -> Option<&str> {
        path.ancestors().find_map(|above| self.skipped.get(above).copied())
    }

    /// Returns the change from `have`, the captured file at `path`, to `want`. The paths
    /// `current_state` are deleted.
    fn plan_change(
        &mut self,
        path: &Path,
        have: Option<&FileEntry>,
        want: Option<&FileEntry>,
        leaving: &BTreeSet<PathBuf>,
    ) -> PlannedChange {
        if let Some(reason) = self.skip_reason(path) {
            return Err(reason.to_owned());
        }
        let kind = match (have, want) {
            (_, None) => ChangeKind::Delete,
            (None, Some(_)) => ChangeKind::Create,
            (Some(_), Some(_)) => ChangeKind::Overwrite,
        };
        let missing = Ok(want.map(|_| (ChangeKind::Create, None)));
        let source = self.source;
        let in_the_way = |above: &Path| above != path && leaving.contains(above);
        let folder = match self.open_folder(path) {
            Ok(folder) => folder,
            // A file or a link at the place of a folder will be deleted.
            Err(error)
                if error.kind() == ErrorKind::InvalidInput && path.ancestors().any(in_the_way) =>
            {
                return missing;
            }
            Err(error) => return Err(format_error(&error)),
        };
        let (Some(folder), Some(name)) = (folder, path.file_name()) else { return missing };
        let failed = |error: std::io::Error| format!("it cannot be inspected: {error}");
        let Some(found) = folder.find(name).map_err(failed)? else { return missing };
        match (found.kind, have) {
            (EntryKind::Folder, _) => {
                let inside = folder.enter(name).map_err(failed)?;
                if is_empty_after(&inside, path, leaving).map_err(failed)? {
                    return missing;
                }
                Err("a folder with files to keep is in its place".to_owned())
            }
            (EntryKind::Special, _) => {
                Err("a pipe, a socket or a device is in its place".to_owned())
            }
            (_, None) => match find_other_name(folder, name, &found).map_err(failed)? {
                None => Err(uncaptured_reason(self.captured, path)),
                // The file system considers two names equal, and the other file will be deleted.
                Some(other) if leaving.contains(&path.with_file_name(&other)) => missing,
                Some(other) => {
                    let other = other.to_string_lossy();
                    Err(format!(
                        "the file system treats its name as equal to that of {other}, which stays"
                    ))
                }
            },
            (_, Some(have)) => match is_equal_on_disk(source, folder, path, &found, have) {
                Ok(true) => Ok(Some((kind, Some(found)))),
                Ok(false) => Err("it changed while it was inspected".to_owned()),
                Err(error) => Err(format_error(&error)),
            },
        }
    }

    /// Returns the folder of `path`, if it exists.
    fn open_folder(&mut self, path: &Path) -> Result<Option<&Folder>> {
        let parent = path.parent().unwrap_or(Path::new(""));
        if self.folder.as_ref().is_none_or(|(known, _)| known != parent) {
            self.folder = Some((parent.to_owned(), self.target.enter(parent)?));
        }
        Ok(self.folder.as_ref().and_then(|(_, folder)| folder.as_ref()))
    }
}

/// Returns the reason why an existing file was not captured.
fn uncaptured_reason(captured: &CaptureReport, path: &Path) -> String {
    let beside = path.ancestors().find_map(|above| captured.beside.get(above));
    beside.map_or(IGNORED, |left| left.reason).to_owned()
}

/// Returns the name in a folder of a file that was found under another name. Some file systems
/// consider names equal that differ by case or normal form.
fn find_other_name(
    folder: &Folder,
    name: &OsStr,
    found: &FolderEntry,
) -> std::io::Result<Option<OsString>> {
    let mut namesake = None;
    for (other, _) in folder.names()? {
        let other = name_of_bytes(other.as_bytes());
        if other == name {
            return Ok(None);
        }
        if folder.find(&other)?.is_some_and(|other| other.identity == found.identity) {
            namesake = Some(other.into_owned());
        }
    }
    Ok(namesake)
}

/// Returns true if a file that differs between `before` and `wanted` is in `dir` as in `before`.
///
/// # Errors
/// Errors of reading the contexts, and `Io` if a file cannot be examined.
pub(in crate::workspace) fn has_unrestored(
    source: &dyn ObjectSource,
    dir: &Path,
    before: &Context,
    wanted: &Context,
) -> Result<bool> {
    let Some(target) = TargetDir::open(dir)? else { return Ok(false) };
    let (before, wanted) = (before.map(source, FILES)?, wanted.map(source, FILES)?);
    for change in diff_maps(&before, &wanted, source) {
        let change = change?;
        let Ok(path) = workspace_path(&text_key(&change.key)?) else { continue };
        let parent = path.parent().unwrap_or(Path::new(""));
        // A path through a link or a file does not exist.
        let folder = target.enter(parent).ok().flatten();
        let name = path.file_name().unwrap_or_default();
        let failed = |error| Error::io(format!("inspect {}", path.display()), error);
        let found = folder.as_ref().map(|folder| folder.find(name)).transpose().map_err(failed)?;
        let found = found.flatten();
        let is_so = match (entry(change.old.as_ref())?, folder.zip(found)) {
            (None, None) => true,
            (Some(old), Some((folder, found))) => {
                is_equal_on_disk(source, &folder, &path, &found, &old)?
            }
            _ => false,
        };
        if is_so {
            return Ok(true);
        }
    }
    Ok(false)
}

/// Returns true if a folder is empty after the paths `current_state` are deleted.
fn is_empty_after(
    folder: &Folder,
    path: &Path,
    leaving: &BTreeSet<PathBuf>,
) -> std::io::Result<bool> {
    for (name, _) in folder.names()? {
        let name = name_of_bytes(name.as_bytes());
        let inner = path.join(&name);
        if leaving.contains(&inner) {
            continue;
        }
        let is_folder = folder.find(&name)?.is_some_and(|found| found.kind == EntryKind::Folder);
        if !is_folder || !is_empty_after(&folder.enter(&name)?, &inner, leaving)? {
            return Ok(false);
        }
    }
    Ok(true)
}

/// Returns true if the file on disk equals the entry.
fn is_equal_on_disk(
    source: &dyn ObjectSource,
    folder: &Folder,
    path: &Path,
    found: &FolderEntry,
    entry: &FileEntry,
) -> Result<bool> {
    let name = path.file_name().unwrap_or_default();
    let failed = |error| Error::io("inspect it", error);
    let content = Content::Blob(entry.blob);
    match (entry.mode, found.kind) {
        (FileMode::Symlink, EntryKind::Link) => {
            Ok(folder.read_link(name).map_err(failed)? == content.bytes(source)?)
        }
        (FileMode::Regular | FileMode::Executable, EntryKind::File) => Ok(found
            .agrees_on_executable(0o111, entry.mode == FileMode::Executable)
            && content.is_content_of(
                source,
                &Context::default(),
                folder.read(name).map_err(failed)?,
            )?),
        _ => Ok(false),
    }
}

fn entry(item: Option<&Item>) -> Result<Option<FileEntry>> {
    item.map(FileEntry::from_item).transpose()
}

/// Formats an error and its causes on one line.
pub(in crate::workspace) fn format_error(error: &Error) -> String {
    let causes = std::iter::successors(std::error::Error::source(error), |cause| cause.source());
    causes.fold(error.to_string(), |text, cause| format!("{text}: {cause}"))
}
