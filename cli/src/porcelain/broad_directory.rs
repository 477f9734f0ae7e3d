//! Directories that are more than a workspace, as commands refuse them.

use std::path::Path;

use turntree::ErrorKind;
use turntree::workspace;

use crate::view::advice::Advice;
use crate::view::error::{Hint, Result};

/// Refuses `dir` when it is broad and nobody said that this is meant.
///
/// # Errors
/// `InvalidInput`, saying which directory it is.
pub(crate) fn expect_narrow(dir: &Path, allow_broad: bool) -> Result<()> {
    if allow_broad {
        return Ok(());
    }
    let home = etcetera::home_dir().ok();
    workspace::expect_narrow(dir, home.as_deref()).hint(
        ErrorKind::InvalidInput,
        Advice::new(
            "name the directory of a project, or pass --allow-broad",
            "start the server with the directory of a project",
        ),
    )
}
