//! Processes that a layer starts: they are killed, stopped and waited for, and never left behind.

use std::io::Read as _;
use std::path::Path;
use std::process::{Child, Command, ExitStatus, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, WaitId, WaitIdOptions, kill_process, waitid};

use super::Effort;

/// The timeout of a process that is neither killed nor stopped: three times the lock timeout, so
/// that a slow process on a busy machine does not count as a hang.
pub const PATIENCE: Duration = Duration::from_secs(30);

/// How often a process is polled.
const PAUSE: Duration = Duration::from_micros(500);

/// A process that is killed when this is dropped.
#[derive(Debug)]
pub struct Started {
    /// The description.
    pub what: String,
    /// When it was started.
    pub since: Instant,
    child: Child,
    status: Option<ExitStatus>,
}

/// A process that has ended.
#[derive(Debug)]
pub struct Ended {
    /// The description.
    pub what: String,
    /// The exit status.
    pub status: ExitStatus,
    /// The output.
    pub stdout: Vec<u8>,
    /// The error output.
    pub stderr: String,
    /// How long it ran.
    pub took: Duration,
}

impl Started {
    /// Starts a process. Its output must fit into a pipe unless it is redirected.
    ///
    /// # Panics
    /// If the process cannot be started.
    #[must_use]
    pub fn new(what: impl Into<String>, command: &mut Command) -> Self {
        let what = what.into();
        command.stdout(Stdio::piped()).stderr(Stdio::piped());
        let child = command.spawn().unwrap_or_else(|error| panic!("start {what}: {error}"));
        Self { what, since: Instant::now(), child, status: None }
    }

    /// The process id.
    ///
    /// # Panics
    /// Never: processes have ids.
    #[must_use]
    pub fn pid(&self) -> Pid {
        Pid::from_child(&self.child)
    }

    /// True if it has ended.
    ///
    /// # Panics
    /// If the system does not report it.
    pub fn has_ended(&mut self) -> bool {
        self.status =
            self.status.or_else(|| self.child.try_wait().expect("a child can be waited for"));
        self.status.is_some()
    }

    /// Sends it a signal, if it has not ended yet.
    ///
    /// # Panics
    /// If the system refuses the signal.
    pub fn signal(&mut self, signal: Signal) {
        if !self.has_ended() {
            kill_process(self.pid(), signal).expect("a child takes signals");
        }
    }

    /// Waits until it has stopped itself or ended. Returns true if it has stopped.
    ///
    /// # Panics
    /// If that takes too long.
    pub fn wait_until_stopped(&mut self) -> bool {
        // Does not reap it: `has_ended` still needs its exit status.
        let options = WaitIdOptions::STOPPED
            | WaitIdOptions::EXITED
            | WaitIdOptions::NOHANG
            | WaitIdOptions::NOWAIT;
        loop {
            let status =
                waitid(WaitId::Pid(self.pid()), options).expect("a child can be waited for");
            if let Some(status) = status {
                return status.stopped();
            }
            assert!(self.since.elapsed() < PATIENCE, "{} neither stopped nor ended", self.what);
            thread::sleep(PAUSE);
        }
    }

    /// Waits until it ends, and collects its output.
    ///
    /// # Panics
    /// If that takes longer than the timeout.
    #[must_use]
    pub fn end(mut self) -> Ended {
        let began = Instant::now();
        while !self.has_ended() {
            assert!(began.elapsed() < PATIENCE, "{} does not end within {PATIENCE:?}", self.what);
            thread::sleep(PAUSE);
        }
        let took = self.since.elapsed();
        let (mut stdout, mut stderr) = (Vec::new(), Vec::new());
        if let Some(mut pipe) = self.child.stdout.take() {
            pipe.read_to_end(&mut stdout).expect("what it printed");
        }
        if let Some(mut pipe) = self.child.stderr.take() {
            pipe.read_to_end(&mut stderr).expect("its error output");
        }
        let status = self.status.expect("it has ended");
        let stderr = String::from_utf8_lossy(&stderr).into_owned();
        Ended { what: std::mem::take(&mut self.what), status, stdout, stderr, took }
    }
}

impl Drop for Started {
    fn drop(&mut self) {
        if !self.has_ended() {
            let _ = self.child.kill();
            let _ = self.child.wait();
        }
    }
}

impl Ended {
    /// The exit code. `None` if a signal ended it.
    #[must_use]
    pub fn code(&self) -> Option<i32> {
        self.status.code()
    }

    /// A report of its status and output.
    #[must_use]
    pub fn report(&self) -> String {
        let stdout = String::from_utf8_lossy(self.stdout.get(..2000).unwrap_or(&self.stdout));
        let Self { what, status, stderr, took, .. } = self;
        format!("{what} ended with {status} after {took:.1?}\n{stdout}\n{stderr}")
    }

    /// A field of the flat record in its output.
    #[must_use]
    pub fn field(&self, name: &str) -> String {
        field(&String::from_utf8_lossy(&self.stdout), name).to_owned()
    }

    /// Asserts that it ended with one of these exit codes. Returns itself.
    ///
    /// # Panics
    /// If the exit code is a different one.
    #[track_caller]
    pub fn expect(self, codes: &[i32]) -> Self {
        let expected = self.code().is_some_and(|code| codes.contains(&code));
        assert!(expected, "expected {codes:?}: {}", self.report());
        self
    }
}

/// A text field of a flat record from the program. Empty if the field is missing.
#[must_use]
pub fn field<'r>(record: &'r str, name: &str) -> &'r str {
    let after = record.split_once(&format!("\"{name}\":\""));
    after.and_then(|(_, rest)| rest.split('"').next()).unwrap_or_default()
}

/// A run of the program on a store, in a fixed environment.
#[must_use]
pub fn turntree(effort: &Effort, store: &Path, arguments: &[&str]) -> Command {
    let mut command = Command::new(&effort.programs.turntree);
    settle(command.arg("--store").arg(store).args(arguments));
    command
}

/// A worker, see [`super::worker`].
#[must_use]
pub fn worker(effort: &Effort, store: &Path, job: &str, arguments: &[&str]) -> Command {
    let mut command = Command::new(&effort.programs.prove);
    settle(command.args([super::worker::WORKER, job]).arg(store).args(arguments));
    command
}

fn settle(command: &mut Command) {
    command.stdin(Stdio::null());
    command.env("TURNTREE_ACTOR", "ann").env("TURNTREE_MAINTENANCE", "off");
    for name in ["TURNTREE_STORE", "TURNTREE_NOW"] {
        command.env_remove(name);
    }
}
