//! Ends a hook in time, whatever blocks it: a lock, a disk, a client that never closes its pipe.

use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

use super::{log, recording};
use crate::platform::apart;
use crate::program::itself;
use turntree::platform::canonical;
use turntree::repo::BranchName;
use turntree::workspace::Claim;

/// The current step of a hook, and its deadline.
#[derive(Debug, Clone)]
pub(super) struct Watch(Arc<Mutex<HookState>>);

#[derive(Debug)]
struct HookState {
    until: Instant,
    dialect: &'static str,
    event: &'static str,
    doing: &'static str,
    /// The store, once it is known.
    dir: Option<PathBuf>,
    /// The event for a background process, which has more time.
    rest: Option<Rest>,
    /// The answer to the client when the deadline passes.
    last_word: Option<String>,
}

/// The work that is left when the deadline passes.
#[derive(Debug, Clone)]
pub(super) struct Rest {
    /// The arguments of the background process.
    pub(super) arguments: Vec<String>,
    /// The event, without long fields.
    pub(super) event: Vec<u8>,
    /// The branch that the environment names for its turns.
    pub(super) onto: Option<BranchName>,
}

impl Watch {
    /// Ends this process after `time` with a successful exit code.
    pub(super) fn begin(time: Duration) -> Self {
        let (until, none) = (Instant::now() + time, "-");
        let (dialect, event, doing) = (none, none, "read the event");
        let state =
            HookState { until, dialect, event, doing, dir: None, rest: None, last_word: None };
        let watch = Self(Arc::new(Mutex::new(state)));
        let watched = watch.clone();
        thread::spawn(move || watched.wait());
        watch
    }

    fn wait(&self) {
        loop {
            let until = self.look(|state| state.until);
            match until.checked_duration_since(Instant::now()) {
                Some(left) if !left.is_zero() => thread::sleep(left),
                _ => break,
            }
        }
        self.note("took too long");
        self.hand_over();
        self.say_last_word();
        // The main thread may be blocked forever.
        std::process::exit(0);
    }

    /// Hands the remaining work to a background process. The lock is held during that, because the
    /// deadline may pass while one thread hands over: the process must not end before the
    /// background process has the event.
    pub(super) fn hand_over(&self) {
        self.look(|state| {
            if let (Some(rest), Some(dir)) = (state.rest.take(), &state.dir) {
                // If it fails, the next event imports the rest.
                let _ = go_on(&rest, dir);
            }
        });
    }

    /// Marks the work as done, and waits for a handover in progress.
    pub(super) fn end(&self) {
        self.look(|state| state.rest = None);
    }

    /// Sets the event and its deadline, once they are known.
    pub(super) fn expect(&self, dialect: &'static str, event: &'static str, until: Instant) {
        self.look(|state| {
            (state.dialect, state.event, state.until) = (dialect, event, until.max(state.until));
        });
    }

    /// Sets the store, and the work that a background process could do.
    pub(super) fn arm(&self, dir: &Path, rest: Option<Rest>) {
        self.look(|state| {
            state.dir = Some(dir.to_owned());
            state.rest = rest;
        });
    }

    /// Prints the answer for a process that ends before its work does.
    pub(super) fn say_last_word(&self) {
        if let Some(word) = self.look(|state| state.last_word.take()) {
            let _ = writeln!(std::io::stdout(), "{word}");
        }
    }

    /// Sets the answer for when the deadline passes.
    pub(super) fn say_at_end(&self, word: Option<String>) {
        self.look(|state| state.last_word = word);
    }

    /// Sets the current step, for the log.
    pub(super) fn doing(&self, doing: &'static str) {
        self.look(|state| state.doing = doing);
    }

    /// Writes to the log.
    pub(super) fn note(&self, what: &str) {
        let (dialect, event, doing, dir) =
            self.look(|state| (state.dialect, state.event, state.doing, state.dir.clone()));
        if let Some(dir) = dir {
            log::note(&dir, dialect, event, doing, what);
        }
    }

    fn look<T>(&self, look: impl FnOnce(&mut HookState) -> T) -> T {
        look(&mut self.0.lock().unwrap_or_else(PoisonError::into_inner))
    }
}

fn go_on(rest: &Rest, dir: &Path) -> std::io::Result<()> {
    let mut program = Command::new(itself::file().map_err(std::io::Error::other)?);
    program.arg("--store").arg(canonical(dir)?).args(&rest.arguments);
    program.stdin(Stdio::piped()).stdout(Stdio::null()).stderr(Stdio::null());
    let lock = rest.onto.as_ref().and_then(|branch| recording::hold(dir, branch));
    if let Some(lock) = lock.and_then(Claim::handed_over) {
        // The background process prints nothing, and holds the lock until it ends.
        program.stdout(lock);
    }
    let mut child = apart(&mut program).spawn()?;
    match child.stdin.take() {
        Some(mut stdin) => stdin.write_all(&rest.event),
        None => Ok(()),
    }
}
