//! Runs a command in a directory; signals end the command and then this process in order.

use std::ffi::OsString;
use std::io;
use std::path::Path;
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::atomic::{AtomicI32, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread::JoinHandle;

use rustix::process::{Pid, Signal, kill_process};
use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM};
use signal_hook::iterator::{Handle, Signals};
use turntree::Error;

use crate::view::error::Result;

/// Signals that ask this process to end, which are passed on to the running command.
#[derive(Debug)]
pub(crate) struct Interrupts {
    caught: Arc<AtomicI32>,
    running: Arc<Mutex<Option<Pid>>>,
    handle: Handle,
    thread: Option<JoinHandle<()>>,
}

impl Interrupts {
    /// Keeps signals from ending this process, until this is dropped.
    pub(crate) fn catch() -> Result<Self> {
        let failed = |error| Error::io("watch for signals", error);
        let mut signals = Signals::new([SIGINT, SIGTERM, SIGHUP]).map_err(failed)?;
        let (caught, running) = (Arc::new(AtomicI32::new(0)), Arc::new(Mutex::new(None)));
        let handle = signals.handle();
        let (seen, child) = (Arc::clone(&caught), Arc::clone(&running));
        let thread = std::thread::spawn(move || {
            for signal in signals.forever() {
                seen.store(signal, Ordering::SeqCst);
                pass_on(*lock(&child), signal);
            }
        });
        Ok(Self { caught, running, handle, thread: Some(thread) })
    }

    /// The caught signal, if any.
    pub(crate) fn caught(&self) -> Option<i32> {
        Some(self.caught.load(Ordering::SeqCst)).filter(|signal| *signal != 0)
    }

    /// Runs `command` in `dir`. Its output goes to stderr; its input is empty.
    pub(crate) fn run(
        &self,
        command: &[OsString],
        dir: &Path,
        variables: &[(&str, OsString)],
    ) -> Result<ExitStatus> {
        let mut words = command.iter();
        let program = words.next().cloned().unwrap_or_default();
        let mut trial = Command::new(&program);
        trial.args(words).current_dir(dir).envs(variables.iter().cloned());
        trial.stdin(Stdio::null()).stdout(io::stderr());
        let failed = |error: io::Error| {
            let program = program.to_string_lossy().into_owned();
            Error::invalid(format!("'{program}' cannot be run")).with_source(error)
        };
        let mut child = trial.spawn().map_err(failed)?;
        self.watch(Some(&child));
        if let Some(signal) = self.caught() {
            // The signal arrived before the command was registered to receive it.
            pass_on(*lock(&self.running), signal);
        }
        let ended = child.wait();
        self.watch(None);
        Ok(ended.map_err(failed)?)
    }

    fn watch(&self, child: Option<&Child>) {
        let pid = child.and_then(|child| i32::try_from(child.id()).ok()).and_then(Pid::from_raw);
        *lock(&self.running) = pid;
    }
}

fn pass_on(pid: Option<Pid>, signal: i32) {
    if let (Some(pid), Some(signal)) = (pid, Signal::from_named_raw(signal)) {
        // The process may have ended already.
        let _ = kill_process(pid, signal);
    }
}

fn lock(running: &Mutex<Option<Pid>>) -> MutexGuard<'_, Option<Pid>> {
    running.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Drop for Interrupts {
    fn drop(&mut self) {
        self.handle.close();
        if let Some(thread) = self.thread.take() {
            // The thread only passes signals on.
            let _ = thread.join();
        }
    }
}

/// Ends this process as `signal` would have.
pub(crate) fn end_by(signal: i32) -> io::Result<()> {
    signal_hook::low_level::emulate_default_handler(signal)
}
