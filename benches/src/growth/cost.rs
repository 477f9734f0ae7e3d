//! The cost of a process, as the kernel counts it.

use std::process::{Command, ExitStatus, Stdio};
use std::time::Instant;

use super::Result;

/// The cost of a whole process.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Cost {
    /// Processor time of all threads, in user and kernel mode, in milliseconds.
    pub processor_ms: f64,
    /// Elapsed time in milliseconds. Depends on other processes.
    pub clock_ms: f64,
    /// Peak resident memory in MiB.
    pub peak_mib: f64,
}

impl Cost {
    /// Returns the cost with the least processor time, and the larger peak memory.
    #[must_use]
    pub fn least(self, other: Self) -> Self {
        let least = if other.processor_ms < self.processor_ms { other } else { self };
        Self { peak_mib: self.peak_mib.max(other.peak_mib), ..least }
    }
}

/// Runs a command without input to its end and returns its cost.
///
/// # Errors
/// If the command cannot be started, or exits with a code other than 0 or, for a negative answer,
/// 1.
pub fn cost_of(command: &mut Command) -> Result<Cost> {
    let begun = Instant::now();
    command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::piped());
    let mut child = command.spawn().map_err(|error| format!("{command:?}: {error}"))?;
    let mut said = String::new();
    if let Some(mut stderr) = child.stderr.take() {
        std::io::Read::read_to_string(&mut stderr, &mut said)?;
    }
    let (status, usage) = wait_for(child.id())?;
    let clock_ms = begun.elapsed().as_secs_f64() * 1000.0;
    if !matches!(status.code(), Some(0 | 1)) {
        return Err(format!("{command:?} ended with {status}: {said}").into());
    }
    let milliseconds =
        |time: libc::timeval| time.tv_sec as f64 * 1000.0 + time.tv_usec as f64 / 1000.0;
    Ok(Cost {
        processor_ms: milliseconds(usage.ru_utime) + milliseconds(usage.ru_stime),
        clock_ms,
        peak_mib: usage.ru_maxrss as f64 / KILOBYTES_IN_MIB,
    })
}

/// The unit of the kernel's memory counter, as a fraction of a MiB.
const KILOBYTES_IN_MIB: f64 = if cfg!(target_os = "macos") { 1_048_576.0 } else { 1024.0 };

/// Waits for a child. Returns its exit status and its resource usage. No other code waits for the
/// child: a dropped handle of the standard library does not.
#[expect(unsafe_code, reason = "no safe wait returns the usage of the child; see SAFETY")]
fn wait_for(id: u32) -> Result<(ExitStatus, libc::rusage)> {
    let id = libc::pid_t::try_from(id)?;
    let mut status = 0;
    loop {
        // SAFETY: a zeroed usage is valid. The call writes only to the usage and the status, which
        // both outlive it.
        let (waited, usage) = unsafe {
            let mut usage: libc::rusage = std::mem::zeroed();
            (libc::wait4(id, &raw mut status, 0, &raw mut usage), usage)
        };
        if waited == id {
            return Ok((std::os::unix::process::ExitStatusExt::from_raw(status), usage));
        }
        let error = std::io::Error::last_os_error();
        if error.kind() != std::io::ErrorKind::Interrupted {
            return Err(format!("wait for process {id}: {error}").into());
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn shell(script: &str) -> Command {
        let mut command = Command::new("sh");
        command.args(["-c", script]);
        command
    }

    #[test]
    fn a_process_that_computes_costs_processor_time_and_one_that_waits_does_not() {
        let busy =
            cost_of(&mut shell("i=0; while [ $i -lt 200000 ]; do i=$((i+1)); done")).unwrap();
        let idle = cost_of(&mut shell("exit 1")).unwrap();
        assert!(busy.processor_ms > idle.processor_ms, "{busy:?} {idle:?}");
        assert!(idle.peak_mib > 0.1, "{idle:?}");
    }

    #[test]
    fn a_process_that_fails_is_told_with_what_it_said() {
        let error = cost_of(&mut shell("echo no room >&2; exit 70")).unwrap_err().to_string();
        assert!(error.contains("70") && error.contains("no room"), "{error}");
    }
}
