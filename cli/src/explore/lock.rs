//! Locks of an exploration: one process drives it, and its commands are known to have ended.

use std::fs::File;
use std::process::Stdio;
use std::thread::sleep;
use std::time::{Duration, Instant};

use turntree::repo::{Exploration, Repository};
use turntree::workspace::Claim;
use turntree::{Error, ErrorKind};

use crate::platform::lock_as_input;
use crate::porcelain::read::explorations::driver_name;
use crate::view::error::{Failure, Result};
use crate::view::output::note;

/// How long a driver waits for a process that only looks whether the exploration is driven.
const FOR_LOOKERS: Duration = Duration::from_millis(200);

/// The interval between two attempts.
const STEP: Duration = Duration::from_millis(10);

/// The right to drive an exploration. The system returns it when this process ends.
#[derive(Debug)]
pub(crate) struct DriverLock {
    _driver: Claim,
    /// Shared with the commands as their input: it stays locked until the last of them has ended,
    /// also after a kill of this process.
    commands: File,
    _commands: Claim,
}

impl DriverLock {
    /// Takes the right, and waits for commands that a killed driver left behind, until `stop`.
    ///
    /// # Errors
    /// `Locked` if another process drives the exploration.
    pub(crate) fn take(
        repo: &Repository,
        exploration: &Exploration,
        stop: &dyn Fn() -> bool,
    ) -> Result<Self> {
        let name = driver_name(exploration);
        let until = Instant::now() + FOR_LOOKERS;
        let driver = loop {
            match Claim::ask(repo.dir(), &name)? {
                Some(claim) => break claim,
                None if Instant::now() >= until => {
                    let busy = format!("exploration {} is running", exploration.name);
                    let error = Error::new(ErrorKind::Locked, busy);
                    return Err(Failure::hinted(error, "'turntree explore status' shows it"));
                }
                None => sleep(STEP),
            }
        };
        let name = format!("commands of {name}");
        let mut noted = false;
        let claim = loop {
            if let Some(claim) = Claim::ask(repo.dir(), &name)? {
                break claim;
            }
            if stop() {
                let error = "commands of an earlier run have not ended";
                return Err(Error::new(ErrorKind::Locked, error).into());
            }
            if !noted {
                note("waits for commands of an earlier run that have not ended");
                noted = true;
            }
            sleep(STEP);
        };
        let commands = claim.shared()?;
        Ok(Self { _driver: driver, commands, _commands: claim })
    }

    /// The input of a command: empty, and it holds the lock.
    pub(super) fn input(&self) -> std::io::Result<Stdio> {
        lock_as_input(&self.commands)
    }
}
