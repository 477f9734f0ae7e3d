//! Finds this program to run it again: its executable, or the script that an interpreter runs.

use std::env;
use std::path::{Path, PathBuf};
use std::sync::OnceLock;

use turntree::{Error, Result};

/// The script, if the executable of this process is an interpreter.
static SCRIPT: OnceLock<PathBuf> = OnceLock::new();

/// Sets `script` as the program to run again. The working directory may change afterwards.
pub(crate) fn is_run_by(script: &Path) {
    // Only the first call counts: a process is one run of the program.
    let _ = SCRIPT.set(std::path::absolute(script).unwrap_or_else(|_| script.to_owned()));
}

/// The file that runs this program.
pub(crate) fn file() -> Result<PathBuf> {
    let found = SCRIPT.get().cloned().map_or_else(env::current_exe, Ok);
    found.map_err(|error| Error::io("find this program", error))
}

/// The name by which this program was run.
pub(crate) fn name() -> Option<PathBuf> {
    SCRIPT.get().cloned().or_else(|| env::args_os().next().map(PathBuf::from))
}
