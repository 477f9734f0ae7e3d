//! Runs work on the thread pool of libuv, and catches panics.

use std::any::Any;
use std::panic::{AssertUnwindSafe, catch_unwind};

use napi::bindgen_prelude::{AsyncTask, Buffer, Task, ToNapiValue, TypeName};
use napi::{Env, Result};

use crate::error::{internal, raised};

/// A promise of `J`, converted from the `T` that a pool thread returns.
pub(crate) type Promise<T, J = T> = AsyncTask<Work<T, J>>;

type Job<T> = Box<dyn FnOnce() -> turntree::Result<T> + Send>;

/// Work for a pool thread, and the conversion of its result.
pub struct Work<T, J> {
    job: Option<Job<T>>,
    hand_over: fn(T) -> J,
}

/// Runs `job` on the pool.
pub(crate) fn promise<T>(job: impl FnOnce() -> turntree::Result<T> + Send + 'static) -> Promise<T>
where
    T: ToNapiValue + TypeName + Send + 'static,
{
    promise_of(job, |found| found)
}

/// Runs `job` on the pool, and converts its result to a Node value on the main thread.
pub(crate) fn promise_of<T, J>(
    job: impl FnOnce() -> turntree::Result<T> + Send + 'static,
    hand_over: fn(T) -> J,
) -> Promise<T, J>
where
    T: Send + 'static,
    J: ToNapiValue + TypeName,
{
    AsyncTask::new(Work { job: Some(Box::new(job)), hand_over })
}

impl<T, J> Task for Work<T, J>
where
    T: Send + 'static,
    J: ToNapiValue + TypeName,
{
    type Output = T;
    type JsValue = J;

    fn compute(&mut self) -> Result<T> {
        let Some(job) = self.job.take() else {
            return Err(internal("a job was asked for twice"));
        };
        match catch_unwind(AssertUnwindSafe(job)) {
            Ok(Ok(value)) => Ok(value),
            Ok(Err(error)) => Err(raised(error)),
            Err(panic) => Err(internal(&format!("turntree failed: {}", said(&*panic)))),
        }
    }

    fn resolve(&mut self, _env: Env, output: T) -> Result<J> {
        Ok((self.hand_over)(output))
    }
}

fn said(panic: &(dyn Any + Send)) -> &str {
    let text = panic.downcast_ref::<&str>().copied();
    text.or_else(|| panic.downcast_ref::<String>().map(String::as_str)).unwrap_or("a panic")
}

/// Converts content to a Node buffer. Runs on the pool, where page faults do not block the main
/// thread.
pub(crate) fn buffer(content: Vec<u8>) -> Buffer {
    content.into()
}
