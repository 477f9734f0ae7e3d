//! Automatic maintenance: decides whether a small collection is worthwhile now, and runs it.
//!
//! Nothing here runs on its own, and nothing here delays a snapshot. The command line starts it in
//! a background process after a command that committed. A host that keeps a store open for days
//! calls [`step`] between turns, on a thread of its own.
//!
//! Only one process of a store works at a time: it takes the lock of the collector before planning,
//! and holds it to the end. A try records its outcome next to the store ([`LastStep`]). The next
//! try is due when the same amount is new again, or twice the amount after a failure.
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

use super::collection::{Collected, run};
use super::last_step::LastStep;
use super::pack_journal::{Packed, pack_journal};
use super::store_budget::enforce_locked;
use crate::error::{ErrorKind, Result};
use crate::maintenance::collection_plan::Purpose;
use crate::maintenance::expire::expire_sessions::GRACE_MICROS;
use crate::maintenance::keep::store_bound::Fullness;
use crate::repo::{Repository, Signature};
use crate::store::{CollectorLock, JournalSize, with_low_priority};

/// The bytes of the journal that make a step worthwhile. A segment is sealed at this size, and
/// opening a store reads the directories of unsealed segments. Packed, the same content takes a
/// tenth to a third.
pub const DUE_BYTES: u64 = 8 << 20;

/// The objects in the journal that make a step worthwhile. Each costs some 100 bytes of memory and
/// a microsecond in every process that opens the store.
pub(crate) const DUE_OBJECTS: usize = 8192;

/// A store over its budgets gets a step whenever this fraction of them (1/6) is new. Each step
/// marks everything that stays, so rarer steps take less processor time and leave more unpacked.
const BUDGET_PARTS: u64 = 6;

/// The minimum of that fraction, in bytes.
const MIN_DUE_BYTES: u64 = 128 << 10;

/// The maximum number of runs that try to get a store within its budgets. Each run measures the
/// packs of the run before.
const MAX_ROUNDS: usize = 3;

/// Returns true if a step is worthwhile now, as far as this handle has seen the store: enough was
/// written since the last try, in segments that no process still writes to.
///
/// Costs some microseconds while the journal is small; beyond that, a try of a lock for each
/// segment.
///
/// # Errors
/// `Io` when the sizes of the segments cannot be read, and errors of reading the budgets.
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
    Ok(is_enough(repo.store().idle_journal()?, bytes, LastStep::of(repo).as_ref()))
}

/// The maintenance that a store needs after a commit.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub struct Upkeep {
    /// True if a [`step`] is due.
    pub is_due: bool,
    /// True if the store is over its budgets, and a [`settle`] could change that.
    pub is_over: bool,
    /// The fullness of the store.
    pub fullness: Fullness,
}

/// Determines the maintenance that a store needs now, as far as this handle has seen it.
///
/// # Errors
/// Errors of [`is_due`] and of [`is_over`].
pub fn upkeep(repo: &Repository) -> Result<Upkeep> {
    let fullness = Fullness::of(repo)?;
    let is_over = fullness.is_over() && can_shrink(fullness, LastStep::of(repo).as_ref());
    Ok(Upkeep { is_due: is_due_in(repo, fullness)?, is_over, fullness })
}

/// Returns true if the files of the store exceed its budgets, and a [settling](settle) could change
/// that: the last one did not end over budget, or a good part is new since.
///
/// # Errors
/// Errors of [`Fullness::of`].
pub fn is_over(repo: &Repository) -> Result<bool> {
    Ok(can_shrink(Fullness::of(repo)?, LastStep::of(repo).as_ref()))
}

fn can_shrink(fullness: Fullness, last: Option<&LastStep>) -> bool {
    let is_new = |over: u64| fullness.file_bytes > over.saturating_add(over / BUDGET_PARTS);
    fullness.is_over() && last.and_then(|last| last.over_bytes).is_none_or(is_new)
}

fn is_enough(idle: JournalSize, bytes: u64, last: Option<&LastStep>) -> bool {
    let (new, times) = last.map_or((idle, 1), |last| last.new_since(idle));
    new.bytes >= bytes.saturating_mul(times) || new.objects >= times * DUE_OBJECTS as u64
}

/// Runs [`pack`] if it is due, and enforces the budget of the store. Sessions over the budget are
/// forgotten in an operation of its own, which undo can revert for a day. Returns `None` if nothing
/// is due, or while another process collects, which only costs a look at a lock.
///
/// # Errors
/// Errors of [`collect`](crate::maintenance::collect). After an error the store is unchanged, and the next try
/// is further away.
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

/// Packs the idle journal and expires turns and sessions over the budgets: for a store that
/// [exceeds](is_over) them and was not written to for a while. Returns `None` while another process
/// collects.
///
/// # Errors
/// Errors of [`step`].
pub fn settle(repo: &Repository, stamp: &Signature) -> Result<Option<Collected>> {
    let Some(lock) = repo.store().try_lock_collector()? else { return Ok(None) };
    repo.store().refresh()?;
    match is_over(repo)? {
        true => attempt(repo, &lock, stamp, Purpose::Settle),
        false => Ok(None),
    }
}

/// Runs a try, and records its outcome next to the store.
fn attempt(
    repo: &Repository,
    lock: &CollectorLock,
    stamp: &Signature,
    purpose: Purpose,
) -> Result<Option<Collected>> {
    let store = repo.store();
    let before = LastStep::of(repo);
    let mut last = LastStep::begin(stamp.time.micros, before.as_ref());
    // The record only saves work, so a failure to write it, as on a full disk, is ignored.
    let _ = last.keep(store, lock);
    let mut work = || run_step(repo, lock, stamp, purpose, before.as_ref(), &mut last);
    // In a crowded store writers are slowed down until it ends, so it runs at full priority.
    let is_crowded = Fullness::of(repo).is_ok_and(|fullness| fullness.is_crowded());
    let done = match if is_crowded { work() } else { with_low_priority(&mut work) } {
        Ok(collected) => Ok(Some(collected).filter(Collected::is_something)),
        // Another process changed or collected the same content.
        Err(error) if matches!(error.kind(), ErrorKind::Conflict | ErrorKind::Locked) => Ok(None),
        Err(error) => Err(error),
    };
    last.end(&done, store.keys().is_some());
    if let Ok(left) = store.refresh().and_then(|_| store.idle_journal()) {
        last.record_rest(left);
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

fn run_step(
    repo: &Repository,
    lock: &CollectorLock,
    stamp: &Signature,
    purpose: Purpose,
    before: Option<&LastStep>,
    last: &mut LastStep,
) -> Result<Collected> {
    if purpose == Purpose::Step && last.frees_little(repo)? {
        return pack_journal(repo, lock, Packed::JournalAndPacks);
    }
    let newest = repo.refs().sequence;
    let mut collected = run(repo, lock, purpose, stamp, &mut |_| ())?;
    last.record_mark(repo, newest)?;
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
    // A budget keeps sessions newer than a day, and the content of forgotten sessions is freed only
    // after a day. So enforcing it more often changes little.
    let is_old = before.is_some_and(|last| last.is_older(stamp.time.micros, GRACE_MICROS));
    let fullness = Fullness::of(repo)?;
    if can_shrink(fullness, before) || (is_old && fullness.is_over()) {
        collected.budget = enforce_locked(repo, lock, stamp)?;
    }
    Ok(collected)
}

/// Packs the idle journal if it has at least `bytes`, or 8192 objects, and returns the outcome.
/// `None` if less is idle, if there is nothing to do, or while another collection runs. Frees
/// nothing, joins no packs and ignores the budget of the store: this is for use between parts of
/// work that belong together, such as an adoption. The next [`step`] joins packs.
///
/// Skips segments that other processes write to. Takes the time of writing one pack, regardless of
/// the size of the store, and holds no lock that a commit waits for.
///
/// # Errors
/// `Corrupt` when an object of the journal does not verify, and errors of writing. After an error
/// the store is unchanged.
pub fn pack(repo: &Repository, bytes: u64) -> Result<Option<Collected>> {
    let Some(lock) = repo.store().try_lock_collector()? else { return Ok(None) };
    repo.store().refresh()?;
    if !is_enough(repo.store().idle_journal()?, bytes, None) {
        return Ok(None);
    }
    let collected = pack_journal(repo, &lock, Packed::Journal)?;
    Ok(Some(collected).filter(|collected| collected.steps > 0))
}
