//! Files and links that get their names only when they are whole, on disk and read back.

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

/// Permissions of a file and of one that can be executed; the user's umask takes from them.
const FILE_MODE: u32 = 0o666;
const PROGRAM_MODE: u32 = 0o777;

/// Gives the name `name` in a folder to a file or link with this content, in place of `before` or
/// of nothing. Returns its bytes.
///
/// # Errors
/// `Conflict` when what has the name is not `before`, `Locked` when another restore writes the
/// file, what reading the content reports, and `Io` when the system refuses.
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

/// Writes a file that belongs to no directory of a context, such as an export: whole and durable
/// under its name, or not at all. Returns its bytes.
///
/// Its permissions are those the user's umask leaves of 666, and never more than those of the file
/// that it replaces.
///
/// # Errors
/// `InvalidInput` when something has that name and is not to be replaced, or is no file; `Conflict`
/// when something got that name meanwhile, `Locked` when another process writes the same file, what
/// `write` reports, and `Io` when the system refuses.
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
    let mode = before.map_or(wanted, |found| found.narrow(wanted));
    // The lock goes with the file, so it is open until it has its name.
    let (part, mut file) = TempFile::file(folder, name, mode)?;
    let bytes = store(&mut file, write)?;
    part.name(name, before)?;
    Ok(bytes)
}
