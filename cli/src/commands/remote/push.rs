//! `push`: turns go to a remote.

use std::cell::RefCell;
use std::io::Write;

use clap::Args;
use clap_complete::ArgValueCandidates;
use turntree::repo::{Repository, SearchScope};
use turntree::transfer::bundle::BundlePlan;
use turntree::transfer::remote::{PushOptions, Pushed, PushedBranch};
use turntree::{Error, ErrorKind};

use super::report::{pushed_branches, write_branches};
use crate::commands::Verb;
use crate::porcelain::remotes::Connection;
use crate::porcelain::secrets::{Passage, SecretGate, refuse};
use crate::porcelain::sessions::named_session;
use crate::program::complete::sessions;
use crate::program::invocation::Invocation;
use crate::view::error::{Answer, Failure, Hint, Result};
use crate::view::json;
use crate::view::output::{FAINT, Output, note, warn};
use crate::view::progress::Working;
use crate::view::render::size;

/// What to do when both sides have gone on.
pub(super) const APART: &str = "'turntree sync' fetches, merges and pushes";

/// Bring turns to a remote
///
/// Every branch of the session, or of the sessions that are named, goes on there to where it is here. A
/// turn takes two requests and some kilobytes. Where the remote has turns that are not here, nothing is
/// pushed and the exit code is 3. What goes out is looked through for secrets: with one nothing is pushed
/// and the exit code is 1, unless --allow-secrets lets it go.
#[derive(Debug, Args)]
#[command(after_long_help = "Examples:
  turntree push
  turntree push nightly
  turntree push --all --remote backup")]
pub(crate) struct Push {
    /// Sessions; that of HEAD by default
    #[arg(value_name = "SESSION", add = ArgValueCandidates::new(sessions))]
    sessions: Vec<String>,
    /// Every session
    #[arg(long, conflicts_with = "sessions")]
    all: bool,
    /// The remote; not needed when there is one
    #[arg(long, value_name = "NAME")]
    remote: Option<String>,
    /// Push it with the secrets that are in it
    #[arg(long)]
    allow_secrets: bool,
}

impl Verb for Push {
    fn run(&self, run: &mut Invocation) -> Result<Answer> {
        let repo = run.open()?;
        let connection = Connection::to(&repo, self.remote.as_deref())?;
        let sessions = chosen(&repo, &self.sessions, self.all)?;
        // One session that cannot be pushed does not keep the others here.
        let (mut answer, mut failed) = (Answer::Yes, None);
        for session in sessions {
            match push(run, &repo, &connection, &session, self.allow_secrets) {
                Ok(Some(pushed)) => report(&mut run.out, &repo, &connection, &session, &pushed)?,
                Ok(None) => answer = Answer::No,
                Err(failure) => {
                    if let Some(Failure::Library { error, .. }) = failed.replace(failure) {
                        warn(&error.to_string());
                    }
                }
            }
        }
        failed.map_or(Ok(answer), Err)
    }
}

/// The sessions that are named, all, or that of HEAD.
pub(super) fn chosen(repo: &Repository, named: &[String], all: bool) -> Result<Vec<String>> {
    if all {
        let branches = repo.branches().into_iter();
        let mut sessions: Vec<String> =
            branches.map(|(branch, _)| branch.session().to_owned()).collect();
        sessions.dedup();
        return Ok(sessions);
    }
    if named.is_empty() {
        return Ok(vec![repo.head()?.branch.session().to_owned()]);
    }
    named.iter().map(|text| named_session(repo, text)).collect()
}

/// Pushes a session. Returns nothing when it was refused for secrets, which are told.
pub(super) fn push(
    run: &mut Invocation,
    repo: &Repository,
    connection: &Connection,
    session: &str,
    allow_secrets: bool,
) -> Result<Option<Pushed>> {
    let gate = SecretGate { scrub: false, allow_secrets };
    // The scan has words of its own for what goes wrong, and for what it found.
    let refused: RefCell<Option<Result<Passage>>> = RefCell::new(None);
    let check = |branches: &[PushedBranch], plan: &BundlePlan| match check_secrets(
        repo, gate, branches, plan,
    ) {
        Ok(Passage::Free) => Ok(()),
        other => {
            *refused.borrow_mut() = Some(other);
            Err(Error::invalid("secrets would go out"))
        }
    };
    let working = Working::new("pushing");
    let options = PushOptions { branches: None, check: &check };
    let pushed = connection.with(repo, |remote| remote.push(session, options));
    drop(working);
    match refused.into_inner() {
        Some(Ok(Passage::Refused(found) | Passage::Masked(found))) => {
            refuse(&mut run.out, &found, true)?;
            Ok(None)
        }
        Some(Err(failure)) => Err(failure),
        Some(Ok(Passage::Free)) | None => pushed.hint(ErrorKind::Conflict, APART).map(Some),
    }
}

fn check_secrets(
    repo: &Repository,
    gate: SecretGate,
    branches: &[PushedBranch],
    plan: &BundlePlan,
) -> Result<Passage> {
    let moved = || branches.iter().filter(|branch| branch.line.is_pushed());
    let scope = SearchScope {
        starts: moved().map(|moved| (moved.id, Some(moved.branch.clone()))).collect(),
        hide: branches.iter().filter_map(|branch| branch.before).collect(),
    };
    gate.check(repo, &[scope], &plan.texts(repo)?)
}

fn report(
    out: &mut Output,
    repo: &Repository,
    connection: &Connection,
    session: &str,
    pushed: &Pushed,
) -> Result<()> {
    let branches = pushed_branches(pushed);
    if out.json {
        out.record(&json::Pushed {
            remote: connection.name.clone(),
            session: session.to_owned(),
            generation: pushed.generation,
            bytes: pushed.bytes,
            branches,
        })?;
        return Ok(());
    }
    if pushed.bytes == 0 {
        note(&format!("{} has everything of {session}", connection.name));
        return Ok(());
    }
    let moved: Vec<_> = branches.into_iter().filter(|branch| branch.change != "behind").collect();
    write_branches(out, repo, &connection.name, &moved)?;
    let cost = out.paint.paint(FAINT, format!("pushed {}", size(pushed.bytes)));
    writeln!(out, "{cost}")?;
    Ok(())
}
