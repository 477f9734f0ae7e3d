//! The claim to fill an index: one search has it at a time, and others wait for it.
//!
//! SQLite makes changes wait for each other too. But each search would read all that is new meanwhile, and
//! one that waits too long would make an index in memory. So a search has the claim first, which the kernel
//! takes back when its process dies.

use std::fs;
use std::path::Path;
use std::thread::sleep;
use std::time::{Duration, SystemTime};

use turntree::store::Store;
use turntree::workspace::{Claim, database_path};

use super::fill::FillProgress;
use super::{Attempt, NAME, PATIENCE, Trouble};

/// The name of the claim.
const CLAIM: &str = "search index";

/// The time between two looks.
const LOOK: Duration = Duration::from_millis(20);

/// Returns the claim to fill the index of a store, once no other search has it. `progress` is told 0 of 0
/// turns when one has. That one may take any time, as long as it goes on.
pub(in crate::search) fn claim(store: &Store, progress: FillProgress<'_>) -> Attempt<Claim> {
    if store.keeps_no_caches() {
        return Err(Trouble::refused("nothing is kept beside this store"));
    }
    let path = database_path(store, NAME);
    let (mut seen, mut idle) = (None, Duration::ZERO);
    loop {
        let claim = Claim::ask(store.dir(), CLAIM);
        if let Some(claim) = claim.map_err(|error| Trouble::refused(error.message()))? {
            return Ok(claim);
        }
        let now = [mark(&path), mark(&super::journal_of(&path))];
        if seen.as_ref() != Some(&now) {
            if seen.is_none() {
                progress(0, 0);
            }
            (seen, idle) = (Some(now), Duration::ZERO);
        }
        if idle >= PATIENCE {
            return Err(Trouble::refused("another search stands still while it fills it"));
        }
        sleep(LOOK);
        idle += LOOK;
    }
}

/// What changes when somebody writes to a file.
fn mark(path: &Path) -> Option<(u64, SystemTime)> {
    let found = fs::metadata(path).ok()?;
    Some((found.len(), found.modified().ok()?))
}
