//! Folders of a user, and the modes of files.

use std::fs;
use std::io;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};

use etcetera::{BaseStrategy, HomeDirError};

/// Returns the folder of a user for the data of programs: `XDG_DATA_HOME` or its default.
pub(crate) fn data_folder() -> Result<PathBuf, HomeDirError> {
    Ok(etcetera::choose_base_strategy()?.data_dir())
}

/// Returns the path in an address `file:///path`.
pub(crate) fn path_of_address(path: &str) -> PathBuf {
    path.into()
}

/// Lets everyone run a file who may read it.
pub(crate) fn make_executable(path: &Path) -> io::Result<()> {
    let mode = fs::metadata(path)?.permissions().mode();
    fs::set_permissions(path, fs::Permissions::from_mode(mode | (mode & 0o444) >> 2))
}
