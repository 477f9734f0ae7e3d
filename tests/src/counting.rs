//! The real disk with counters of its calls.

use std::io;
use std::ops::Sub;
use std::path::Path;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};

use crate::watched::{Call, WatchedIo, Watcher};

/// The real disk that counts calls. Clones share their counters.
pub type CountingIo = WatchedIo<Counters>;

/// The counters of a [`CountingIo`].
#[derive(Debug, Default)]
pub struct Counters {
    calls: Mutex<Calls>,
    reads: AtomicU64,
}

/// The number of calls by kind.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Calls {
    /// Writes to files.
    pub writes: u64,
    /// Syncs of files.
    pub syncs: u64,
    /// Syncs of directories.
    pub directory_syncs: u64,
    /// Files and directories made, linked, renamed and removed.
    pub names: u64,
}

impl Sub for Calls {
    type Output = Self;

    fn sub(self, before: Self) -> Self {
        Self {
            writes: self.writes - before.writes,
            syncs: self.syncs - before.syncs,
            directory_syncs: self.directory_syncs - before.directory_syncs,
            names: self.names - before.names,
        }
    }
}

impl Default for CountingIo {
    fn default() -> Self {
        Self::real(Counters::default())
    }
}

impl CountingIo {
    /// The calls so far.
    #[must_use]
    pub fn calls(&self) -> Calls {
        *self.watcher().lock()
    }

    /// The reads of files so far. Reads of mapped files are not calls and do not count.
    #[must_use]
    pub fn reads(&self) -> u64 {
        self.watcher().reads.load(Ordering::Relaxed)
    }
}

impl Counters {
    fn lock(&self) -> MutexGuard<'_, Calls> {
        self.calls.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Watcher for Counters {
    fn around<T>(
        &self,
        call: Call,
        _: &Path,
        make: impl FnOnce() -> io::Result<T>,
    ) -> io::Result<T> {
        match call {
            Call::Create | Call::Name => self.lock().names += 1,
            Call::SyncDir => self.lock().directory_syncs += 1,
            Call::Write => self.lock().writes += 1,
            Call::SyncData => self.lock().syncs += 1,
            Call::Read => drop(self.reads.fetch_add(1, Ordering::Relaxed)),
            Call::Open(_) | Call::Lock | Call::Look => {}
        }
        make()
    }
}
