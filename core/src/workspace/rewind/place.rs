//! The directory that a snapshot names: whether files are written there unless a person names it, too.

use std::path::Path;

use crate::error::{Error, Result};
use crate::store::Store;
use crate::workspace::caches::was_captured_here;

/// Refuses to write to the directory `dir`, which a snapshot names, unless `store` captured it on this machine
/// or the caller stands in it or below it, at `here`. Snapshots come from others, too, and theirs must not
/// choose where files are written.
///
/// # Errors
/// `InvalidInput`, naming the directory.
pub fn expect_own_directory(store: &Store, dir: &Path, here: Option<&Path>) -> Result<()> {
    let whole = dir.canonicalize().unwrap_or_else(|_| dir.to_owned());
    let stands_in = |here: &Path| here.canonicalize().is_ok_and(|here| here.starts_with(&whole));
    if here.is_some_and(stands_in) || was_captured_here(store, &whole) {
        return Ok(());
    }
    let dir = whole.display();
    Err(Error::invalid(format!(
        "a snapshot names the directory {dir}, and this store never captured it on this machine"
    )))
}
