//! Folders of a user.

use std::path::PathBuf;

use etcetera::{BaseStrategy, HomeDirError};

/// Returns the folder of a user for the data of programs: `XDG_DATA_HOME` or its default.
pub(crate) fn data_folder() -> Result<PathBuf, HomeDirError> {
    Ok(etcetera::choose_base_strategy()?.data_dir())
}

/// Returns the path in an address `file:///path`.
pub(crate) fn path_of_address(path: &str) -> PathBuf {
    path.into()
}
