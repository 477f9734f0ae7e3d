//! Limits and priorities of this process.

/// Returns how many handles this process may have open: Windows has no limit that matters here.
pub(crate) fn handle_limit() -> Option<u64> {
    None
}

/// Threads keep their priority: background work already runs in a process of its own.
pub(crate) fn lower_thread_priority() {}
