//! Threads for compression, with lower priority for background work, which would otherwise take the
//! processor from concurrent snapshots. Threads of a command that a user waits for keep the normal
//! priority: on a busy machine the command would stall.

use std::cell::Cell;

use rayon::{ThreadPool, ThreadPoolBuilder};

use crate::platform::lower_thread_priority;

thread_local! {
    static IS_QUIET: Cell<bool> = const { Cell::new(false) };
}

/// Runs background work: compression threads that it starts have lower priority.
pub(crate) fn with_low_priority<T>(work: impl FnOnce() -> T) -> T {
    let _before = PriorityGuard(IS_QUIET.replace(true));
    work()
}

/// Restores the previous value on drop.
struct PriorityGuard(bool);

impl Drop for PriorityGuard {
    fn drop(&mut self) {
        IS_QUIET.set(self.0);
    }
}

/// Starts `count` threads; returns `None` if the system has no more. Threads do not survive a fork,
/// so every pool is started by the process that uses it.
pub(in crate::store::pack) fn threads(count: usize) -> Option<ThreadPool> {
    let is_quiet = IS_QUIET.get();
    let begin = move |_| {
        if is_quiet {
            lower_thread_priority();
        }
    };
    ThreadPoolBuilder::new().num_threads(count).start_handler(begin).build().ok()
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
        assert_eq!(with_low_priority(theirs), [before.max(10); 2]);
        assert_eq!(theirs(), [before; 2]);
        assert_eq!(niceness(), before);
    }
}
