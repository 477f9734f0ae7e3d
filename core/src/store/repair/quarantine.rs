//! Moves damaged files to quarantine instead of deleting them, since they may still be useful.

use std::collections::BTreeSet;
use std::io::ErrorKind as IoErrorKind;
use std::path::{Path, PathBuf};

use crate::error::{Error, ErrorKind, Result};
use crate::store::QUARANTINE_DIR;
use crate::store::dir::failed;
use crate::store::io::Io;

/// Most files of one name in quarantine, distinguished by numbers.
const MAX_ATTEMPTS: usize = 64;

/// Moves files of the store in `dir` to quarantine. The new name of each is durable before the old
/// one is removed.
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

/// Links a file into quarantine under its own name with a number.
fn link_into(io: &dyn Io, quarantine: &Path, path: &Path) -> Result<()> {
    let base = path.file_name().unwrap_or_default().to_string_lossy();
    for number in 0..MAX_ATTEMPTS {
        match io.link(path, &quarantine.join(format!("{base}.{number}"))) {
            Err(source) if source.kind() == IoErrorKind::AlreadyExists => {}
            // An old manifest that another process removed after publishing a new one.
            Err(source) if source.kind() == IoErrorKind::NotFound => return Ok(()),
            linked => return linked.map_err(failed("move", path)),
        }
    }
    let message = format!("{}: too many files of this name", quarantine.display());
    Err(Error::new(ErrorKind::LimitExceeded, message))
}
