//! The claim to fill an index. One search holds it at a time, and other searches wait for it.
//!
//! SQLite serializes writers too, but then each waiting search would first read all new content
//! itself, and one that times out would build an index in memory. A search therefore takes the
//! claim first. The kernel releases the claim when its process dies. A background process may hold
//! it for minutes, so a search that has part of an index does not wait to the end.

use std::fs;
use std::path::Path;
use std::thread::sleep;
use std::time::{Duration, SystemTime};

use turntree::repo::Repository;
use turntree::workspace::{Claim, database_path};

use super::fill::FillProgress;
use super::{CLAIM_TIMEOUT, IndexError, IndexResult, NAME};

/// The name of the claim.
const CLAIM: &str = "search index";

/// The polling interval.
const POLL_INTERVAL: Duration = Duration::from_millis(20);

/// Waits for the claim to fill the index of a store. `progress` receives 0 and 0 if another process
/// holds it. Returns `None` when it is held for longer than `patience`. Without a limit, waits while
/// the other process makes progress, and fails after 60 seconds without progress.
pub(in crate::search) fn claim(
    repo: &Repository,
    patience: Option<Duration>,
    progress: FillProgress<'_>,
) -> IndexResult<Option<Claim>> {
    if repo.store().keeps_no_caches() {
        return Err(IndexError::refused("this store has no caches next to it"));
    }
    let path = database_path(repo, NAME);
    let (mut seen, mut idle, mut waited) = (None, Duration::ZERO, Duration::ZERO);
    loop {
        let claim = Claim::ask(repo.dir(), CLAIM);
        if let Some(claim) = claim.map_err(|error| IndexError::refused(error.message()))? {
            return Ok(Some(claim));
        }
        if patience.is_some_and(|patience| waited >= patience) {
            return Ok(None);
        }
        let now = [mark(&path), mark(&super::journal_of(&path))];
        if seen.as_ref() != Some(&now) {
            if seen.is_none() {
                progress(0, 0);
            }
            (seen, idle) = (Some(now), Duration::ZERO);
        }
        if idle >= CLAIM_TIMEOUT {
            return Err(IndexError::refused("another search stopped while it filled the index"));
        }
        sleep(POLL_INTERVAL);
        idle += POLL_INTERVAL;
        waited += POLL_INTERVAL;
    }
}

/// Returns the size and modification time of a file, which change with every write.
fn mark(path: &Path) -> Option<(u64, SystemTime)> {
    let found = fs::metadata(path).ok()?;
    Some((found.len(), found.modified().ok()?))
}
