//! The environment variables that place the files of agents.

use std::ffi::OsString;
use std::path::PathBuf;

use turntree::platform::HOME_VARIABLE;

/// Reads an environment variable.
pub(super) type ReadVariable<'a> = &'a dyn Fn(&str) -> Option<OsString>;

/// The home directory, and the variables that name other directories.
pub(super) struct Environment<'a> {
    variable: ReadVariable<'a>,
    home: PathBuf,
}

impl<'a> Environment<'a> {
    /// Returns the environment that `variable` reads; `None` without a home directory.
    pub(super) fn new(variable: ReadVariable<'a>) -> Option<Self> {
        Some(Self { variable, home: directory(variable, HOME_VARIABLE)? })
    }

    /// Returns the directory that a variable names.
    pub(super) fn directory(&self, name: &str) -> Option<PathBuf> {
        directory(self.variable, name)
    }

    /// Returns a path in the home directory.
    pub(super) fn home(&self, path: &str) -> PathBuf {
        self.home.join(path)
    }

    /// Returns the directory that a variable names, otherwise one in the home directory.
    pub(super) fn directory_or(&self, name: &str, default: &str) -> PathBuf {
        self.directory(name).unwrap_or_else(|| self.home(default))
    }
}

/// An empty variable counts as missing.
fn directory(variable: ReadVariable<'_>, name: &str) -> Option<PathBuf> {
    variable(name).filter(|value| !value.is_empty()).map(PathBuf::from)
}
