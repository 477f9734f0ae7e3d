//! A command or a check as a process group of its own: its log, its deadline, and its end.

use std::fs::File;
use std::io::{self, Read, Seek, SeekFrom, Write};
use std::path::Path;
use std::process::{Command, ExitStatus, Stdio};
use std::time::{Duration, Instant};

use turntree::repo::TrialEnd;

use crate::platform::{apart, end_group, is_group_running};

/// The time between the request to end and the forced end.
const GRACE: Duration = Duration::from_secs(5);

/// The time that what a command left running has to end by itself, such as a hook that records the last
/// turn.
const LEFT_RUNNING: Duration = Duration::from_secs(3);

/// The longest wait for hooks that record the last turns of a command: they wait until its transcript
/// has not grown for a second.
pub(super) const FOR_HOOKS: Duration = Duration::from_secs(10);

/// The bytes at the end of the output of a check that may contain its score.
const TAIL: u64 = 4 << 10;

/// A running process group.
#[derive(Debug)]
pub(super) struct Child {
    process: std::process::Child,
    deadline: Option<Instant>,
    /// Why and when it was asked to end.
    asked: Option<(TrialEnd, Instant)>,
    /// The status of the command, and when it had ended.
    status: Option<(ExitStatus, Instant)>,
}

impl Child {
    /// Starts a command apart from this process. `timeout` is its longest time.
    pub(super) fn start(command: &mut Command, timeout: Option<Duration>) -> io::Result<Self> {
        let process = apart(command).spawn()?;
        let deadline = timeout.and_then(|timeout| Instant::now().checked_add(timeout));
        Ok(Self { process, deadline, asked: None, status: None })
    }

    /// Returns the end of the command if it has ended, and ends what it left running. Waits for hooks
    /// that still record what it did.
    pub(super) fn poll(&mut self, is_recording: &dyn Fn() -> bool) -> io::Result<Option<TrialEnd>> {
        let now = Instant::now();
        if self.status.is_none() {
            self.status = self.process.try_wait()?.map(|status| (status, now));
        }
        if let Some((status, since)) = self.status {
            let time = now.duration_since(since);
            if is_group_running(&self.process) {
                if self.asked.is_none() && time < LEFT_RUNNING {
                    return Ok(None);
                }
                end_group(&mut self.process, true);
            }
            if time < FOR_HOOKS && is_recording() {
                return Ok(None);
            }
            let own = status.code().map_or(TrialEnd::Signal, TrialEnd::Exit);
            return Ok(Some(self.asked.map_or(own, |(why, _)| why)));
        }
        match self.asked {
            None if self.deadline.is_some_and(|deadline| now >= deadline) => {
                self.end(TrialEnd::Timeout);
            }
            Some((_, asked)) if now.duration_since(asked) >= GRACE => {
                end_group(&mut self.process, true);
            }
            _ => {}
        }
        Ok(None)
    }

    /// Asks the group to end; after some seconds it is forced to.
    pub(super) fn end(&mut self, why: TrialEnd) {
        if self.asked.is_none() {
            self.asked = Some((why, Instant::now()));
            end_group(&mut self.process, false);
        }
    }
}

impl Drop for Child {
    fn drop(&mut self) {
        // Whatever ends this process in order leaves no command behind.
        if self.status.is_none() || is_group_running(&self.process) {
            end_group(&mut self.process, true);
            let _ = self.process.wait();
        }
    }
}

/// Sends the output of a command to the end of the log at `path`.
pub(super) fn log_to(command: &mut Command, path: &Path) -> io::Result<()> {
    let log = File::options().create(true).append(true).open(path)?;
    command.stderr(Stdio::from(log.try_clone()?)).stdout(Stdio::from(log));
    Ok(())
}

/// The output of a check, which is also added to the log when it has ended.
#[derive(Debug)]
pub(super) struct CheckOutput(File);

impl CheckOutput {
    /// Sends the output of `command` here.
    pub(super) fn of(command: &mut Command) -> io::Result<Self> {
        let file = tempfile::tempfile()?;
        command.stdout(Stdio::from(file.try_clone()?));
        Ok(Self(file))
    }

    /// Returns the number in the last line that has any text, and adds the output to the log.
    pub(super) fn score(mut self, log: &Path) -> io::Result<Option<f64>> {
        self.0.seek(SeekFrom::Start(0))?;
        let mut log = File::options().create(true).append(true).open(log)?;
        let length = io::copy(&mut self.0, &mut log)?;
        log.flush()?;
        self.0.seek(SeekFrom::Start(length.saturating_sub(TAIL)))?;
        let mut tail = Vec::new();
        self.0.take(TAIL).read_to_end(&mut tail)?;
        Ok(number_at_end(&String::from_utf8_lossy(&tail)))
    }
}

/// The number that the last line with text is, or ends with.
fn number_at_end(text: &str) -> Option<f64> {
    let line = text.lines().rev().map(str::trim).find(|line| !line.is_empty())?;
    let word = line.rsplit([' ', '\t', '=', ':']).next()?;
    word.parse::<f64>().ok().filter(|number| number.is_finite())
}

#[cfg(test)]
mod tests {
    use super::number_at_end;

    #[test]
    fn a_score_is_the_number_that_the_last_line_ends_with() {
        for (text, score) in [
            ("12", Some(12.0)),
            ("ran 3 tests\nscore: 0.75\n\n", Some(0.75)),
            ("score=-2e3", Some(-2000.0)),
            ("3 passed", None),
            ("0.5\nall well", None),
            ("NaN", None),
            ("inf", None),
            ("", None),
        ] {
            assert_eq!(number_at_end(text), score, "{text}");
        }
    }
}
