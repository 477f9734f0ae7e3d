//! `fetch`: fetches sessions from a remote, next to the store's own branches.

use std::io::Write;
use std::sync::Arc;

use clap::Args;
use turntree::repo::Repository;
use turntree::store::Steps;
use turntree::transfer::remote::{Fetched, Survey};
use turntree::{Error, ErrorKind};

use super::report::{cost, moved_branches, write_branches};
use crate::commands::Verb;
use crate::porcelain::transfer::remotes::Connection;
use crate::program::invocation::{Invocation, stamp};
use crate::view::error::{Answer, Failure, Hint, Result};
use crate::view::json;
use crate::view::output::{FAINT, Output, note};
use crate::view::progress::Working;
use crate::view::render::size;

/// The advice for a remote that has changed unexpectedly.
pub(super) const CHANGED: &str =
    "'turntree remote check' examines all of it; everything fetched before is kept";

/// Fetch sessions from a remote
///
/// Fetches every changed session of the remote, or the named ones. Local branches do not move:
/// fetched branches are available as REMOTE/SESSION/BRANCH in every command that takes a revision.
/// 'turntree sync' also updates local branches. If nothing is new, this takes one request.
#[derive(Debug, Args)]
#[command(after_long_help = "Examples:
  turntree fetch
  turntree fetch nightly
  turntree fetch --whole
  turntree log origin/nightly
  turntree fork mine --at origin/nightly")]
pub(crate) struct Fetch {
    /// Sessions, by their names on the remote; all changed ones by default
    #[arg(value_name = "SESSION")]
    sessions: Vec<String>,
    /// Also fetch everything that a lazy clone left on the remote, so that the remote is not needed
    /// again
    #[arg(long, conflicts_with = "sessions")]
    whole: bool,
    /// The remote; optional if there is only one
    #[arg(long, value_name = "NAME")]
    remote: Option<String>,
}

impl Verb for Fetch {
    fn run(&self, run: &mut Invocation) -> Result<Answer> {
        let (repo, connection) = Connection::of_run(run, self.remote.as_deref())?;
        let wanted = match &*self.sessions {
            [] => Wanted::Changed,
            named => Wanted::Named(named),
        };
        let fetched = fetch(&repo, &connection, &wanted)?;
        if self.whole {
            fetch_whole(run, &repo, &connection)?;
        }
        let is_quiet = run.out.json || self.whole;
        if fetched.iter().all(|fetched| fetched.moved.is_empty()) && !is_quiet {
            note(&format!("{} has nothing new", connection.name));
        }
        for fetched in &fetched {
            report(&mut run.out, &repo, &connection.name, fetched)?;
        }
        Ok(Answer::Yes)
    }
}

/// The sessions to fetch from a remote.
pub(super) enum Wanted<'a> {
    /// Every changed session.
    Changed,
    /// These sessions.
    Named(&'a [String]),
    /// The sessions found by a survey of a new remote.
    Surveyed(&'a Survey),
}

/// Fetches sessions, and shows progress.
pub(super) fn fetch(
    repo: &Repository,
    connection: &Connection,
    wanted: &Wanted<'_>,
) -> Result<Vec<Fetched>> {
    let steps = Arc::new(Steps::default());
    steps.begin(match wanted {
        // They are counted once the remote has listed them.
        Wanted::Changed => 0,
        Wanted::Named(sessions) => sessions.len(),
        Wanted::Surveyed(survey) => survey.sessions(),
    } as u64);
    let (working, mut all) = (Working::counting("fetching", "sessions", &steps), Vec::new());
    let mut tell = |fetched: &Fetched| {
        if !matches!(wanted, Wanted::Changed) {
            steps.pass();
        }
        working.say(format!("fetched {}", fetched.session));
        all.push(fetched.clone());
    };
    let done = match wanted {
        Wanted::Changed => connection.with(repo, |remote| remote.fetch_all(&steps, &mut tell)),
        Wanted::Surveyed(survey) => {
            connection.with(repo, |remote| remote.fetch_surveyed(survey, &mut tell))
        }
        Wanted::Named(sessions) => sessions.iter().try_for_each(|session| {
            let found = connection.with(repo, |remote| remote.fetch(session))?;
            let missing =
                || Error::not_found(format!("{} has no session '{session}'", connection.name));
            tell(&found.ok_or_else(missing)?);
            Ok(())
        }),
    };
    drop(working);
    done.map_err(Failure::from).hint(ErrorKind::Corrupt, CHANGED)?;
    Ok(all)
}

/// Fetches everything that a lazy clone left on the remote, and makes later fetches complete.
fn fetch_whole(run: &mut Invocation, repo: &Repository, connection: &Connection) -> Result<()> {
    let working = Working::new("fetching everything");
    #[expect(clippy::redundant_closure_for_method_calls, reason = "of any lifetime")]
    let bytes = connection.with(repo, |remote| remote.fetch_whole());
    drop(working);
    let bytes = bytes.hint(ErrorKind::Corrupt, CHANGED)?;
    let mut remotes = repo.remotes()?;
    if let Some(entry) = remotes.get_mut(&connection.name).filter(|entry| entry.lazy) {
        entry.lazy = false;
        let mut change = repo.begin();
        change.set_remotes(&remotes)?;
        change.commit(&stamp()?, &format!("fetch everything of {}", connection.name))?;
    }
    if run.out.json {
        let remote = connection.name.clone();
        run.out.record(&json::FetchedWhole { remote, whole: true, bytes })?;
        return Ok(());
    }
    writeln!(run.out, "everything of {} is here: fetched {}", connection.name, size(bytes))?;
    Ok(())
}

fn report(out: &mut Output, repo: &Repository, remote: &str, fetched: &Fetched) -> Result<()> {
    let branches = moved_branches(fetched);
    if out.json {
        out.record(&json::Fetched {
            remote: remote.to_owned(),
            session: fetched.session.clone(),
            bundles: fetched.bundles,
            bytes: fetched.bytes,
            deleted: fetched.is_deleted,
            branches,
        })?;
        return Ok(());
    }
    if branches.is_empty() {
        return Ok(());
    }
    write_branches(out, repo, remote, &branches)?;
    if fetched.is_deleted {
        note(&format!("{} was deleted on {remote}; the local session stays", fetched.session));
        return Ok(());
    }
    let cost = out.paint.paint(FAINT, format!("fetched {}", cost(fetched.bundles, fetched.bytes)));
    writeln!(out, "{cost}")?;
    Ok(())
}
