//! Limits and priorities of this process.

use rustix::process::{Resource, getrlimit};

/// The niceness of background threads; 0 is normal and 19 the lowest priority.
#[cfg(target_os = "linux")]
const NICENESS: i32 = 10;

/// Returns how many handles this process may have open, if that is limited.
pub(crate) fn handle_limit() -> Option<u64> {
    getrlimit(Resource::Nofile).current
}

/// Lowers the priority of this thread. Does nothing except on Linux: elsewhere niceness applies to
/// the whole process, which has other work.
pub(crate) fn lower_thread_priority() {
    #[cfg(target_os = "linux")]
    {
        // A thread with a higher niceness keeps it. Without permission, the thread keeps its
        // priority.
        let now = rustix::process::getpriority_process(None).unwrap_or_default();
        let _ = rustix::process::setpriority_process(None, now.max(NICENESS));
    }
}
