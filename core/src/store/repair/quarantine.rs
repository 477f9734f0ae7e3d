//! Quarantine: where damaged files go, since nothing is deleted that may still be good for something.

use std::collections::BTreeSet;
use std::io::ErrorKind as IoErrorKind;
use std::path::{Path, PathBuf};

use crate::error::{Error, ErrorKind, Result};
use crate::store::QUARANTINE_DIR;
use crate::store::dir::failed;
use crate::store::io::Io;

/// Numbers that a name in quarantine gets.
const MAX_ATTEMPTS: usize = 64;

/// Puts files of the store in `dir` into quarantine. Each has its new name, durable, before it loses
/// the old one.
pub(in crate::store) fn move_files(io: &dyn Io, dir: &Path, files: &[PathBuf]) -> Result<()> {
    if files.is_empty() {
        return Ok(());
    }
    let quarantine = dir.join(QUARANTINE_DIR);
    io.create_dir_if_missing(&quarantine)?;
    for path in files {
        link_into(io, &quarantine, path)?;
    }
    io.sync_names(dir)?;
    io.sync_names(&quarantine)?;
    for path in files {
        io.remove_if_exists(path)?;
    }
    let folders: BTreeSet<&Path> = files.iter().filter_map(|path| path.parent()).collect();
    folders.into_iter().chain([dir]).try_for_each(|folder| io.sync_names(folder))
}

/// Gives a file a name in quarantine: its own, and a number.
fn link_into(io: &dyn Io, quarantine: &Path, path: &Path) -> Result<()> {
    let base = path.file_name().unwrap_or_default().to_string_lossy();
    for number in 0..MAX_ATTEMPTS {
        match io.link(path, &quarantine.join(format!("{base}.{number}"))) {
            Err(source) if source.kind() == IoErrorKind::AlreadyExists => {}
            // An old manifest, which whoever published a new one has removed.
            Err(source) if source.kind() == IoErrorKind::NotFound => return Ok(()),
            linked => return linked.map_err(failed("move", path)),
        }
    }
    let message = format!("{}: too many files of this name", quarantine.display());
    Err(Error::new(ErrorKind::LimitExceeded, message))
}
