//! The real file system for a process that stops itself in one of its calls, with all locks held,
//! for any time.

use std::io;
use std::ops::Range;
use std::path::Path;
use std::sync::atomic::{AtomicU64, Ordering};

use rustix::process::{Signal, getpid, kill_process};

use crate::watched::{Call, Watcher};

/// Counts the calls that change something, and stops in one of them.
#[derive(Debug)]
pub struct Stopper {
    calls: AtomicU64,
    stop_in: u64,
}

impl Stopper {
    /// Stops in the call with this number, from 1: a write when half of it is written, any other
    /// call before it begins.
    #[must_use]
    pub fn new(stop_in: u64) -> Self {
        Self { calls: AtomicU64::default(), stop_in }
    }

    /// True if the process stops in the call that begins now.
    fn is_due(&self) -> bool {
        self.calls.fetch_add(1, Ordering::Relaxed) + 1 == self.stop_in
    }
}

fn stop() -> io::Result<()> {
    Ok(kill_process(getpid(), Signal::STOP)?)
}

impl Watcher for Stopper {
    fn around<T>(
        &self,
        call: Call,
        _: &Path,
        make: impl FnOnce() -> io::Result<T>,
    ) -> io::Result<T> {
        let changes = !matches!(call, Call::Open(_) | Call::Read | Call::Look);
        if changes && self.is_due() {
            stop()?;
        }
        make()
    }

    fn write(
        &self,
        _: &Path,
        len: usize,
        write: impl Fn(Range<usize>) -> io::Result<()>,
    ) -> io::Result<()> {
        if !self.is_due() {
            return write(0..len);
        }
        write(0..len / 2)?;
        stop()?;
        write(len / 2..len)
    }
}
