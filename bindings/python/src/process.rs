//! Runs work outside of the interpreter: without its lock, with panics caught, also in forked
//! processes, and so that a signal such as Ctrl-C interrupts long work.

use std::any::Any;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::mpsc::{RecvTimeoutError, channel};
use std::sync::{Mutex, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

use pyo3::prelude::*;
use turntree::local::in_this_process;
use turntree::{Error, ErrorKind, Result};

use crate::error::{internal, raised};

/// The interval of signal checks during work; short for a user.
pub(crate) const BETWEEN_SIGNALS: Duration = Duration::from_millis(100);

/// The timeout for a lock that other processes hold for microseconds.
const PATIENCE: Duration = Duration::from_secs(10);

/// Runs `work` while other Python threads run.
pub(crate) fn detached<T: Send>(
    py: Python<'_>,
    work: impl FnOnce() -> Result<T> + Send,
) -> PyResult<T> {
    returned(py.detach(|| caught(work)))
}

/// Runs `work` as [`detached`] does, and repeats it while another process holds a needed lock,
/// until a signal or the timeout. Work that finds a lock held has changed nothing.
pub(crate) fn patiently<T: Send>(
    py: Python<'_>,
    work: impl Fn() -> Result<T> + Sync,
) -> PyResult<T> {
    let until = Instant::now() + PATIENCE;
    loop {
        match py.detach(|| caught(&work)) {
            Ok(Err(error)) if is_early(&error, until) => py.check_signals()?,
            outcome => return returned(outcome),
        }
    }
}

/// Runs long `work` on a separate thread, so that a signal ends the wait. The work itself continues
/// to its end.
pub(crate) fn interruptibly<T: Send + 'static>(
    py: Python<'_>,
    work: impl Fn() -> Result<T> + Send + 'static,
) -> PyResult<T> {
    let (done, outcome) = channel();
    let until = Instant::now() + PATIENCE;
    let persistent = move || {
        loop {
            match work() {
                Err(error) if is_early(&error, until) => {}
                outcome => return outcome,
            }
        }
    };
    let spawned = thread::Builder::new().spawn(move || {
        // The receiver is dropped if a signal ended the wait.
        let _ = done.send(caught(persistent));
    });
    spawned.map_err(|error| raised(&Error::io("start a thread", error)))?;
    let outcome = Mutex::new(outcome);
    let wait = || {
        let outcome = outcome.lock().unwrap_or_else(PoisonError::into_inner);
        outcome.recv_timeout(BETWEEN_SIGNALS)
    };
    loop {
        match py.detach(wait) {
            Ok(outcome) => return returned(outcome),
            Err(RecvTimeoutError::Timeout) => py.check_signals()?,
            Err(RecvTimeoutError::Disconnected) => {
                return Err(internal("the working thread has ended".to_owned()));
            }
        }
    }
}

fn is_early(error: &Error, until: Instant) -> bool {
    error.kind() == ErrorKind::Locked && Instant::now() < until
}

/// The result of work, or its panic.
type Caught<T> = thread::Result<Result<T>>;

/// Runs `work` with threads of this process, and catches its panics.
fn caught<T: Send>(work: impl FnOnce() -> Result<T> + Send) -> Caught<T> {
    catch_unwind(AssertUnwindSafe(|| in_this_process(work)))
}

fn returned<T>(outcome: Caught<T>) -> PyResult<T> {
    match outcome {
        Ok(Ok(value)) => Ok(value),
        Ok(Err(error)) => Err(raised(&error)),
        Err(panic) => Err(internal(format!("turntree failed: {}", said(&*panic)))),
    }
}

fn said(panic: &(dyn Any + Send)) -> &str {
    let text = panic.downcast_ref::<&str>().copied();
    text.or_else(|| panic.downcast_ref::<String>().map(String::as_str)).unwrap_or("a panic")
}
