//! Writes files and links that are renamed into place after they were written, synced and read
//! back.

use std::ffi::OsStr;
use std::io::Write;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;

use super::content::{Content, store};
use super::folder::{EntryKind, Folder, FolderEntry};
use super::target::parent_of;
use super::temp_file::TempFile;
use crate::context::{Context, FileMode};
use crate::error::{Error, Result};
use crate::object::ObjectSource;

/// Permissions of a file and of an executable, before the user's umask.
const FILE_MODE: u32 = 0o666;
const PROGRAM_MODE: u32 = 0o777;

/// Writes a file or link with this content as `name` in a folder, replacing `before` or nothing.
/// Returns its size.
///
/// # Errors
/// `Conflict` if the current entry is not `before`, `Locked` if another restore writes the file,
/// errors of reading the content, and `Io` if the system refuses.
pub(in crate::workspace) fn put(
    source: &dyn ObjectSource,
    context: &Context,
    folder: &Folder,
    name: &OsStr,
    mode: FileMode,
    content: &Content,
    before: Option<&FolderEntry>,
) -> Result<u64> {
    if mode == FileMode::Symlink {
        let target = content.bytes(source)?;
        TempFile::link(folder, name, OsStr::from_bytes(&target))?.name(name, before)?;
        return Ok(target.len() as u64);
    }
    let wanted = if mode == FileMode::Executable { PROGRAM_MODE } else { FILE_MODE };
    write_file(folder, name, wanted, before, |out| content.write(source, context, out))
}

/// Writes a file outside of any workspace, such as an export: complete and durable under its name,
/// or not at all. Returns its size.
///
/// Its permissions are 666 minus the user's umask, and never more than those of the replaced file.
///
/// # Errors
/// `InvalidInput` if the name is taken by something that may not be replaced or is not a file;
/// `Conflict` if the name was taken concurrently, `Locked` if another process writes the same file,
/// errors of `write`, and `Io` if the system refuses.
pub fn save(
    path: &Path,
    replace: bool,
    write: impl FnOnce(&mut dyn Write) -> Result<()>,
) -> Result<u64> {
    let place = |error: Error| error.at(path.display());
    let failed = |error| Error::io(format!("write {}", path.display()), error);
    let parent = parent_of(path);
    let (Some(parent), Some(name)) = (parent, path.file_name()) else {
        return Err(Error::invalid(format!("{} is not the name of a file", path.display())));
    };
    let folder = Folder::open(parent).map_err(failed)?;
    let before = folder.find(name).map_err(failed)?;
    match before.as_ref().map(|found| found.kind) {
        Some(EntryKind::Folder | EntryKind::Special) => {
            return Err(Error::invalid(format!("{} is not a file", path.display())));
        }
        Some(_) if !replace => {
            return Err(Error::invalid(format!("{} exists already", path.display())));
        }
        _ => {}
    }
    let bytes = write_file(&folder, name, FILE_MODE, before.as_ref(), write).map_err(place)?;
    folder.sync().map_err(failed)?;
    Ok(bytes)
}

fn write_file(
    folder: &Folder,
    name: &OsStr,
    wanted: u32,
    before: Option<&FolderEntry>,
    write: impl FnOnce(&mut dyn Write) -> Result<()>,
) -> Result<u64> {
    let mode = before.map_or(wanted, |found| found.narrow_permissions(wanted));
    // The file stays open until it is renamed, because closing it releases the lock.
    let (part, mut file) = TempFile::file(folder, name, mode)?;
    let bytes = store(&mut file, write)?;
    part.name(name, before)?;
    Ok(bytes)
}
