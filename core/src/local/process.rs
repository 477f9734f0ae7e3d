//! Runs work in forked processes, which do not have the threads of their parent.

use std::mem;
use std::sync::{Arc, Mutex, OnceLock, PoisonError};

use rayon::{ThreadPool, ThreadPoolBuilder};

use crate::error::{Error, Result};

/// The process that uses the global thread pool.
static FIRST: OnceLock<u32> = OnceLock::new();

/// The thread pool of a forked process, with its id: processes that it forks do not have these
/// threads.
static OWN: Mutex<Option<(u32, Arc<ThreadPool>)>> = Mutex::new(None);

/// Runs `work` on threads of this process: after a fork the parent's threads do not exist, and
/// parallel work would wait for them forever. A program that may fork does all of its work this
/// way. In the process of the first call it costs nothing.
///
/// # Errors
/// Errors of the work, and `Io` if threads cannot be started.
pub fn in_this_process<T: Send>(work: impl FnOnce() -> Result<T> + Send) -> Result<T> {
    let process = std::process::id();
    if *FIRST.get_or_init(|| process) == process {
        return work();
    }
    thread_pool(process)?.install(work)
}

fn thread_pool(process: u32) -> Result<Arc<ThreadPool>> {
    let mut own = OWN.lock().unwrap_or_else(PoisonError::into_inner);
    if let Some((of, threads)) = &*own
        && *of == process
    {
        return Ok(Arc::clone(threads));
    }
    let started = ThreadPoolBuilder::new().build();
    let threads = Arc::new(
        started.map_err(|error| Error::io("start threads", std::io::Error::other(error)))?,
    );
    // Leak the parent's pool, because its threads do not exist here.
    mem::forget(own.replace((process, Arc::clone(&threads))));
    Ok(threads)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn work_is_done_with_threads_of_the_process_and_its_errors_come_back() {
        assert_eq!(in_this_process(|| Ok(1)).unwrap(), 1);
        assert!(in_this_process(|| Err::<(), _>(Error::not_found("x"))).is_err());
        let forked = thread_pool(u32::MAX).unwrap();
        let sum = forked.install(|| rayon::join(|| 1, || 2));
        assert_eq!(sum, (1, 2));
        assert!(Arc::ptr_eq(&forked, &thread_pool(u32::MAX).unwrap()), "started once");
        let again = thread_pool(u32::MAX - 1).unwrap();
        assert!(!Arc::ptr_eq(&forked, &again), "a process that was forked again has its own");
    }
}
