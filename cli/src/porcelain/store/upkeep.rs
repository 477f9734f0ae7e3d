//! The work of the maintenance process: maintenance steps while they are due, pushes, and exact
//! budgets once the store is idle.

use std::path::Path;
use std::sync::{Mutex, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

use turntree::Error;
use turntree::maintenance::Fullness;
use turntree::maintenance::auto::{self, Upkeep};
use turntree::repo::{Repository, Signature};
use turntree_exchange::fill_search_index;

use crate::platform::busy_time;
use crate::porcelain::transfer::push::{fold_by_itself, is_push_due, push_by_itself};
use crate::program::invocation::stamp;
use crate::program::maintenance::MaintenanceLock;
use crate::view::error::Result;

/// The actor of automatic operations.
const MAINTENANCE: &str = "maintenance";

/// The idle time after which budgets are enforced to the byte. With a shorter time, each turn of a
/// slow agent would cost that again.
const QUIET: Duration = Duration::from_secs(30);

/// The ratio of rest to work, so that the process uses a tenth of a processor.
const REST_PARTS: u32 = 9;

/// The longest rest.
const MOST_REST: Duration = Duration::from_secs(60);

/// Attempts in a row without effect after which the process leaves the rest to the next commit.
const MOST_IN_VAIN: u32 = 30;

/// The interval between two checks of the store: at first, and while it is idle.
const FIRST_PAUSE: Duration = Duration::from_millis(50);
const LAST_PAUSE: Duration = Duration::from_secs(1);

/// The next action.
enum Next {
    Step,
    Settle,
    Nothing,
}

/// Runs a step if one is due, and pushes. Returns the errors, one per line.
pub(crate) fn once(repo: &Repository, dir: &Path, fold: Option<&str>) -> Result<Vec<String>> {
    let step = auto::step(repo, &own_stamp()?);
    let mut told = push_by_itself(repo, dir)?;
    if let Some(remote) = fold {
        told.extend(fold_by_itself(repo, dir, remote)?);
    }
    told.extend(step.err().map(|error| error.to_string()));
    // A store that was created on a full disk has no reserve.
    let bound = Fullness::of(repo)?.bound_bytes;
    let _ = repo.store().keep_reserve(bound);
    Ok(told)
}

/// Runs [`once`] under the lock, and continues while steps are due or the store is over its
/// budgets. An error ends it: a later commit tries again, after more new data each time.
pub(crate) fn while_due(
    repo: &Repository,
    dir: &Path,
    (fold, indexes): (Option<&str>, bool),
    lock: &MaintenanceLock,
) -> Result<Vec<String>> {
    let began = busy_time();
    let mut told = once(repo, dir, fold)?;
    if indexes && told.is_empty() {
        fill_slowly(repo)?;
    }
    let mut busy = busy_time().saturating_sub(began);
    let (mut settled, mut in_vain) = (None, 0);
    while told.is_empty() && in_vain < MOST_IN_VAIN {
        let pushed = repo.refs().sequence;
        let next = match wait(repo, busy, settled)? {
            Next::Nothing if has_more(repo, lock, pushed)? => Next::Step,
            next => next,
        };
        let began = busy_time();
        let done = match next {
            Next::Step => auto::step(repo, &own_stamp()?),
            Next::Settle => {
                let done = auto::settle(repo, &own_stamp()?);
                settled = Some(repo.refs().sequence);
                done
            }
            Next::Nothing => return Ok(told),
        };
        busy = busy_time().saturating_sub(began);
        told.extend(push_by_itself(repo, dir)?);
        match done {
            Ok(Some(_)) => in_vain = 0,
            // Another process is collecting, or holds the files that are due.
            Ok(None) => {
                in_vain += 1;
                thread::sleep(LAST_PAUSE);
            }
            Err(error) => told.push(error.to_string()),
        }
    }
    Ok(told)
}

/// Fills the search index, and rests as long as it works.
fn fill_slowly(repo: &Repository) -> Result<()> {
    let worked = Mutex::new(Instant::now());
    let rest = |_, _| {
        let mut since = worked.lock().unwrap_or_else(PoisonError::into_inner);
        thread::sleep(since.elapsed().min(MOST_REST));
        *since = Instant::now();
    };
    Ok(fill_search_index(repo, &rest)?)
}

/// Releases the lock, and then checks again, because a process that committed just before found it
/// locked. Returns true if there is work, and this process has the lock again.
fn has_more(repo: &Repository, lock: &MaintenanceLock, pushed: u64) -> Result<bool> {
    let failed = |error| Error::io("unlock the maintenance of the store", error);
    lock.unlock().map_err(failed)?;
    repo.refresh()?;
    let Upkeep { is_due, is_over, .. } = auto::upkeep(repo)?;
    let is_new = repo.refs().sequence > pushed;
    let has_more = is_new && (is_due || is_over || is_push_due(repo)?);
    Ok(has_more && lock.try_again().map_err(failed)?)
}

/// Rests, and waits for the next action.
fn wait(repo: &Repository, busy: Duration, settled: Option<u64>) -> turntree::Result<Next> {
    let (began, rest) = (Instant::now(), (busy * REST_PARTS).min(MOST_REST));
    let (mut changed, mut sequence) = (began, repo.refs().sequence);
    let mut pause = FIRST_PAUSE;
    loop {
        if !repo.dir().exists() {
            return Ok(Next::Nothing);
        }
        repo.refresh()?;
        let Upkeep { is_due, is_over, fullness, .. } = auto::upkeep(repo)?;
        let is_over = is_over && settled != Some(repo.refs().sequence);
        let is_rested = began.elapsed() >= rest;
        if is_due && (is_rested || fullness.is_crowded()) {
            return Ok(Next::Step);
        }
        if is_over && changed.elapsed() >= QUIET {
            return Ok(Next::Settle);
        }
        if is_rested && !is_over && !is_due {
            return Ok(Next::Nothing);
        }
        thread::sleep(pause);
        pause = (pause * 2).min(LAST_PAUSE);
        let now = repo.refs().sequence;
        if now != sequence {
            (changed, sequence, pause) = (Instant::now(), now, FIRST_PAUSE);
        }
    }
}

/// The stamp of an actor of its own, so that a user's undo does not revert automatic operations.
fn own_stamp() -> Result<Signature> {
    Ok(Signature { actor: MAINTENANCE.to_owned(), ..stamp()? })
}
