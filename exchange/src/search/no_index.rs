//! Replaces search in builds without SQLite. Every search fails.

use turntree::error::{Error, ErrorKind, Result};
use turntree::repo::Repository;

use super::answer::{SearchAnswer, SearchQuery};

/// An index in memory. This build has none.
#[derive(Debug, Default)]
pub struct MemoryIndex;

impl MemoryIndex {
    /// Does nothing: there is no index to drop.
    pub const fn clear(&self) {}

    /// Does nothing and returns true.
    #[must_use]
    pub const fn try_clear(&self) -> bool {
        true
    }
}

/// Does nothing: this build has no index.
///
/// # Errors
/// None.
pub fn fill_search_index(_: &Repository, _: &(dyn Fn(u64, u64) + Sync)) -> Result<()> {
    Ok(())
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
    search_with_index(repo, query, progress, &MemoryIndex)
}

/// Fails, because this build has no index.
///
/// # Errors
/// `Unsupported`.
pub fn search_with_index(
    _: &Repository,
    _: &SearchQuery<'_>,
    _: &(dyn Fn(u64, u64) + Sync),
    _: &MemoryIndex,
) -> Result<SearchAnswer> {
    let message = "this build has no index of words: use grep, or a build with the feature sqlite";
    Err(Error::new(ErrorKind::Unsupported, message))
}
