//! Writes one file outside of any workspace, which is renamed into place when it is complete and
//! durable.

use std::io::Write;
use std::path::Path;

use super::batch::FILE_MODE;
use super::content::StoredFile;
use super::durable::FileSystem;
use super::folder::{EntryKind, Folder};
use super::target::parent_of;
use super::temp_file::TempFile;
use crate::error::{Error, Result};

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
    let mode = before.as_ref().map_or(FILE_MODE, |found| found.narrow_permissions(FILE_MODE));
    let file_system = FileSystem::of(&folder).map_err(failed)?;
    let save = || {
        // The file stays open until it is renamed, because closing it releases the lock.
        let (part, file) = TempFile::file(&folder, name, mode)?;
        let stored = StoredFile::write(file, &file_system, write)?;
        stored.sync()?;
        stored.expect_unchanged()?;
        part.name(name, before.as_ref())?;
        Ok(stored.bytes())
    };
    let bytes = save().map_err(place)?;
    folder.sync().map_err(failed)?;
    Ok(bytes)
}
