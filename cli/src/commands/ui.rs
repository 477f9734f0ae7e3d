//! `ui`: shows all sessions in the terminal, to read, resume and undo.

use clap::Args;
use clap_complete::ArgValueCompleter;

use super::Verb;
use crate::program::complete::sessions;
use crate::program::invocation::Invocation;
use crate::view::error::{Answer, Result};

/// Browse all sessions in the terminal, and resume from any turn
///
/// Shows lists of sessions, prompts, strategies, hits and operations, with a preview of the
/// messages: enter opens, escape goes back, ? shows the keys. New commits of agents appear
/// automatically. The store changes only by f, which forks, by u, which shows the plan of an undo
/// and asks for a confirmation, and by r, which shows the files that 'turntree resume' would write
/// and runs it at a second r.
#[derive(Debug, Args)]
#[command(after_long_help = "Examples:
  turntree ui                    # all sessions
  turntree ui parser-fix         # this session
  ssh -t HOST turntree ui        # those of another machine")]
pub(crate) struct Ui {
    /// The session to show first; a list of all by default
    #[arg(value_name = "SESSION", add = ArgValueCompleter::new(sessions))]
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
        // Prompts and warnings of opening the store come before the screen is taken.
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

/// The branch of a session, and its title.
#[cfg(feature = "ui")]
fn first(
    repo: &turntree::repo::Repository,
    name: &str,
) -> Result<Option<(turntree::repo::BranchName, String)>> {
    let session = crate::porcelain::read::sessions::named_session(repo, name)?;
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
