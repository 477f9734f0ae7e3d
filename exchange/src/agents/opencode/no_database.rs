//! Databases of opencode, in a build that reads none: they are named, and not read.

use std::path::Path;

use turntree::error::{Error, ErrorKind, Result};

use super::document::Parts;
use crate::agents::found::HeldSessions;

/// The databases that are open.
#[derive(Debug, Default)]
pub(super) struct OpenDatabases {}

/// Says that it is not read.
pub(super) fn sessions(_: &Path) -> Result<Option<HeldSessions>> {
    Err(unsupported())
}

impl OpenDatabases {
    #[expect(clippy::unused_self, reason = "what reads databases has them open")]
    pub(super) fn session(&self, _: &Path, _: &str) -> Result<Box<dyn Parts>> {
        Err(unsupported())
    }
}

fn unsupported() -> Error {
    let message =
        "this is an SQLite database, and this build cannot read it: expected the feature sqlite";
    Error::new(ErrorKind::Unsupported, message)
}
