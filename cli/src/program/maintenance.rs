//! The process that looks after a store: at most one at a time, started after a commit that made it worth it.
//!
//! ```text
//!  commit ── worth it? ── lock is free? ── start, with the lock as its stdin ── reap, in a server
//!                                            └── step ── wait ── step ... ── unlock, look once more
//! ```
//!
//! The lock belongs to the open file, which the new process has before this one lets go of it: so there is
//! no moment in which a second one could begin. A process that has given its lock back may take a while to
//! end on a busy machine, so its id is in the file, and the next start waits for it.

use std::fs::{File, OpenOptions, TryLockError};
use std::io;
use std::os::fd::AsFd;
use std::os::unix::fs::{FileExt, OpenOptionsExt};
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::{self, Child, Command, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use rustix::fs::OFlags;
use rustix::process::{Pid, test_kill_process};
use turntree::maintenance::{CROWDED_PERCENT, Fullness};
use turntree::store::MAINTENANCE_LOCK;

use crate::program::itself;

/// The file whose lock a collection holds.
const COLLECTOR_FILE: &str = "collector";

/// The option that says that stdin is the lock.
pub(crate) const STARTED: &str = "--started";

/// For how long a writer is held back: for the square of the percent above that, and at most. A store that is
/// a little too full costs nothing that anybody notices, and one that comes near twice its budgets fills no
/// further while maintenance empties it, on a busy machine too.
const HELD_MICROS: u64 = 120;
const MOST_HELD: Duration = Duration::from_millis(400);

/// For how long a start waits for the process before it to end, at most: its id may be that of another one by
/// now.
const MOST_ENDING: Duration = Duration::from_millis(200);

/// The most digits that the id of a process has.
const MAX_ID_DIGITS: usize = 10;

/// The right to look after a store.
#[derive(Debug)]
pub(crate) struct MaintenanceLock(File);

/// Why a store is to be looked after.
#[derive(Debug, Default)]
pub(crate) struct Occasion {
    /// A step is due, or the store is over its budgets.
    pub(crate) is_due: bool,
    /// Something is to be pushed.
    pub(crate) pushes: bool,
    /// The remote on which bundles are to be made one.
    pub(crate) fold: Option<String>,
}

impl MaintenanceLock {
    /// Takes the lock of the store in `dir`, unless another process has it.
    pub(crate) fn take(dir: &Path) -> io::Result<Option<Self>> {
        // A store may come from others: a link in its place is not followed, a pipe not waited for.
        let flags = (OFlags::NOFOLLOW | OFlags::NONBLOCK).bits().cast_signed();
        let mut options = OpenOptions::new();
        options.read(true).write(true).create(true).truncate(false).mode(0o600).custom_flags(flags);
        let lock = Self(options.open(dir.join(MAINTENANCE_LOCK))?);
        Ok(lock.try_again()?.then_some(lock))
    }

    /// The lock that this process was started with; from now on the file has the id of this process.
    pub(crate) fn inherited() -> io::Result<Self> {
        let lock = Self(io::stdin().as_fd().try_clone_to_owned()?.into());
        // On a full disk there is no id in it, and the next start does not wait.
        let _ = lock.0.set_len(0);
        let _ = lock.0.write_all_at(process::id().to_string().as_bytes(), 0);
        Ok(lock)
    }

    /// Waits until the process that had it before has ended.
    fn await_end_of_last(&self) {
        let mut bytes = [0; MAX_ID_DIGITS];
        let read = self.0.read_at(&mut bytes, 0).unwrap_or(0);
        let text = bytes.get(..read).and_then(|bytes| str::from_utf8(bytes).ok());
        let id = text.and_then(|text| text.parse().ok()).filter(|id| *id > 1);
        let Some(last) = id.and_then(Pid::from_raw) else { return };
        let began = Instant::now();
        while test_kill_process(last).is_ok() && began.elapsed() < MOST_ENDING {
            thread::sleep(Duration::from_millis(1));
        }
    }

    /// Takes it once more; false when another process has it now.
    pub(crate) fn try_again(&self) -> io::Result<bool> {
        match self.0.try_lock() {
            Ok(()) => Ok(true),
            Err(TryLockError::WouldBlock) => Ok(false),
            Err(TryLockError::Error(error)) => Err(error),
        }
    }

    /// Gives it back.
    pub(crate) fn unlock(&self) -> io::Result<()> {
        self.0.unlock()
    }
}

/// Returns whether a collection goes on in the store in `dir`, without opening that.
pub(crate) fn is_collected(dir: &Path) -> bool {
    let flags = (OFlags::NOFOLLOW | OFlags::NONBLOCK).bits().cast_signed();
    let file = OpenOptions::new().read(true).custom_flags(flags).open(dir.join(COLLECTOR_FILE));
    file.is_ok_and(|file| matches!(file.try_lock(), Err(TryLockError::WouldBlock)))
}

/// Starts the process that looks after the store in `dir`, which this one has changed and closed, if that is
/// worth it and none is there. A writer that fills the store faster than that empties it is held back.
pub(super) fn look_after(
    dir: &Path,
    occasion: &Occasion,
    fullness: Option<Fullness>,
) -> Option<Child> {
    let (started, is_there) = match occasion.is_wanted() {
        // The writer is not told when this fails: the next one tries again.
        true => start(dir, occasion).unwrap_or((None, false)),
        false => (None, false),
    };
    if is_there && let Some(fullness) = fullness {
        hold_back(fullness);
    }
    started
}

/// Reaps a process when it ends, for a program that goes on.
pub(super) fn reap(mut child: Child) {
    let wait = move || drop(child.wait());
    drop(thread::Builder::new().name("maintenance".to_owned()).spawn(wait));
}

impl Occasion {
    fn is_wanted(&self) -> bool {
        self.is_due || self.pushes || self.fold.is_some()
    }
}

/// Starts the process, unless there is one; says whether there is one now. It outlives this process and
/// whatever stops that.
fn start(dir: &Path, occasion: &Occasion) -> io::Result<(Option<Child>, bool)> {
    let Occasion { pushes, fold, .. } = occasion;
    let sends = *pushes || fold.is_some();
    if !sends && is_collected(dir) {
        return Ok((None, true));
    }
    let dir = dir.canonicalize()?;
    let Some(lock) = MaintenanceLock::take(&dir)? else { return Ok((None, true)) };
    lock.await_end_of_last();
    let mut maintenance = Command::new(itself::file().map_err(io::Error::other)?);
    maintenance
        .args(["gc", "--auto", STARTED, "--no-maintenance", "--store"])
        .arg(dir)
        .args(fold.iter().map(|remote| format!("--fold={remote}")))
        .args(sends.then_some("--push"))
        .current_dir("/");
    maintenance.stdin(lock.0).stdout(Stdio::null()).stderr(Stdio::null());
    maintenance.process_group(0).spawn().map(|child| (Some(child), true))
}

/// Waits for some milliseconds where the store is much fuller than its budgets say.
fn hold_back(fullness: Fullness) {
    let above = fullness.percent().unwrap_or(0).saturating_sub(CROWDED_PERCENT);
    if above > 0 {
        let held = above.saturating_mul(above).saturating_mul(HELD_MICROS);
        thread::sleep(Duration::from_micros(held).min(MOST_HELD));
    }
}

#[cfg(test)]
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
            lock.0.write_all_at(text.as_bytes(), 0).unwrap();
            assert!(waited() < MOST_ENDING, "{text}");
        }
        let mut child = Command::new("sleep").arg("60").spawn().unwrap();
        lock.0.set_len(0).unwrap();
        lock.0.write_all_at(child.id().to_string().as_bytes(), 0).unwrap();
        assert!(waited() >= MOST_ENDING);
        child.kill().unwrap();
        child.wait().unwrap();
        assert!(waited() < MOST_ENDING);
    }
}
