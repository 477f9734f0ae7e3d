//! This program, as it is run again: its own file, or the script that runs it inside of an interpreter.

use std::env;
use std::path::{Path, PathBuf};
use std::sync::OnceLock;

use turntree::{Error, Result};

/// The script, where the file of this process is an interpreter.
static SCRIPT: OnceLock<PathBuf> = OnceLock::new();

/// Makes `script` what runs this program again. The directory may change afterwards.
pub(crate) fn is_run_by(script: &Path) {
    // Only the first one counts: a process is one run of the program.
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
