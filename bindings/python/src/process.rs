//! Work outside of the interpreter: without its lock, without panics, in forked processes too, and so
//! that a signal such as Ctrl-C ends what takes long.

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

/// How long work goes on before it is asked whether a signal came: short to a person.
pub(crate) const BETWEEN_SIGNALS: Duration = Duration::from_millis(100);

/// How long a lock is waited for that others hold for microseconds.
const PATIENCE: Duration = Duration::from_secs(10);

/// Does `work` while other threads of Python run.
pub(crate) fn detached<T: Send>(
    py: Python<'_>,
    work: impl FnOnce() -> Result<T> + Send,
) -> PyResult<T> {
    returned(py.detach(|| caught(work)))
}

/// Does `work` as [`detached`] does, again while another process holds a lock that it needs, until a
/// signal or the end of all patience. Work that finds a lock held has changed nothing.
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

/// Does long `work` on a thread of its own, so that a signal ends the wait for it. What was begun goes
/// on to its end all the same.
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
        // Whoever waited may have gone.
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
                return Err(internal("the thread of the work has gone".to_owned()));
            }
        }
    }
}

fn is_early(error: &Error, until: Instant) -> bool {
    error.kind() == ErrorKind::Locked && Instant::now() < until
}

/// What work gave, or what it panicked with.
type Caught<T> = thread::Result<Result<T>>;

/// Does `work` with threads that this process has, and catches its panics.
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
