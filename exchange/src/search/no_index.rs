//! Replaces search in builds without SQLite. Every search fails.

use turntree::error::{Error, ErrorKind, Result};
use turntree::repo::Repository;

use super::answer::{SearchAnswer, SearchQuery};

/// An index in memory. This build has none.
#[derive(Debug, Default)]
pub struct KeptIndex;

impl KeptIndex {
    /// Does nothing: there is no index to drop.
    pub const fn let_go(&self) {}

    /// Does nothing and returns true.
    #[must_use]
    pub const fn try_let_go(&self) -> bool {
        true
    }
}

/// Fails, because this build has no index.
///
/// # Errors
/// `Unsupported`.
pub fn search(
    repo: &Repository,
    query: &SearchQuery<'_>,
    progress: &(dyn Fn(u64, u64) + Sync),
) -> Result<SearchAnswer> {
    search_keeping(repo, query, progress, &KeptIndex)
}

/// Fails, because this build has no index.
///
/// # Errors
/// `Unsupported`.
pub fn search_keeping(
    _: &Repository,
    _: &SearchQuery<'_>,
    _: &(dyn Fn(u64, u64) + Sync),
    _: &KeptIndex,
) -> Result<SearchAnswer> {
    let message = "this build has no index of words: use grep, or a build with the feature sqlite";
    Err(Error::new(ErrorKind::Unsupported, message))
}
