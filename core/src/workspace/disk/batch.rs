//! Writes many files: a batch of them at a time is written by several threads, made durable
//! together, and only then renamed, so that no name ever shows content that a crash can take.
//! Only in a directory that did not exist before, all of it becomes durable at the end.

use std::collections::BTreeMap;
use std::io;
use std::path::Path;

use rayon::prelude::*;

use super::content::{Content, StoredFile};
use super::durable::{FileSystem, most_open};
use super::folder::{EntryKind, Folder, FolderEntry};
use super::target::TargetDir;
use super::temp_file::TempFile;
use crate::context::{Context, FileMode};
use crate::error::{Error, ErrorKind, Result};
use crate::object::ObjectSource;
use crate::platform::OUT_OF_HANDLES;

/// Permissions of a file and of an executable, before the user's umask.
pub(super) const FILE_MODE: u32 = 0o666;
const PROGRAM_MODE: u32 = 0o777;

/// Bytes of the files of a batch, unless a single file is larger. Each thread has the content of
/// one of them in memory.
const BATCH_BYTES: u64 = 32 << 20;

/// The size that is assumed for content of unknown size.
const UNKNOWN_BYTES: u64 = 1 << 20;

/// A file or link to write.
#[derive(Debug)]
pub(in crate::workspace) struct NewFile<'a> {
    /// The path below the target.
    pub(in crate::workspace) path: &'a Path,
    pub(in crate::workspace) mode: FileMode,
    pub(in crate::workspace) content: Content,
    /// Bytes of the content, if known.
    pub(in crate::workspace) size: Option<u64>,
    /// The entry that it replaces.
    pub(in crate::workspace) before: Option<&'a FolderEntry>,
    /// True if a folder that contains only empty folders is deleted for it.
    pub(in crate::workspace) replaces_hollow: bool,
}

/// Writes files into the folders of a target, and reports each to `done`: its index, and its size
/// or error. Stops where `done` returns an error.
///
/// # Errors
/// Those of `done`. It gets `Conflict` if the current entry is not the one before, `Locked` if
/// another restore writes the file, `InvalidInput` if a folder is not a real one, errors of reading
/// the content, and `Io` if the system refuses.
pub(in crate::workspace) fn put_all(
    source: &(dyn ObjectSource + Sync),
    context: &Context,
    target: &mut TargetDir<'_>,
    files: &[NewFile<'_>],
    done: &mut dyn FnMut(usize, Result<u64>) -> Result<()>,
) -> Result<()> {
    let mut waiting: Vec<(usize, &NewFile<'_>)> = files.iter().enumerate().collect();
    while !waiting.is_empty() {
        let rest = waiting.split_off(batch_len(&waiting));
        let batch = std::mem::replace(&mut waiting, rest);
        let postponed = put_batch(source, context, target, &batch, done)?;
        waiting.splice(0..0, postponed);
    }
    Ok(())
}

/// Returns how many of the first `waiting` files are written in one batch. Each stays open until
/// its rename, because closing it releases its lock. A file inside of another file waits until that
/// is in place, and then fails.
fn batch_len(waiting: &[(usize, &NewFile<'_>)]) -> usize {
    let mut bytes = 0_u64;
    let most = most_open().min(waiting.len());
    for (len, (_, file)) in waiting.iter().enumerate().take(most) {
        bytes = bytes.saturating_add(file.size.unwrap_or(UNKNOWN_BYTES));
        let before = len.checked_sub(1).and_then(|last| waiting.get(last));
        let is_inside = before.is_some_and(|(_, before)| file.path.starts_with(before.path));
        if len > 0 && (bytes > BATCH_BYTES || is_inside) {
            return len;
        }
    }
    most
}

/// Writes one batch. Returns the files to try again after it: they failed on a lock, or on the limit
/// of open files, and other files of the batch may hold either.
fn put_batch<'w, 'a>(
    source: &(dyn ObjectSource + Sync),
    context: &Context,
    target: &mut TargetDir<'_>,
    batch: &[(usize, &'w NewFile<'a>)],
    done: &mut dyn FnMut(usize, Result<u64>) -> Result<()>,
) -> Result<Vec<(usize, &'w NewFile<'a>)>> {
    let mut folders = BatchFolders::default();
    let entered: Vec<Result<usize>> =
        batch.iter().map(|(_, file)| folders.enter(target, file)).collect();
    let open = &folders.open;
    let target = &*target;
    let mut parts: Vec<Result<Part<'_>>> = batch
        .par_iter()
        .zip(entered)
        .map(|((_, file), at)| {
            let (device, folder) = at.and_then(|at| open.get(at).ok_or_else(no_folder))?;
            let file_system = target.file_systems().get(*device).ok_or_else(no_folder)?;
            let written = write_part(source, context, folder, file_system, file)?;
            Ok(Part { device: *device, ..written })
        })
        .collect();
    sync_parts(target, &mut parts);
    let has_progress = parts.iter().any(Result::is_ok);
    let mut postponed = Vec::new();
    for (&(index, file), part) in batch.iter().zip(parts) {
        let written = part.and_then(|part| part.name(file));
        match written {
            Err(error) if has_progress && may_succeed_later(&error) => {
                postponed.push((index, file));
            }
            written => done(index, written)?,
        }
    }
    Ok(postponed)
}

/// The folders of the files of a batch, open.
#[derive(Debug, Default)]
struct BatchFolders<'a> {
    open: Vec<(i128, Folder)>,
    at: BTreeMap<&'a Path, usize>,
}

impl<'a> BatchFolders<'a> {
    /// Opens the folder of a file, and creates it if needed. Returns its index.
    fn enter(&mut self, target: &mut TargetDir<'_>, file: &NewFile<'a>) -> Result<usize> {
        let parent = file.path.parent().unwrap_or(Path::new(""));
        let known = self.at.get(parent).copied();
        let at = match known {
            Some(at) => at,
            None => {
                self.open.push(target.enter_or_create(parent)?);
                self.at.insert(parent, self.open.len() - 1);
                self.open.len() - 1
            }
        };
        let is_folder = |(_, folder): &(i128, Folder)| {
            let found = folder.find(file.path.file_name().unwrap_or_default());
            found.is_ok_and(|found| found.is_some_and(|found| found.kind == EntryKind::Folder))
        };
        if file.replaces_hollow && self.open.get(at).is_some_and(is_folder) {
            target.remove_if_hollow(file.path);
        }
        Ok(at)
    }
}

fn no_folder() -> Error {
    Error::not_found("the folder was closed before the file was written")
}

/// A file or link under its temporary name.
struct Part<'f> {
    device: i128,
    part: TempFile<'f>,
    /// The content; `None` for a link.
    stored: Option<StoredFile>,
    bytes: u64,
}

impl Part<'_> {
    /// Renames it to its own name. Returns its size.
    fn name(self, file: &NewFile<'_>) -> Result<u64> {
        if let Some(stored) = &self.stored {
            stored.expect_unchanged()?;
        }
        self.part.name(file.path.file_name().unwrap_or_default(), file.before)?;
        Ok(self.bytes)
    }
}

fn write_part<'f>(
    source: &dyn ObjectSource,
    context: &Context,
    folder: &'f Folder,
    file_system: &FileSystem,
    file: &NewFile<'_>,
) -> Result<Part<'f>> {
    let name = file.path.file_name().unwrap_or_default();
    if file.mode == FileMode::Symlink {
        let to = file.content.bytes(source)?;
        let part = TempFile::link(folder, name, &to)?;
        return Ok(Part { device: 0, part, stored: None, bytes: to.len() as u64 });
    }
    let wanted = if file.mode == FileMode::Executable { PROGRAM_MODE } else { FILE_MODE };
    let mode = file.before.map_or(wanted, |found| found.narrow_permissions(wanted));
    let (part, open) = TempFile::file(folder, name, mode)?;
    let write = |out: &mut dyn io::Write| file.content.write(source, context, out);
    let stored = StoredFile::write(open, file_system, write)?;
    let bytes = stored.bytes();
    Ok(Part { device: 0, part, stored: Some(stored), bytes })
}

/// Makes the content of all parts durable, by file system. A part whose content may not be durable
/// becomes an error.
fn sync_parts(target: &TargetDir<'_>, parts: &mut [Result<Part<'_>>]) {
    let mut by_device: BTreeMap<i128, Vec<usize>> = BTreeMap::new();
    for (at, part) in parts.iter().enumerate() {
        if let Ok(Part { device, stored: Some(_), .. }) = part {
            by_device.entry(*device).or_default().push(at);
        }
    }
    for (device, places) in by_device {
        let Some(file_system) = target.file_systems().get(device) else { continue };
        if target.is_new() && file_system.defers() {
            continue;
        }
        let stored: Vec<&StoredFile> =
            places.iter().filter_map(|at| parts.get(*at)?.as_ref().ok()?.stored.as_ref()).collect();
        let synced = file_system.sync_all(&stored, |stored| stored.sync());
        for (at, synced) in places.into_iter().zip(synced) {
            if let (Some(part), Err(error)) = (parts.get_mut(at), synced) {
                *part = Err(error);
            }
        }
    }
}

/// Returns true if the files of a batch may be the reason: they are locked, or too many are open.
fn may_succeed_later(error: &Error) -> bool {
    let cause = std::error::Error::source(error).and_then(|cause| cause.downcast_ref());
    let is_out_of_handles = |cause: &io::Error| {
        cause.raw_os_error().is_some_and(|number| OUT_OF_HANDLES.contains(&number))
    };
    error.kind() == ErrorKind::Locked || cause.is_some_and(is_out_of_handles)
}
