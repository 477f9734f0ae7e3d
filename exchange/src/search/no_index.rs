//! Search in a build without SQLite: there is none.

use turntree::error::{Error, ErrorKind, Result};
use turntree::repo::Repository;

use super::answer::{SearchAnswer, SearchQuery};

/// Says that this build keeps no index.
///
/// # Errors
/// `Unsupported`.
pub fn search(
    _: &Repository,
    _: &SearchQuery<'_>,
    _: &(dyn Fn(u64, u64) + Sync),
) -> Result<SearchAnswer> {
    let message =
        "this build keeps no index of words: expected the feature sqlite; grep needs none";
    Err(Error::new(ErrorKind::Unsupported, message))
}
