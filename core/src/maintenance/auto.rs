//! Automatic maintenance: whether a small collection is worth it now, and doing one.
//!
//! Nothing here runs by itself, and nothing here is on the way of a snapshot. The command line starts
//! it in a process of its own after a command that committed; a host that keeps a store open for
//! days calls [`step`] between turns, on a thread of its own:
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
//!     // Meanwhile the agent takes its next turn.
//!     assert!(matches!(maintenance.join(), Ok(Ok(None))), "a new store needs nothing");
//! });
//! # Ok::<(), turntree::Error>(())
//! ```

use super::collect::Collected;
use super::collection_plan::Purpose;
use super::store_budget::{collect, enforce_store_budget};
use crate::error::{ErrorKind, Result};
use crate::repo::{Repository, Signature};
use crate::store::{Inventory, InventoryFile};

/// Bytes of the journal from which a step is worth it. A segment is sealed at this size, and opening
/// a store reads the directories of what is not; packed, the same takes a tenth to a third.
pub const DUE_BYTES: u64 = 8 << 20;

/// Objects in the journal from which a step is worth it. Each costs some 100 bytes of memory and a
/// microsecond in every process that opens the store.
pub const DUE_OBJECTS: usize = 8192;

/// Returns true if the journal has enough for a step, as far as this handle has seen it.
///
/// Costs some microseconds and reads nothing but the sizes of the segments that are not sealed.
///
/// # Errors
/// `Io` when these cannot be read.
pub fn is_due(repo: &Repository) -> Result<bool> {
    let summary = repo.store().summary()?;
    Ok(summary.journal_bytes >= DUE_BYTES || summary.journal_objects >= DUE_OBJECTS)
}

/// Keeps the budget of the store, and then does what [`pack`] does, if that is due. What goes for the
/// budget is an operation of its own, which an undo takes back for a day.
///
/// # Errors
/// Those of [`enforce_store_budget`] and of [`collect`]; then the store is as it was.
pub fn step(repo: &Repository, stamp: &Signature) -> Result<Option<Collected>> {
    repo.store().refresh()?;
    if !is_due(repo)? {
        return Ok(None);
    }
    match enforce_store_budget(repo, stamp) {
        Err(error) if error.kind() == ErrorKind::Locked => Ok(None),
        Err(error) => Err(error),
        Ok(_) => pack(repo, stamp),
    }
}

/// Does one step of a collection if it is due, and says what it did; `None` when it is not due, when
/// there is nothing to do, or while another collection goes on. The budget of the store is not looked
/// at: this is for the middle of work that belongs together, such as an adoption.
///
/// Segments that somebody writes to are left for later. Takes the time of writing one pack, and holds
/// no lock that a commit waits for while it does.
///
/// # Errors
/// Those of [`collect`]; then the store is as it was.
pub fn pack(repo: &Repository, stamp: &Signature) -> Result<Option<Collected>> {
    repo.store().refresh()?;
    if !is_due(repo)? {
        return Ok(None);
    }
    if !is_idle_due(&repo.store().inventory()?) {
        return Ok(None);
    }
    match collect(repo, Purpose::Step, stamp, &mut |_| ()) {
        Ok(collected) => Ok(Some(collected).filter(|collected| collected.steps > 0)),
        Err(error) if error.kind() == ErrorKind::Locked => Ok(None),
        Err(error) => Err(error),
    }
}

/// Checks the idle segments: where many processes are at work for long, most of the
/// journal may be theirs.
fn is_idle_due(inventory: &Inventory<'_>) -> bool {
    let idle = |file: &&InventoryFile| file.tier.is_none() && file.replaceable;
    let idle = inventory.files().iter().filter(idle);
    let positions = idle.flat_map(|file| file.first..file.first + file.objects);
    let entries = positions.filter_map(|position| inventory.entry(position));
    let (objects, bytes) =
        entries.fold((0, 0), |(n, sum), entry| (n + 1, sum + entry.stored_bytes));
    bytes >= DUE_BYTES || objects >= DUE_OBJECTS
}
