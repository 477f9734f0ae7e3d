//! Refuses directories that are too broad for a workspace.

use std::path::Path;

use turntree::ErrorKind;
use turntree::workspace;

use crate::view::advice::Advice;
use crate::view::error::{Hint, Result};

/// Refuses `dir` if it is broad, unless `allow_broad` is set.
///
/// # Errors
/// `InvalidInput`, with the directory.
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
