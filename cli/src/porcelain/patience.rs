//! Waiting for maintenance that goes on in the background.

use std::thread::sleep;
use std::time::{Duration, Instant};

use anstyle::Style;
use clap::Args;
use turntree::repo::Repository;
use turntree::{ErrorKind, Result};

use crate::view::output::stderr_line;

/// The time for a process that has given a lock back to give back its files, too.
const TO_END: Duration = Duration::from_secs(2);

/// The time between two looks at that.
const STEP: Duration = Duration::from_millis(20);

/// Whether a command waits for the maintenance of another process.
#[derive(Debug, Clone, Copy, Args)]
pub(crate) struct Patience {
    /// Fail with exit code 5 while other maintenance goes on, instead of waiting for it
    #[arg(long)]
    no_wait: bool,
}

impl Patience {
    /// Makes the maintenance of `repo` wait for that of others, unless it was told not to.
    pub(crate) fn apply(self, repo: &Repository) {
        if !self.no_wait {
            repo.store().wait_for_collections(notice);
        }
    }

    /// Does `work`, again for a moment while somebody holds files of the store: maintenance that has
    /// ended gives them back with its process.
    ///
    /// # Errors
    /// Those of the work.
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
