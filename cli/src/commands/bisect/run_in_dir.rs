//! Runs a command in a directory; signals end the command and then this process in order.

use std::ffi::OsString;
use std::io;
use std::path::Path;
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::atomic::{AtomicI32, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use turntree::Error;

use crate::platform::{SignalWatch, pass_on};
use crate::view::error::Result;

pub(crate) use crate::platform::end_by;

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
        let (caught, running) = (Arc::new(AtomicI32::new(0)), Arc::new(Mutex::new(None)));
        let (seen, child) = (Arc::clone(&caught), Arc::clone(&running));
        let watch = SignalWatch::begin(move |signal| {
            seen.store(signal, Ordering::SeqCst);
            pass_on_to(*lock(&child), signal);
        });
        let watch = watch.map_err(|error| Error::io("watch for signals", error))?;
        Ok(Self { caught, running, _watch: watch })
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
