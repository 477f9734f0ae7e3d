//! Folders of a user, and the modes of files.

use std::io;
use std::path::{Path, PathBuf};

use etcetera::{BaseStrategy, HomeDirError};

/// Returns the folder of a user for the data of programs, `%LOCALAPPDATA%`: a store is too large for
/// the folder that is copied to other machines.
pub(crate) fn data_folder() -> Result<PathBuf, HomeDirError> {
    Ok(etcetera::choose_base_strategy()?.cache_dir())
}

/// Returns the path in an address `file:///C:/path`.
pub(crate) fn path_of_address(path: &str) -> PathBuf {
    let has_drive = |path: &&str| path.get(1..2) == Some(":");
    path.strip_prefix('/').filter(has_drive).unwrap_or(path).into()
}

/// Files of this system have no such mode.
#[expect(clippy::unnecessary_wraps, reason = "other systems have modes that may not be set")]
pub(crate) fn make_executable(_: &Path) -> io::Result<()> {
    Ok(())
}
