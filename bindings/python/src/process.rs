//! Work outside of the interpreter: without its lock, without panics, and in forked processes too.

use std::any::Any;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::OnceLock;

use pyo3::prelude::*;
use rayon::{ThreadPool, ThreadPoolBuilder};
use turntree::{Error, Result};

use crate::error::{internal, raised};

/// The process that loaded the module.
static LOADED_IN: OnceLock<u32> = OnceLock::new();

/// Threads of a forked process: those of rayon stayed with its parent.
static FORKED: OnceLock<std::result::Result<ThreadPool, String>> = OnceLock::new();

/// Remembers which process this is.
pub(crate) fn remember() {
    let _ = LOADED_IN.set(std::process::id());
}

/// Does `work` while other threads of Python run.
pub(crate) fn detached<T: Send>(
    py: Python<'_>,
    work: impl FnOnce() -> Result<T> + Send,
) -> PyResult<T> {
    let outcome = py.detach(|| catch_unwind(AssertUnwindSafe(|| in_this_process(work))));
    match outcome {
        Ok(Ok(value)) => Ok(value),
        Ok(Err(error)) => Err(raised(&error)),
        Err(panic) => Err(internal(format!("turntree failed: {}", said(&*panic)))),
    }
}

/// Does `work` with threads that this process has.
pub(crate) fn in_this_process<T: Send>(work: impl FnOnce() -> Result<T> + Send) -> Result<T> {
    if LOADED_IN.get() == Some(&std::process::id()) {
        return work();
    }
    let build = || ThreadPoolBuilder::new().build().map_err(|error| error.to_string());
    match FORKED.get_or_init(build) {
        Ok(pool) => pool.install(work),
        Err(error) => Err(Error::io("start threads", std::io::Error::other(error.clone()))),
    }
}

fn said(panic: &(dyn Any + Send)) -> &str {
    let text = panic.downcast_ref::<&str>().copied();
    text.or_else(|| panic.downcast_ref::<String>().map(String::as_str)).unwrap_or("a panic")
}
