//! Time and memory of this process, from the system.

use std::fs;

use rustix::time::{ClockId, clock_gettime};

use crate::Result;

/// Processor time so far, of all threads.
pub(crate) fn cpu_nanoseconds() -> u64 {
    let time = clock_gettime(ClockId::ProcessCPUTime);
    let nanos = time.tv_sec * 1_000_000_000 + time.tv_nsec;
    u64::try_from(nanos).unwrap_or(0)
}

/// Bytes this process has caused to be written to the disk.
pub(crate) fn written_bytes() -> Result<u64> {
    field("/proc/self/io", "write_bytes:")
}

/// The most memory that was resident.
pub(crate) fn peak_kilobytes() -> Result<u64> {
    field("/proc/self/status", "VmHWM:")
}

fn field(file: &str, name: &str) -> Result<u64> {
    let text = fs::read_to_string(file)?;
    let value = text.lines().find_map(|line| line.strip_prefix(name));
    let number = value.and_then(|value| value.split_whitespace().next());
    Ok(number.ok_or_else(|| format!("{file}: expected {name}"))?.parse()?)
}
