//! `push`: pushes turns to a remote.

use std::io::Write;

use clap::Args;
use clap_complete::ArgValueCompleter;
use turntree::ErrorKind;
use turntree::repo::Repository;
use turntree::transfer::remote::Pushed;

use super::report::{gone_branches, pushed_branches, write_branches};
use crate::commands::Verb;
use crate::porcelain::read::secrets::refuse;
use crate::porcelain::read::sessions::named_session;
use crate::porcelain::transfer::push::{Outcome, PushManner, push_session};
use crate::porcelain::transfer::remotes::Connection;
use crate::program::complete::sessions;
use crate::program::invocation::Invocation;
use crate::view::error::{Answer, Failure, Hint, Result};
use crate::view::json;
use crate::view::output::{FAINT, Output, note, warn};
use crate::view::progress::Working;
use crate::view::render::size;

/// The advice if both sides have new turns.
pub(super) const APART: &str = "'turntree sync' fetches, merges and pushes";

/// Push turns to a remote
///
/// Fast-forwards every branch of the session, or of the named sessions, on the remote. A turn takes
/// two requests and some kilobytes. If the remote has turns that the store lacks, nothing is pushed
/// and the exit code is 3. The content is scanned for secrets: if one is found, nothing is pushed
/// and the exit code is 1, unless --allow-secrets includes it. --delete deletes sessions on the
/// remote; the local ones stay. Other clones are warned at their next fetch or push, and pushing a
/// deleted session by name restores it.
#[derive(Debug, Args)]
#[command(after_long_help = "Examples:
  turntree push
  turntree push nightly
  turntree push --all --remote backup
  turntree push --delete old-experiment")]
pub(crate) struct Push {
    /// Sessions; HEAD's by default
    #[arg(value_name = "SESSION", add = ArgValueCompleter::new(sessions))]
    sessions: Vec<String>,
    /// Every session
    #[arg(long, conflicts_with = "sessions")]
    all: bool,
    /// Delete the sessions on the remote, unless it has turns that the store lacks
    #[arg(long, requires = "sessions", conflicts_with_all = ["all", "allow_secrets"])]
    delete: bool,
    /// The remote; optional if there is only one
    #[arg(long, value_name = "NAME")]
    remote: Option<String>,
    /// Push the content including its secrets
    #[arg(long)]
    allow_secrets: bool,
}

impl Verb for Push {
    fn run(&self, run: &mut Invocation) -> Result<Answer> {
        let (repo, connection) = Connection::of_run(run, self.remote.as_deref())?;
        if self.delete {
            for session in &self.sessions {
                delete(run, &repo, &connection, session)?;
            }
            return Ok(Answer::Yes);
        }
        let is_named = !self.sessions.is_empty();
        let mut sessions = chosen(&repo, &self.sessions, self.all)?;
        if self.all {
            sessions.retain(|session| !repo.is_deleted_on(&connection.name, session));
        }
        // If one session cannot be pushed, the others still are.
        let (mut answer, mut failed) = (Answer::Yes, None);
        for session in sessions {
            let manner = PushManner { allow_secrets: self.allow_secrets, is_revived: is_named };
            match push(run, &repo, &connection, &session, manner) {
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

/// Deletes a session on the remote. The session need not exist locally.
fn delete(
    run: &mut Invocation,
    repo: &Repository,
    connection: &Connection,
    session: &str,
) -> Result<()> {
    let deleted = connection
        .with(repo, |remote| remote.delete_session(session))
        .hint(ErrorKind::NotFound, "'turntree fetch' downloads the changes of the remote")
        .hint(ErrorKind::Conflict, "'turntree fetch' downloads it")?;
    let branches = gone_branches(&deleted.branches);
    if run.out.json {
        run.out.record(&json::SessionDeleted {
            remote: connection.name.clone(),
            session: session.to_owned(),
            deleted: true,
            generation: deleted.generation,
            branches,
        })?;
        return Ok(());
    }
    write_branches(&mut run.out, repo, &connection.name, &branches)
}

/// The named sessions, all sessions, or HEAD's session.
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

/// Pushes a session. Returns `None` if it was refused because of secrets, which are reported.
pub(super) fn push(
    run: &mut Invocation,
    repo: &Repository,
    connection: &Connection,
    session: &str,
    manner: PushManner,
) -> Result<Option<Pushed>> {
    let working = Working::counting("pushing", "objects", repo.store().packing());
    let pushed = push_session(repo, connection, session, manner);
    drop(working);
    let hint = match repo.is_deleted_on(&connection.name, session) {
        true => "'turntree push SESSION' brings it back",
        false => APART,
    };
    match pushed.hint(ErrorKind::Conflict, hint)? {
        Outcome::Pushed(pushed) => {
            if pushed.bytes > 0 && connection.with(repo, |remote| remote.is_fold_due(session))? {
                let remote = connection.name.clone();
                run.do_later(|later| later.fold = Some(remote));
            }
            Ok(Some(pushed))
        }
        Outcome::Refused(found) => {
            refuse(&mut run.out, &found, true)?;
            Ok(None)
        }
    }
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
    if !pushed.branches.iter().any(|branch| branch.line.is_pushed()) {
        note(&format!("{} has everything of {session}", connection.name));
        return Ok(());
    }
    let moved: Vec<_> = branches.into_iter().filter(|branch| branch.change != "behind").collect();
    write_branches(out, repo, &connection.name, &moved)?;
    let cost = out.paint.paint(FAINT, format!("pushed {}", size(pushed.bytes)));
    writeln!(out, "{cost}")?;
    Ok(())
}
