//! Threads that compress, and whether they give way to all others: those of work that nobody waits for
//! do, since a snapshot beside it waits for the processor. Those of a command that a person waits for
//! do not: on a busy machine it would stand still.

use std::cell::Cell;

use rayon::{ThreadPool, ThreadPoolBuilder};

/// The niceness of threads that give way, where 0 is usual and 19 gives way to all.
#[cfg(target_os = "linux")]
const NICENESS: i32 = 10;

thread_local! {
    static IS_QUIET: Cell<bool> = const { Cell::new(false) };
}

/// Does work that nobody waits for: the threads that it starts to compress give way.
pub(crate) fn quietly<T>(work: impl FnOnce() -> T) -> T {
    let _before = Restored(IS_QUIET.replace(true));
    work()
}

/// Says again what was so before.
struct Restored(bool);

impl Drop for Restored {
    fn drop(&mut self) {
        IS_QUIET.set(self.0);
    }
}

/// Starts so many threads; none when the system has no more. Each process starts its own, so one that was
/// forked has them too.
pub(super) fn threads(count: usize) -> Option<ThreadPool> {
    let is_quiet = IS_QUIET.get();
    let begin = move |_| {
        if is_quiet {
            give_way();
        }
    };
    ThreadPoolBuilder::new().num_threads(count).start_handler(begin).build().ok()
}

/// Makes this thread give way. On Linux a niceness is that of a thread; elsewhere it is that of a process,
/// which has other work to do, so there nothing changes.
fn give_way() {
    #[cfg(target_os = "linux")]
    {
        // One that gives way more than this already goes on to. One that may not works as all others do.
        let now = rustix::process::getpriority_process(None).unwrap_or_default();
        let _ = rustix::process::setpriority_process(None, now.max(NICENESS));
    }
}

#[cfg(all(test, target_os = "linux"))]
mod tests {
    use super::*;

    #[test]
    fn only_threads_that_compress_what_nobody_waits_for_give_way() {
        let niceness = || rustix::process::getpriority_process(None).unwrap();
        let before = niceness();
        let theirs = || threads(2).unwrap().broadcast(|_| niceness());
        assert_eq!(theirs(), [before; 2]);
        assert_eq!(quietly(theirs), [before.max(NICENESS); 2]);
        assert_eq!(theirs(), [before; 2]);
        assert_eq!(niceness(), before);
    }
}
