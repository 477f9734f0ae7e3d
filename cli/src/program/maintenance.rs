//! Starts the maintenance process of a store: at most one at a time, after a commit that makes it
//! due.
//!
//! ```text
//!  commit ── worth it? ── lock is free? ── start, with the lock as its stdin ── reap, in a server
//!                                            └── step ── wait ── step ... ── unlock, look once more
//! ```
//!
//! The lock belongs to the open file. The new process inherits the file before this one closes it,
//! so no second process can start in between. A process that has released its lock may take a while
//! to end on a busy machine. So the file contains its id, and the next start waits for it.

use std::fs::{File, OpenOptions};
use std::io;
use std::path::Path;
use std::process::{self, Child, Command, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use turntree::maintenance::{CROWDED_PERCENT, Fullness};
use turntree::platform::{
    Lock, canonical, private, read_at, try_lock, unlock, without_links, write_all_at,
};
use turntree::store::MAINTENANCE_LOCK;

use crate::platform::{apart, inherited_lock, is_running, root_folder};
use crate::program::itself;

/// The file that a collection locks.
const COLLECTOR_FILE: &str = "collector";

/// The option that says that stdin is the lock file.
pub(crate) const STARTED: &str = "--started";

/// How long a writer is delayed: the square of the percent over budget times this, up to a maximum.
/// A slightly overfull store costs no noticeable time, and a store at twice its budgets does not
/// grow further while maintenance empties it, even on a busy machine.
const HELD_MICROS: u64 = 120;
const MOST_HELD: Duration = Duration::from_millis(400);

/// How long a start waits for the previous process to end, at most: its id may belong to another
/// process by now.
const MOST_ENDING: Duration = Duration::from_millis(200);

/// Maximum digits of a process id.
const MAX_ID_DIGITS: usize = 10;

/// The lock of the maintenance process.
#[derive(Debug)]
pub(crate) struct MaintenanceLock(File);

/// The reasons to start maintenance.
#[derive(Debug, Default)]
pub(crate) struct Occasion {
    /// A step is due, or the store is over its budgets.
    pub(crate) is_due: bool,
    /// There are turns to push.
    pub(crate) pushes: bool,
    /// The remote whose bundles are to be folded.
    pub(crate) fold: Option<String>,
    /// The search index lacks so much that the next search would be slow.
    pub(crate) indexes: bool,
}

impl MaintenanceLock {
    /// Takes the lock of the store in `dir`; `None` if another process holds it.
    pub(crate) fn take(dir: &Path) -> io::Result<Option<Self>> {
        // The store may be untrusted: does not follow a link in place of the file, and does not
        // block on a pipe.
        let mut options = OpenOptions::new();
        options.read(true).write(true).create(true).truncate(false);
        let lock = without_links(private(&mut options)).open(dir.join(MAINTENANCE_LOCK))?;
        let lock = Self(lock);
        Ok(lock.try_again()?.then_some(lock))
    }

    /// Takes over the lock that this process was started with, and writes the id of this process
    /// into the file.
    pub(crate) fn inherited() -> io::Result<Self> {
        let lock = Self(inherited_lock()?);
        // On a full disk the id is missing, and the next start does not wait.
        let _ = lock.0.set_len(0);
        let _ = write_all_at(&lock.0, process::id().to_string().as_bytes(), 0);
        Ok(lock)
    }

    /// Waits until the previous holder of the lock has ended.
    fn await_end_of_last(&self) {
        let mut bytes = [0; MAX_ID_DIGITS];
        let read = read_at(&self.0, &mut bytes, 0).unwrap_or(0);
        let text = bytes.get(..read).and_then(|bytes| str::from_utf8(bytes).ok());
        let Some(last) = text.and_then(|text| text.parse().ok()) else { return };
        let began = Instant::now();
        while is_running(last) && began.elapsed() < MOST_ENDING {
            thread::sleep(Duration::from_millis(1));
        }
    }

    /// Tries to take the lock again; false if another process holds it.
    pub(crate) fn try_again(&self) -> io::Result<bool> {
        Ok(try_lock(&self.0)? == Lock::Taken)
    }

    /// Releases it.
    pub(crate) fn unlock(&self) -> io::Result<()> {
        unlock(&self.0)
    }
}

/// Returns true if a collection is running in the store in `dir`, without opening the store.
pub(crate) fn is_collected(dir: &Path) -> bool {
    let mut options = OpenOptions::new();
    let file = without_links(options.read(true)).open(dir.join(COLLECTOR_FILE));
    file.is_ok_and(|file| matches!(try_lock(&file), Ok(Lock::Busy)))
}

/// Starts the maintenance process of the store in `dir`, which this process has changed and closed,
/// if it is due and none is running. Delays a writer that fills the store faster than maintenance
/// empties it.
pub(super) fn look_after(
    dir: &Path,
    occasion: &Occasion,
    fullness: Option<Fullness>,
) -> Option<Child> {
    let (started, is_there) = match occasion.is_wanted() {
        // A failure is not reported: the next writer tries again.
        true => start(dir, occasion).unwrap_or((None, false)),
        false => (None, false),
    };
    if is_there && let Some(fullness) = fullness {
        hold_back(fullness);
    }
    started
}

/// Reaps a process when it ends, for a long-running program.
pub(super) fn reap(mut child: Child) {
    let wait = move || drop(child.wait());
    drop(thread::Builder::new().name("maintenance".to_owned()).spawn(wait));
}

impl Occasion {
    fn is_wanted(&self) -> bool {
        self.is_due || self.pushes || self.fold.is_some() || self.indexes
    }
}

/// Starts the process, unless one is running. Returns true if one is running now. It outlives this
/// process, and signals to this process do not reach it.
fn start(dir: &Path, occasion: &Occasion) -> io::Result<(Option<Child>, bool)> {
    let Occasion { pushes, fold, indexes, .. } = occasion;
    let sends = *pushes || fold.is_some();
    if !sends && !indexes && is_collected(dir) {
        return Ok((None, true));
    }
    let dir = canonical(dir)?;
    let Some(lock) = MaintenanceLock::take(&dir)? else { return Ok((None, true)) };
    lock.await_end_of_last();
    let mut maintenance = Command::new(itself::file().map_err(io::Error::other)?);
    maintenance
        .args(["gc", "--auto", STARTED, "--no-maintenance", "--store"])
        .arg(dir)
        .args(fold.iter().map(|remote| format!("--fold={remote}")))
        .args(sends.then_some("--push"))
        .args(indexes.then_some("--index"))
        .current_dir(root_folder());
    maintenance.stdin(lock.0).stdout(Stdio::null()).stderr(Stdio::null());
    apart(&mut maintenance).spawn().map(|child| (Some(child), true))
}

/// Waits some milliseconds if the store is far over its budgets.
fn hold_back(fullness: Fullness) {
    let above = fullness.percent().unwrap_or(0).saturating_sub(CROWDED_PERCENT);
    if above > 0 {
        let held = above.saturating_mul(above).saturating_mul(HELD_MICROS);
        thread::sleep(Duration::from_micros(held).min(MOST_HELD));
    }
}

#[cfg(all(test, unix))]
mod tests {
    use super::*;

    #[test]
    fn a_start_waits_for_the_process_before_it_and_not_for_ever() {
        let folder = tempfile::tempdir().unwrap();
        let lock = MaintenanceLock::take(folder.path()).unwrap().unwrap();
        let waited = || {
            let began = Instant::now();
            lock.await_end_of_last();
            began.elapsed()
        };
        for text in ["", "no number", "-1", "0", "1"] {
            lock.0.set_len(0).unwrap();
            write_all_at(&lock.0, text.as_bytes(), 0).unwrap();
            assert!(waited() < MOST_ENDING, "{text}");
        }
        let mut child = Command::new("sleep").arg("60").spawn().unwrap();
        lock.0.set_len(0).unwrap();
        write_all_at(&lock.0, child.id().to_string().as_bytes(), 0).unwrap();
        assert!(waited() >= MOST_ENDING);
        child.kill().unwrap();
        child.wait().unwrap();
        assert!(waited() < MOST_ENDING);
    }
}
