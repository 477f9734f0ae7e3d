//! What git itself says of a directory: its files of rules outside of it, its settings, its index.
//!
//! Git ignores what `.gitignore` names, what `info/exclude` of the repository names, and what the file
//! named by `core.excludesFile` names; but never a path that its index has. All of these are read here,
//! and none of them is trusted: a file that is broken, too large or no file is passed over with a
//! warning, and a capture goes on without it.

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

/// The name of the directory or file that makes a directory a working tree.
pub(in crate::workspace) const DOT_GIT: &str = ".git";

/// Where git keeps the settings of a user and of a machine. Empty by default: then a repository's own
/// settings count alone. `local::git_places` finds them in the environment.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct GitPlaces {
    /// Files of settings in the order in which git reads them: a later one wins.
    pub config: Vec<PathBuf>,
    /// The home directory, which `~/` in settings means.
    pub home: Option<PathBuf>,
    /// The file of rules where no setting names one.
    pub excludes: Option<PathBuf>,
}

/// No places at all.
pub(in crate::workspace) static NO_PLACES: GitPlaces =
    GitPlaces { config: Vec::new(), home: None, excludes: None };
