//! Without a command: shows the status and the newest sessions or turns, otherwise the short help.

use std::io::Write;

use clap::Parser;

use super::sessions::ListSessions;
use super::status::Status;
use super::{Command, Verb};
use crate::args::{Cli, command};
use crate::program::invocation::{Invocation, is_absent};
use crate::view::error::{Answer, Result};
use crate::view::output::FAINT;

/// The newest turns, shown below the status.
const NEWEST: [&str; 5] = ["turntree", "log", "--oneline", "-n", "5"];

/// Runs when no command is given.
pub(crate) struct Bare;

impl Verb for Bare {
    fn reads_only(&self) -> bool {
        true
    }

    fn run(&self, run: &mut Invocation) -> Result<Answer> {
        if is_absent(&run.locate()?.dir)? {
            write!(run.out, "{}", command().render_help())?;
            return Ok(Answer::Yes);
        }
        let repo = run.open()?;
        if repo.head_if_any()?.is_none() {
            ListSessions::newest().write(run, &repo)?;
            return help(run);
        }
        Status {}.run(run)?;
        let has_turns = repo.head()?.commit.is_some();
        if let Some(Command::Log(log)) =
            Cli::parse_from(NEWEST).command.filter(|_| has_turns && !run.out.json)
        {
            writeln!(run.out)?;
            log.run(run)?;
        }
        help(run)
    }
}

/// Points to the list of commands.
fn help(run: &mut Invocation) -> Result<Answer> {
    if !run.out.json {
        let help = run.out.paint.paint(FAINT, "'turntree -h' lists the commands");
        writeln!(run.out, "\n{help}")?;
    }
    Ok(Answer::Yes)
}
