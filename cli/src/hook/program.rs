//! This program, as the settings of a client can name it.

use std::path::Path;

use turntree::Error;

use crate::view::error::Result;

/// The whole path of this program.
pub(crate) fn program() -> Result<String> {
    let program = std::env::current_exe().map_err(|error| Error::io("find this program", error))?;
    utf8(&program).map(str::to_owned)
}

/// A path as settings can have it.
pub(crate) fn utf8(path: &Path) -> Result<&str> {
    let message = || format!("{} is not UTF-8, and settings hold nothing else", path.display());
    Ok(path.to_str().ok_or_else(|| Error::invalid(message()))?)
}
