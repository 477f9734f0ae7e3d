//! Threads that compress give way to everybody else: nobody waits for a pack, and a snapshot beside one
//! waits for the processor.

use rayon::{ThreadPool, ThreadPoolBuilder};

/// The niceness of these threads, where 0 is usual and 19 gives way to all.
#[cfg(target_os = "linux")]
const NICENESS: i32 = 10;

/// Starts so many threads; none when the system has no more. Each process starts its own, so one that was
/// forked has them too.
pub(super) fn threads(count: usize) -> Option<ThreadPool> {
    ThreadPoolBuilder::new().num_threads(count).start_handler(|_| give_way()).build().ok()
}

/// Makes this thread give way. On Linux a niceness is that of a thread; elsewhere it is that of a process,
/// which has other work to do, so there nothing changes.
fn give_way() {
    #[cfg(target_os = "linux")]
    {
        // Who gives way more than this already goes on to. Who may not works as all others do.
        let now = rustix::process::getpriority_process(None).unwrap_or_default();
        let _ = rustix::process::setpriority_process(None, now.max(NICENESS));
    }
}

#[cfg(all(test, target_os = "linux"))]
mod tests {
    use super::*;

    #[test]
    fn only_threads_that_compress_give_way() {
        let niceness = || rustix::process::getpriority_process(None).unwrap();
        let before = niceness();
        let threads = threads(2).unwrap();
        let theirs = threads.broadcast(|_| niceness());
        assert_eq!(theirs, [before.max(NICENESS); 2]);
        assert_eq!(niceness(), before);
    }
}
