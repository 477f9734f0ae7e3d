//! Automatic maintenance: whether a small collection is worth it now, and doing one.
//!
//! Nothing here runs by itself, and nothing here is on the way of a snapshot. The command line starts
//! it in a process of its own after a command that committed; a host that keeps a store open for
//! days calls [`step`] between turns, on a thread of its own.
//!
//! One process of a store is at work at a time: the lock of the collector is taken before anything is
//! planned, and held until the end. A try leaves its outcome beside the store ([`LastStep`]), and the
//! next one is due when as much is new again, or twice as much after a failure.
//!
//! ```
//! # use std::sync::Arc;
//! use std::thread;
//!
//! use turntree::maintenance::auto;
//! # use turntree::repo::{Repository, Signature};
//! # use turntree::store::{NewStore, OpenOptions, RealIo};
//!
//! # let folder = tempfile::tempdir().map_err(|error| turntree::Error::io("make a folder", error))?;
//! # let (io, new) = (Arc::new(RealIo), NewStore { id: [1; 16] });
//! # let repo = Repository::init(io, &folder.path().join("s"), &new, OpenOptions::new([2; 16]))?;
//! # let stamp = Signature { time: Default::default(), actor: "host".into() };
//! thread::scope(|threads| {
//!     let maintenance = threads.spawn(|| auto::step(&repo, &stamp));
//!     // The agent takes its next turn.
//!     assert!(matches!(maintenance.join(), Ok(Ok(None))), "a new store needs nothing");
//! });
//! # Ok::<(), turntree::Error>(())
//! ```

use super::bound::Fullness;
use super::collect::{Collected, run};
use super::collection_plan::Purpose;
use super::expire_sessions::GRACE_MICROS;
use super::last_step::LastStep;
use super::store_budget::enforce_under;
use crate::error::{ErrorKind, Result};
use crate::repo::{Repository, Signature};
use crate::store::{CollectorLock, JournalSize, quietly};

/// Bytes of the journal from which a step is worth it. A segment is sealed at this size, and opening
/// a store reads the directories of what is not; packed, the same takes a tenth to a third.
pub const DUE_BYTES: u64 = 8 << 20;

/// Objects in the journal from which a step is worth it. Each costs some 100 bytes of memory and a
/// microsecond in every process that opens the store.
pub const DUE_OBJECTS: usize = 8192;

/// A store that is over its budgets is worth a step for each part in so many of these: each step marks all
/// that stays, so fewer take less of the processor and more leave less lying about.
const BUDGET_PARTS: u64 = 6;

/// The least that this is, in bytes.
const MIN_DUE_BYTES: u64 = 128 << 10;

/// Times that maintenance tries to get a store within its budgets, each by what the packs take then.
const MAX_ROUNDS: usize = 3;

/// Returns true if a step is worth it now, as far as this handle has seen the store: since the last try
/// enough was written that no process still writes behind.
///
/// Costs some microseconds while the journal is small; then a lock that is tried for each segment.
///
/// # Errors
/// `Io` when the sizes of the segments cannot be read, and those of reading the budgets.
pub fn is_due(repo: &Repository) -> Result<bool> {
    is_due_in(repo, Fullness::of(repo)?)
}

fn is_due_in(repo: &Repository, fullness: Fullness) -> Result<bool> {
    let bytes = match fullness.bound_bytes.filter(|_| fullness.is_over()) {
        Some(bound) => (bound / BUDGET_PARTS).clamp(MIN_DUE_BYTES, DUE_BYTES),
        None => DUE_BYTES,
    };
    if fullness.journal_bytes < bytes && fullness.journal_objects < DUE_OBJECTS {
        return Ok(false);
    }
    Ok(is_enough(repo.store().idle_journal()?, bytes, LastStep::of(repo.store()).as_ref()))
}

/// What a store is worth after a commit.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub struct Upkeep {
    /// A [`step`] is due.
    pub is_due: bool,
    /// It is over its budgets, and a [`settle`] could change that.
    pub is_over: bool,
    /// How full it is.
    pub fullness: Fullness,
}

/// Looks at what a store is worth now, as far as this handle has seen it.
///
/// # Errors
/// Those of [`is_due`] and of [`is_over`].
pub fn upkeep(repo: &Repository) -> Result<Upkeep> {
    let fullness = Fullness::of(repo)?;
    let is_over = fullness.is_over() && can_shrink(fullness, LastStep::of(repo.store()).as_ref());
    Ok(Upkeep { is_due: is_due_in(repo, fullness)?, is_over, fullness })
}

/// Returns true if the files of the store take more than its budgets say, and a [settling](settle) could
/// change that: the last one did not end so, or a good part is new since.
///
/// # Errors
/// Those of [`Fullness::of`].
pub fn is_over(repo: &Repository) -> Result<bool> {
    Ok(can_shrink(Fullness::of(repo)?, LastStep::of(repo.store()).as_ref()))
}

fn can_shrink(fullness: Fullness, last: Option<&LastStep>) -> bool {
    let is_new = |over: u64| fullness.file_bytes > over.saturating_add(over / BUDGET_PARTS);
    fullness.is_over() && last.and_then(|last| last.over_bytes).is_none_or(is_new)
}

fn is_enough(idle: JournalSize, bytes: u64, last: Option<&LastStep>) -> bool {
    let (new, times) = last.map_or((idle, 1), |last| last.is_behind(idle));
    new.bytes >= bytes.saturating_mul(times) || new.objects >= times * DUE_OBJECTS as u64
}

/// Does what [`pack`] does, if that is due, and keeps the budget of the store. What goes for the budget is
/// an operation of its own, which an undo takes back for a day. `None` when nothing is due, or while
/// another process collects: then it costs a look at a lock.
///
/// # Errors
/// Those of [`collect`](super::collect); then the store is as it was, and the next try is further away.
pub fn step(repo: &Repository, stamp: &Signature) -> Result<Option<Collected>> {
    if repo.store().is_collected()? {
        return Ok(None);
    }
    repo.store().refresh()?;
    if !is_due(repo)? {
        return Ok(None);
    }
    let Some(lock) = repo.store().try_lock_collector()? else { return Ok(None) };
    repo.store().refresh()?;
    match is_due(repo)? {
        true => attempt(repo, &lock, stamp, Purpose::Step),
        // Another process was faster.
        false => Ok(None),
    }
}

/// Packs what is idle and lets go what is over the budgets: for a store that [is over](is_over) them and
/// that nothing was written to for a while. `None` while another process collects.
///
/// # Errors
/// Those of [`step`].
pub fn settle(repo: &Repository, stamp: &Signature) -> Result<Option<Collected>> {
    let Some(lock) = repo.store().try_lock_collector()? else { return Ok(None) };
    repo.store().refresh()?;
    match is_over(repo)? {
        true => attempt(repo, &lock, stamp, Purpose::Settle),
        false => Ok(None),
    }
}

/// Tries it, and leaves what became of that beside the store.
fn attempt(
    repo: &Repository,
    lock: &CollectorLock,
    stamp: &Signature,
    purpose: Purpose,
) -> Result<Option<Collected>> {
    let store = repo.store();
    let before = LastStep::of(store);
    let mut last = LastStep::begun(stamp.time.micros, before.as_ref());
    // It saves work, and a full disk may refuse it.
    let _ = last.keep(store, lock);
    let work = || work(repo, lock, stamp, purpose, before.as_ref());
    // Writers wait for it in a store that is crowded: they are held back.
    let is_crowded = Fullness::of(repo).is_ok_and(|fullness| fullness.is_crowded());
    let done = match if is_crowded { work() } else { quietly(work) } {
        Ok(collected) => Ok(Some(collected).filter(Collected::is_something)),
        // Another process did what this was about.
        Err(error) if matches!(error.kind(), ErrorKind::Conflict | ErrorKind::Locked) => Ok(None),
        Err(error) => Err(error),
    };
    last.end(&done, store.keys().is_some());
    if let Ok(left) = store.refresh().and_then(|_| store.idle_journal()) {
        last.leave(left);
    }
    let looked = matches!(&done, Ok(Some(collected)) if collected.budget.is_some());
    if (purpose == Purpose::Settle || looked)
        && let Ok(fullness) = Fullness::of(repo)
    {
        last.over_bytes = fullness.is_over().then_some(fullness.file_bytes);
    }
    let _ = last.keep(store, lock);
    done
}

fn work(
    repo: &Repository,
    lock: &CollectorLock,
    stamp: &Signature,
    purpose: Purpose,
    before: Option<&LastStep>,
) -> Result<Collected> {
    let mut collected = run(repo, lock, purpose, stamp, &mut |_| ())?;
    if purpose == Purpose::Settle {
        for _ in 1..MAX_ROUNDS {
            if !Fullness::of(repo)?.is_over() {
                break;
            }
            let more = run(repo, lock, purpose, stamp, &mut |_| ())?;
            if !more.is_something() {
                break;
            }
            collected.add(more);
        }
    }
    // What a budget lets go comes free a day later, and what is newer than a day stays: so it changes
    // little in between.
    let is_old = before.is_some_and(|last| last.is_older(stamp.time.micros, GRACE_MICROS));
    let fullness = Fullness::of(repo)?;
    if can_shrink(fullness, before) || (is_old && fullness.is_over()) {
        collected.budget = enforce_under(repo, lock, stamp)?;
    }
    Ok(collected)
}

/// Does one step of a collection if at least `bytes` of the journal, or 8192 objects in it, are idle, and
/// says what it did; `None` when there is less, when there is nothing to do, or while another collection goes
/// on. The budget of the store is not looked at: this is for the middle of work that belongs together, such
/// as an adoption.
///
/// Segments that others write to are left for later. Takes the time of writing one pack, and holds
/// no lock that a commit waits for while it does.
///
/// # Errors
/// Those of [`collect`](super::collect); then the store is as it was.
pub fn pack(repo: &Repository, stamp: &Signature, bytes: u64) -> Result<Option<Collected>> {
    let Some(lock) = repo.store().try_lock_collector()? else { return Ok(None) };
    repo.store().refresh()?;
    if !is_enough(repo.store().idle_journal()?, bytes, None) {
        return Ok(None);
    }
    let collected = run(repo, &lock, Purpose::Step, stamp, &mut |_| ())?;
    Ok(Some(collected).filter(|collected| collected.steps > 0))
}
