//! Explorations that a client of the server starts: with the command of the server's options, one
//! at a time, and not longer than the server runs.

use std::ffi::OsString;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use turntree::repo::{Exploration, HEAD, Repository, SearchKind};
use turntree::{Error, ErrorKind};

use crate::explore::{LimitOptions, PlanOptions, begin};
use crate::platform::{apart, end_group};
use crate::program::itself;
use crate::view::advice::Advice;
use crate::view::error::{Failure, Result};

/// Set for the commands of an exploration.
const INSIDE: &str = "TURNTREE_EXPLORATION";

/// The longest time of a command or a check, if the options name none.
const TIMEOUT: Duration = Duration::from_secs(60 * 60);

/// How a server explores, if at all. The client chooses names and prompts of strategies, never the
/// command or the check, because these run with the rights of the user.
#[derive(Debug, Clone, Default, clap::Args)]
pub(crate) struct ExploringOptions {
    /// A line for the shell that checks a strategy of explore_start
    #[arg(long, value_name = "LINE", requires = "command", hide_short_help = true)]
    check: Option<String>,
    #[command(flatten)]
    limits: LimitOptions,
    /// Offer explore_start, which runs this command for each strategy, as 'turntree explore' does
    #[arg(last = true, value_name = "COMMAND", conflicts_with = "read_only")]
    command: Vec<OsString>,
}

/// The explorations of a server.
#[derive(Debug)]
pub(super) struct Exploring {
    check: Option<String>,
    limits: LimitOptions,
    command: Vec<OsString>,
    /// The process that drives the newest exploration.
    driver: Mutex<Option<Child>>,
}

impl Exploring {
    /// `None` if the options have no command.
    pub(super) fn new(options: &ExploringOptions) -> Option<Self> {
        let ExploringOptions { check, limits, command } = options.clone();
        let driver = Mutex::default();
        (!command.is_empty()).then_some(Self { check, limits, command, driver })
    }

    /// Records an exploration of `strategies`, and starts the process that drives it.
    ///
    /// # Errors
    /// `Locked` if the one before still runs, `Unsupported` inside of an exploration, and those of
    /// [`begin`].
    pub(super) fn start(
        &self,
        repo: &Repository,
        strategies: &[(String, String)],
        (from, name): (Option<&str>, Option<&str>),
        directory: Option<&Path>,
    ) -> Result<Exploration> {
        if std::env::var_os(INSIDE).is_some() {
            let message =
                "this server runs in a strategy of an exploration, and starts no other one";
            return Err(Error::new(ErrorKind::Unsupported, message).into());
        }
        let mut driver = self.driver();
        if let Some(before) = &mut *driver {
            let ended =
                before.try_wait().map_err(|error| Error::io("wait for a process", error))?;
            if ended.is_none() {
                let error = Error::new(ErrorKind::Locked, "an exploration is running");
                return Err(Failure::hinted(error, Advice::calls("explore_status shows it")));
            }
        }
        let mut overrides = self.limits.overrides();
        overrides.timeout.get_or_insert(TIMEOUT);
        let exploration = begin(
            repo,
            &PlanOptions {
                name,
                from: from.unwrap_or(HEAD),
                strategies,
                file: None,
                check: self.check.as_deref(),
                search: SearchKind::BestOf,
                rounds: None,
                width: None,
                folder: None,
                command: &self.command,
                overrides,
            },
        )?;
        let mut command = Command::new(itself::file()?);
        command.args(["explore", "continue"]);
        command.arg(format!("{}/{}", exploration.session, exploration.name));
        command.arg("--store").arg(repo.dir());
        if let Some(directory) = directory {
            command.current_dir(directory);
        }
        command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
        let started = apart(&mut command).spawn();
        *driver = Some(started.map_err(|error| Error::io("start the exploration", error))?);
        Ok(exploration)
    }

    /// Asks a running exploration to end. It ends its commands, and can be continued.
    pub(super) fn end(&self) {
        if let Some(driver) = &mut *self.driver()
            && matches!(driver.try_wait(), Ok(None))
        {
            end_group(driver, false);
        }
    }

    fn driver(&self) -> MutexGuard<'_, Option<Child>> {
        self.driver.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
