//! `hook install git` and `hook uninstall git`: the line in a git hook that adds the turn to commit
//! messages.

use std::io::Write;
use std::path::PathBuf;

use clap::Args;
use turntree::ErrorKind;

use super::{working_directory, write_difference};
use crate::hook::git::{ScriptPlan, take_message};
use crate::program::invocation::Invocation;
use crate::view::error::{Answer, Hint, Result};
use crate::view::json;
use crate::view::output::NAME;

/// Add the turn to a commit message; called by git
#[derive(Debug, Args)]
#[command(hide = true)]
pub(crate) struct GitMessage {
    /// The file with the message
    #[arg(value_name = "FILE")]
    message: PathBuf,
}

impl GitMessage {
    pub(crate) fn run(&self, run: &mut Invocation) -> Answer {
        take_message(run, &self.message);
        Answer::Yes
    }
}

/// Adds the line that runs `command` to the script, or removes it without a command.
pub(super) fn set_up(run: &mut Invocation, command: Option<&str>, dry_run: bool) -> Result<()> {
    let plan = ScriptPlan::new(&working_directory()?, command)?;
    if !dry_run && !plan.is_done() {
        plan.apply().hint(ErrorKind::Conflict, "try again")?;
    }
    if run.out.json {
        run.out.record(&json::HookSettings {
            client: "git",
            path: plan.path.display().to_string(),
            changed: !plan.is_done(),
            dry_run,
            next_steps: &[],
        })?;
        return Ok(());
    }
    let path = plan.path.display();
    if plan.is_done() {
        writeln!(run.out, "{} is up to date", run.out.paint.paint(NAME, path))?;
    } else if dry_run {
        write_difference(run, &plan.path, plan.before.as_deref(), plan.after.as_deref())?;
    } else {
        let done = if command.is_some() { "installed" } else { "uninstalled" };
        writeln!(run.out, "{done}: {}", run.out.paint.paint(NAME, path))?;
    }
    Ok(())
}
