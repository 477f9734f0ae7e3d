//! The writing of a plan: file by file, each whole or not at all.

use std::ffi::OsStr;
use std::io::Write;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;

use super::content::{Content, store};
use super::folder::{EntryKind, Folder, Found};
use super::part::Part;
use super::plan::{Action, PlannedFile, RestorePlan};
use super::target::{Target, parent_of};
use crate::context::{Context, FileMode};
use crate::error::{Error, Result};
use crate::object::ObjectSource;

/// Permissions of a file and of one that can be executed; the user's umask takes from them.
const FILE_MODE: u32 = 0o666;
const PROGRAM_MODE: u32 = 0o777;

/// What was done.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Restored {
    /// Files written.
    pub written: u64,
    /// Files that were there just so.
    pub kept: u64,
    /// Bytes written.
    pub bytes: u64,
}

impl RestorePlan {
    /// Does it. Each file is written under a temporary name, synced, read back and then renamed, so
    /// that a file is there whole or not at all; the folders are synced at the end, each once.
    ///
    /// What is not as it was when it was planned is not touched. A path is opened name by name, and
    /// no link is followed below the target, even if another process makes one meanwhile.
    ///
    /// # Errors
    /// `InvalidInput` when files would be overwritten and `overwrite` is false: nothing is written
    /// then. Other errors say how many files were written before: `Conflict` when a file came or
    /// changed since it was planned, `Locked` when another restore writes it, `InvalidInput` when a
    /// folder became something else, `Io` when the system refuses.
    pub fn apply(&self, source: &dyn ObjectSource, overwrite: bool) -> Result<Restored> {
        let mut in_the_way = self.files.iter().filter(|file| file.action == Action::Overwrite);
        if let (Some(first), false) = (in_the_way.next(), overwrite) {
            let files = match in_the_way.count() {
                0 => "1 file differs".to_owned(),
                more => format!("{} files differ", more + 1),
            };
            return Err(Error::invalid(format!(
                "{}: {files} from the snapshot, the first is {}: nothing was written",
                self.target.display(),
                first.path.display()
            )));
        }
        let mut restored = Restored::default();
        let written = self.write_files(source, &mut restored);
        written.map_err(|error| {
            let (written, files) = (restored.written, self.files.len() as u64 - restored.kept);
            error.at(format_args!("{written} of {files} files were written, then"))
        })?;
        Ok(restored)
    }

    fn write_files(&self, source: &dyn ObjectSource, restored: &mut Restored) -> Result<()> {
        let mut target = Target::open_or_create(&self.target)?;
        let mut current: Option<(&Path, Folder)> = None;
        restored.kept = self.files.iter().filter(|file| file.action == Action::Keep).count() as u64;
        for file in self.files.iter().filter(|file| file.action != Action::Keep) {
            let parent = file.path.parent().unwrap_or(Path::new(""));
            let folder = match current.take().filter(|(path, _)| *path == parent) {
                Some((_, folder)) => folder,
                None => target.enter_or_create(parent)?,
            };
            let place = || self.target.join(&file.path);
            let written = file.write(source, &self.context, &folder);
            restored.bytes += written.map_err(|error| error.at(place().display()))?;
            restored.written += 1;
            current = Some((parent, folder));
        }
        target.finish()
    }
}

impl PlannedFile {
    fn write(&self, source: &dyn ObjectSource, context: &Context, folder: &Folder) -> Result<u64> {
        let name = self.path.file_name().unwrap_or_default();
        put(source, context, folder, name, self.mode, &self.content, self.found.as_ref())
    }
}

/// Gives the name `name` in a folder to a file or link with this content, in place of `before` or of
/// nothing. Returns its bytes.
///
/// # Errors
/// `Conflict` when what has the name is not `before`, `Locked` when another restore writes the file,
/// what reading the content reports, and `Io` when the system refuses.
pub(super) fn put(
    source: &dyn ObjectSource,
    context: &Context,
    folder: &Folder,
    name: &OsStr,
    mode: FileMode,
    content: &Content,
    before: Option<&Found>,
) -> Result<u64> {
    if mode == FileMode::Symlink {
        let target = content.bytes(source)?;
        Part::link(folder, name, OsStr::from_bytes(&target))?.name(name, before)?;
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
    before: Option<&Found>,
    write: impl FnOnce(&mut dyn Write) -> Result<()>,
) -> Result<u64> {
    let mode = before.map_or(wanted, |found| found.narrow(wanted));
    // The lock goes with the file, so it is open until it has its name.
    let (part, mut file) = Part::file(folder, name, mode)?;
    let bytes = store(&mut file, write)?;
    part.name(name, before)?;
    Ok(bytes)
}
