//! Runs a command; signals end the command and then this process in order.

use std::io::{self, IsTerminal};
use std::process::{Child, Command, ExitStatus};
use std::sync::atomic::{AtomicI32, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use signal_hook::consts::SIGINT;
use turntree::Error;

use crate::platform::{SignalWatch, pass_on};
use crate::view::error::Result;

/// Signals that ask this process to end, which are passed on to the running command.
#[derive(Debug)]
pub(crate) struct Interrupts {
    caught: Arc<AtomicI32>,
    running: Arc<Mutex<Option<u32>>>,
    _watch: SignalWatch,
}

impl Interrupts {
    /// Keeps signals from ending this process, until this is dropped.
    pub(crate) fn catch() -> Result<Self> {
        Self::catch_and_pass_on(|_| true)
    }

    /// As [`Self::catch`], for a command that uses the terminal: Ctrl-C reaches it from there, and
    /// it may go on.
    pub(crate) fn catch_beside_terminal() -> Result<Self> {
        let is_terminal = io::stdin().is_terminal();
        Self::catch_and_pass_on(move |signal| signal != SIGINT || !is_terminal)
    }

    fn catch_and_pass_on(passes: impl Fn(i32) -> bool + Send + 'static) -> Result<Self> {
        let (caught, running) = (Arc::new(AtomicI32::new(0)), Arc::new(Mutex::new(None)));
        let (seen, child) = (Arc::clone(&caught), Arc::clone(&running));
        let watch = SignalWatch::begin(move |signal| {
            seen.store(signal, Ordering::SeqCst);
            if passes(signal) {
                pass_on_to(*lock(&child), signal);
            }
        });
        let watch = watch.map_err(|error| Error::io("watch for signals", error))?;
        Ok(Self { caught, running, _watch: watch })
    }

    /// The caught signal, if any.
    pub(crate) fn caught(&self) -> Option<i32> {
        Some(self.caught.load(Ordering::SeqCst)).filter(|signal| *signal != 0)
    }

    /// Runs a command to its end.
    ///
    /// # Errors
    /// `InvalidInput` if the system does not run it.
    pub(crate) fn run(&self, command: &mut Command) -> Result<ExitStatus> {
        let program = command.get_program().to_string_lossy().into_owned();
        let failed = |error: io::Error| {
            Error::invalid(format!("'{program}' cannot be run")).with_source(error)
        };
        let mut child = command.spawn().map_err(failed)?;
        self.watch(Some(&child));
        if let Some(signal) = self.caught() {
            // The signal arrived before the command was registered to receive it.
            pass_on_to(*lock(&self.running), signal);
        }
        let ended = child.wait();
        self.watch(None);
        Ok(ended.map_err(failed)?)
    }

    fn watch(&self, child: Option<&Child>) {
        *lock(&self.running) = child.map(Child::id);
    }
}

fn pass_on_to(child: Option<u32>, signal: i32) {
    if let Some(child) = child {
        pass_on(child, signal);
    }
}

fn lock(running: &Mutex<Option<u32>>) -> MutexGuard<'_, Option<u32>> {
    running.lock().unwrap_or_else(PoisonError::into_inner)
}
