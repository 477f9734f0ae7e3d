//! Waits for maintenance in another process.

use std::thread::sleep;
use std::time::{Duration, Instant};

use anstyle::Style;
use clap::Args;
use turntree::repo::Repository;
use turntree::{ErrorKind, Result};

use crate::view::output::stderr_line;

/// How long a process may take to release its files after it has released a lock.
const TO_END: Duration = Duration::from_secs(2);

/// The interval between two attempts.
const STEP: Duration = Duration::from_millis(20);

/// Whether a command waits for maintenance in another process.
#[derive(Debug, Clone, Copy, Args)]
pub(crate) struct Patience {
    /// Fail with exit code 5 while other maintenance is running, instead of waiting for it
    #[arg(long)]
    no_wait: bool,
}

impl Patience {
    /// Makes maintenance of `repo` wait for other maintenance, unless `--no-wait` is given.
    pub(crate) fn apply(self, repo: &Repository) {
        if !self.no_wait {
            repo.store().wait_for_collections(notice);
        }
    }

    /// Runs `work`, and repeats it for a moment while another process holds files of the store: a
    /// maintenance process releases its files only when it exits.
    ///
    /// # Errors
    /// The errors of `work`.
    pub(crate) fn again<T>(self, mut work: impl FnMut() -> Result<T>) -> Result<T> {
        let began = Instant::now();
        loop {
            match work() {
                Err(error)
                    if error.kind() == ErrorKind::Locked
                        && !self.no_wait
                        && began.elapsed() < TO_END =>
                {
                    sleep(STEP);
                }
                done => return done,
            }
        }
    }
}

fn notice() {
    let text = "waiting for maintenance in the background (--no-wait skips the wait)";
    stderr_line(Style::new(), "", text);
}
