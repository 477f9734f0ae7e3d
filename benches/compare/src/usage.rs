//! Reads the time and memory of this process from the system.

use std::fs;

use rustix::time::{ClockId, clock_gettime};

use crate::Result;

/// Returns the processor time so far, summed over all threads.
pub(crate) fn cpu_nanoseconds() -> u64 {
    let time = clock_gettime(ClockId::ProcessCPUTime);
    let nanos = time.tv_sec * 1_000_000_000 + time.tv_nsec;
    u64::try_from(nanos).unwrap_or(0)
}

/// Returns the bytes that this process caused to be written to disk.
pub(crate) fn written_bytes() -> Result<u64> {
    field("/proc/self/io", "write_bytes:")
}

/// Returns the peak resident memory.
pub(crate) fn peak_kilobytes() -> Result<u64> {
    field("/proc/self/status", "VmHWM:")
}

fn field(file: &str, name: &str) -> Result<u64> {
    let text = fs::read_to_string(file)?;
    let value = text.lines().find_map(|line| line.strip_prefix(name));
    let number = value.and_then(|value| value.split_whitespace().next());
    Ok(number.ok_or_else(|| format!("{file}: expected {name}"))?.parse()?)
}
