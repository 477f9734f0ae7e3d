//! The process that looks after a store: at most one at a time, started after a commit that made it worth it.
//!
//! ```text
//!  commit ── worth it? ── lock is free? ── start, with the lock as its stdin ── reap, in a server
//!                                            └── step ── wait ── step ... ── unlock, look once more
//! ```
//!
//! The lock belongs to the open file, which the new process has before this one lets go of it: so there is
//! no moment in which a second one could begin.

use std::fs::{File, OpenOptions, TryLockError};
use std::io;
use std::os::fd::AsFd;
use std::os::unix::fs::OpenOptionsExt;
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::thread;
use std::time::Duration;

use rustix::fs::OFlags;
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
        options.write(true).create(true).truncate(false).mode(0o600).custom_flags(flags);
        let lock = Self(options.open(dir.join(MAINTENANCE_LOCK))?);
        Ok(lock.try_again()?.then_some(lock))
    }

    /// The lock that this process was started with.
    pub(crate) fn inherited() -> io::Result<Self> {
        Ok(Self(io::stdin().as_fd().try_clone_to_owned()?.into()))
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
    let Some(MaintenanceLock(lock)) = MaintenanceLock::take(&dir)? else { return Ok((None, true)) };
    let mut maintenance = Command::new(itself::file().map_err(io::Error::other)?);
    maintenance
        .args(["gc", "--auto", STARTED, "--no-maintenance", "--store"])
        .arg(dir)
        .args(fold.iter().map(|remote| format!("--fold={remote}")))
        .args(sends.then_some("--push"))
        .current_dir("/");
    maintenance.stdin(lock).stdout(Stdio::null()).stderr(Stdio::null());
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
