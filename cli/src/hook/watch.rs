//! A hook ends in time, whatever it waits for: a lock, a disk, a client that never closes its pipe.

use std::io::Write;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

use super::log;
use crate::program::itself;

/// The work of a hook, and its time limit.
#[derive(Debug, Clone)]
pub(super) struct Watch(Arc<Mutex<HookState>>);

#[derive(Debug)]
struct HookState {
    until: Instant,
    dialect: &'static str,
    event: &'static str,
    doing: &'static str,
    /// The store, when it is known.
    dir: Option<PathBuf>,
    /// The event, for a process that has more time.
    rest: Option<Rest>,
    /// What the client is told when the time is up.
    last_word: Option<String>,
}

/// The work that is left when the time is up.
#[derive(Debug, Clone)]
pub(super) struct Rest {
    /// The arguments for it.
    pub(super) arguments: Vec<String>,
    /// The event, without what is long.
    pub(super) event: Vec<u8>,
}

impl Watch {
    /// Ends this process after `time`, as if all were well.
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
        // The main thread waits for something that may never come.
        std::process::exit(0);
    }

    /// Gives the rest to a process that nobody waits for. Whoever looks meanwhile waits: one thread may be
    /// done when the time of the other is up, and its process must not end before that one has the event.
    pub(super) fn hand_over(&self) {
        self.look(|state| {
            if let (Some(rest), Some(dir)) = (state.rest.take(), &state.dir) {
                // The next event takes in what this one could not.
                let _ = go_on(&rest, dir);
            }
        });
    }

    /// Says that all is done, and waits for a process that is being given the rest.
    pub(super) fn end(&self) {
        self.look(|state| state.rest = None);
    }

    /// The event is known now, and takes so long at most since the beginning.
    pub(super) fn expect(&self, dialect: &'static str, event: &'static str, until: Instant) {
        self.look(|state| {
            (state.dialect, state.event, state.until) = (dialect, event, until.max(state.until));
        });
    }

    /// The store is known now, and what another process could do.
    pub(super) fn arm(&self, dir: &Path, rest: Option<Rest>) {
        self.look(|state| {
            state.dir = Some(dir.to_owned());
            state.rest = rest;
        });
    }

    /// Tells the client what it is told when this process ends before its work does.
    pub(super) fn say_last_word(&self) {
        if let Some(word) = self.look(|state| state.last_word.take()) {
            let _ = writeln!(std::io::stdout(), "{word}");
        }
    }

    /// The client is told this when the time is up.
    pub(super) fn say_at_end(&self, word: Option<String>) {
        self.look(|state| state.last_word = word);
    }

    /// Says what is done from now on.
    pub(super) fn doing(&self, doing: &'static str) {
        self.look(|state| state.doing = doing);
    }

    /// Writes into the log what came of it.
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
    program.arg("--store").arg(dir.canonicalize()?).args(&rest.arguments);
    program.stdin(Stdio::piped()).stdout(Stdio::null()).stderr(Stdio::null());
    let mut child = program.process_group(0).spawn()?;
    match child.stdin.take() {
        Some(mut stdin) => stdin.write_all(&rest.event),
        None => Ok(()),
    }
}
