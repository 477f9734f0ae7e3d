//! `ui`: all sessions in the terminal, to look at, go on from and take back.

use clap::Args;
use clap_complete::ArgValueCandidates;

use super::Verb;
use crate::program::complete::sessions;
use crate::program::invocation::Invocation;
use crate::view::error::{Answer, Result};

/// Look at all sessions in the terminal, and go on from any turn
///
/// Lists of sessions, prompts, strategies, hits and operations, with what was said beside them: enter
/// opens, escape goes back, ? shows the keys. What agents commit meanwhile appears by itself. It changes
/// the store only by f, which forks, by u, which shows the plan of an undo and waits for a yes, and by
/// r, which shows what 'turntree resume' would write and runs it at a second r.
#[derive(Debug, Args)]
#[command(after_long_help = "Examples:
  turntree ui                    # all sessions
  turntree ui parser-fix         # this session
  ssh -t HOST turntree ui        # those of another machine")]
pub(crate) struct Ui {
    /// The session that is shown first; a list of all by default
    #[arg(value_name = "SESSION", add = ArgValueCandidates::new(sessions))]
    session: Option<String>,
}

#[cfg(feature = "ui")]
impl Verb for Ui {
    fn run(&self, run: &mut Invocation) -> Result<Answer> {
        use super::resume::Resume;
        use crate::program::held_store::HeldStore;
        use crate::program::invocation::Location;
        use crate::terminal::{self, Ending, Host};

        if run.out.json {
            let error = turntree::Error::invalid("ui is for people: it prints no records");
            let hint = "'turntree sessions', 'outline', 'log' and 'search' take --json";
            return Err(crate::view::error::Failure::hinted(error, hint));
        }
        terminal::check()?;
        // What is asked for and said on the way is asked for and said before the screen is taken.
        let repo = run.open_quietly()?;
        let first = match &self.session {
            Some(name) => first(&repo, name)?,
            None => None,
        };
        drop(repo);
        let location = run.locate()?;
        let dir = std::path::absolute(&location.dir).map_err(|error| {
            turntree::Error::io(format!("find {}", location.dir.display()), error)
        })?;
        let host = Host {
            store: HeldStore::new(Location { dir, ..location }),
            first,
            has_colour: run.out.paint.is_on(),
            open: &|| run.open_apart(),
            close: &|opened| {
                if run.may_maintain() {
                    opened.look_after_and_reap();
                }
            },
            plan_resume: &|repo, id| Resume::at(id).preview(repo),
        };
        match terminal::run(host)? {
            Ending::Quit => Ok(Answer::Yes),
            Ending::Resume(id) => Resume::at(&id).run(run),
        }
    }
}

/// The branch that a session stands for, and its title.
#[cfg(feature = "ui")]
fn first(
    repo: &turntree::repo::Repository,
    name: &str,
) -> Result<Option<(turntree::repo::BranchName, String)>> {
    let session = crate::porcelain::sessions::named_session(repo, name)?;
    let branch = repo.branch_of_session(&session)?;
    Ok(branch.map(|branch| (branch, session)))
}

#[cfg(not(feature = "ui"))]
impl Verb for Ui {
    fn run(&self, _: &mut Invocation) -> Result<Answer> {
        let what = self.session.as_deref().unwrap_or("all sessions");
        let error = turntree::Error::new(
            turntree::ErrorKind::Unsupported,
            format!("this build has no interface for terminals to show {what}"),
        );
        let hint = "'turntree sessions' and 'turntree outline' print the same, and 'turntree view' \
                    shows it in a browser";
        Err(crate::view::error::Failure::hinted(error, hint))
    }
}
