//! Data of git about a directory: external rule files, settings and the index.
//!
//! Git ignores paths that match `.gitignore`, the repository's `info/exclude`, or the file named by
//! `core.excludesFile`, but never a path in its index. This module reads all of these and trusts
//! none of them: it skips a broken, too large or non-regular file with a warning, and the capture
//! continues.

mod config;
mod index;
mod patterns;
mod read;
mod repository;
mod tracked;

use std::path::PathBuf;

pub(in crate::workspace) use self::patterns::Patterns;
pub(in crate::workspace) use self::repository::{GitRules, Repositories};
pub use self::tracked::tracking_repository;

/// The name of the directory or file that marks a working tree.
pub(in crate::workspace) const DOT_GIT: &str = ".git";

/// The locations of the git settings of a user and a machine. Empty by default: then only a
/// repository's own settings apply. `local::git_places` finds them from the environment.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct GitPlaces {
    /// Settings files in the order in which git reads them: a later one wins.
    pub config: Vec<PathBuf>,
    /// The home directory, for `~/` in settings.
    pub home: Option<PathBuf>,
    /// The default excludes file, if no setting names one.
    pub excludes: Option<PathBuf>,
}

/// No locations.
pub(in crate::workspace) static NO_PLACES: GitPlaces =
    GitPlaces { config: Vec::new(), home: None, excludes: None };
