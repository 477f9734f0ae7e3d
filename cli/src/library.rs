//! Operations of the program on a store that is open, for the packages of other languages.

use std::path::{Path, PathBuf};

use turntree::repo::{Repository, Signature};
use turntree::transfer::remote::Remote;
use turntree::{Error, Result};

use crate::porcelain::read::comparison::{Compared, Line, lines_of};
use crate::porcelain::read::prices::Prices;
use crate::porcelain::transfer::{new_remotes, remotes};
use crate::view::error::Failure;

/// A connection to a remote of any kind, with its keys if it is encrypted.
pub struct RemoteConnection(remotes::Connection);

impl RemoteConnection {
    /// Connects to the remote that a store calls `name`.
    ///
    /// # Errors
    /// `NotFound` if the store has none of this name; `Encrypted` if the user has no member's key;
    /// `Corrupt` if another remote is at its place.
    pub fn to(repo: &Repository, name: &str, stamp: Signature) -> Result<Self> {
        let connection = remotes::Connection::to(repo, Some(name)).map_err(error)?;
        Ok(Self(connection.stamped(stamp)))
    }

    /// Runs `work` with the remote.
    ///
    /// # Errors
    /// The errors of `work`.
    pub fn with<T>(
        &self,
        repo: &Repository,
        work: impl FnOnce(&Remote<'_>) -> Result<T>,
    ) -> Result<T> {
        self.0.with(repo, work)
    }
}

/// Adds the remote at a URL to a store that has none of this name, and creates it if it is missing;
/// with `members`, it is encrypted for these public keys and the user's own. Returns the file with the
/// user's secret key if it was created for this.
///
/// # Errors
/// `InvalidInput` for a key that is none, and for members of a remote that exists without encryption;
/// `Encrypted` if the user has no member's key; `Unsupported` for an unknown kind of remote.
pub fn add_remote(
    repo: &Repository,
    name: &str,
    url: &str,
    members: Option<&[String]>,
    stamp: &Signature,
) -> Result<Option<PathBuf>> {
    let mut made = None;
    let mut keep = |path: &Path| made = Some(path.to_owned());
    let added = new_remotes::add(repo, name, url, members, stamp, &mut keep).map_err(error);
    match (added, made) {
        (Ok(_), made) => Ok(made),
        (Err(error), None) => Err(error),
        (Err(error), Some(path)) => {
            let message = format!("{error}; {}", new_remotes::about_new_key(&path));
            Err(Error::new(error.kind(), message).with_source(error))
        }
    }
}

/// A remote that exists, to create a store from.
pub struct FoundRemote(new_remotes::FoundRemote);

impl FoundRemote {
    /// Finds the remote at a URL, which a store will call `name`. Creates nothing.
    ///
    /// # Errors
    /// `NotFound` if there is none; `Encrypted` if the user has no member's key.
    pub fn at(url: &str, name: &str) -> Result<Self> {
        new_remotes::FoundRemote::at(url, name).map(Self).map_err(error)
    }

    /// Records the remote in a store.
    ///
    /// # Errors
    /// Errors of writing.
    pub fn adopt(self, repo: &Repository, name: &str, stamp: &Signature) -> Result<()> {
        self.0.adopt(repo, name, false, stamp).map(drop).map_err(error)
    }
}

/// Compares revisions since they parted, as `compare --json`; one branch alone with all branches of
/// its session. With `align`, also step by step.
///
/// # Errors
/// `NotFound` for an unknown revision, and errors of reading.
pub fn compare(repo: &Repository, revisions: &[String], align: bool) -> Result<String> {
    let compared = || {
        let named = revisions.iter().map(|name| Line::named(repo, name));
        let mut lines = named.collect::<Result<Vec<_>, _>>()?;
        if let [Line { branch: Some(branch), .. }] = &*lines {
            lines = lines_of(repo, branch.session());
        }
        let prices = Prices::of(None)?.table;
        match align {
            true => Compared::aligned(repo, lines, &prices),
            false => Compared::of(repo, lines, &prices),
        }
    };
    let record = compared().map_err(error)?.record();
    serde_json::to_string(&record)
        .map_err(|found| Error::invalid("the comparison is no JSON").with_source(found))
}

/// The error of a failure. Its advice is about commands.
fn error(failure: Failure) -> Error {
    match failure {
        Failure::Library { error, .. } => error,
        Failure::Output(error) => Error::io("write the result", error),
    }
}
