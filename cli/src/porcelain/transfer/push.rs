//! Pushes sessions to remotes: on request, and automatically after a turn.

use std::cell::RefCell;
use std::fs::File;
use std::path::Path;
use std::time::Duration;

use turntree::Error;
use turntree::platform::{Lock, private, try_lock, without_links};
use turntree::repo::{Repository, SearchScope};
use turntree::transfer::bundle::BundlePlan;
use turntree::transfer::remote::{PushOptions, Pushed, PushedBranch};
use turntree_exchange::SecretFinding;

use super::remotes::Connection;
use crate::porcelain::read::secrets::{Passage, SecretGate};
use crate::program::trust::may_reach_remotes;
use crate::view::error::Result;
use crate::view::render::count;

/// The lock file of an automatic push.
const LOCK_FILE: &str = "push.lock";

/// The pause between two pushes of a process, so that turns are pushed together.
const PAUSE: Duration = Duration::from_secs(2);

/// The options of a push.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct PushManner {
    /// Push secrets too.
    pub(crate) allow_secrets: bool,
    /// Push a session that was deleted on the remote.
    pub(crate) is_revived: bool,
}

/// The result of a push.
pub(crate) enum Outcome {
    /// The session was pushed.
    Pushed(Pushed),
    /// It was refused because of these secrets.
    Refused(Vec<SecretFinding>),
}

/// Pushes a session, unless it contains secrets.
///
/// # Errors
/// The errors of a push, and of a scan.
pub(crate) fn push_session(
    repo: &Repository,
    connection: &Connection,
    session: &str,
    manner: PushManner,
) -> Result<Outcome> {
    let PushManner { allow_secrets, is_revived } = manner;
    let gate = SecretGate { scrub: false, allow_secrets };
    // Keeps the scan's own errors and findings, which the callback cannot return.
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
    let options = PushOptions { branches: None, is_revived, check: &check };
    let pushed = connection.with(repo, |remote| remote.push(session, options));
    match refused.into_inner() {
        Some(Ok(Passage::Refused(found) | Passage::Masked(found))) => Ok(Outcome::Refused(found)),
        Some(Err(failure)) => Err(failure),
        Some(Ok(Passage::Free)) | None => Ok(Outcome::Pushed(pushed?)),
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

/// Pushes to all remotes with automatic push until nothing is new. Only one process of a store does
/// that at a time; other processes leave their turns to it. Returns the errors, one per line; the
/// next turn tries again.
///
/// # Errors
/// If the store cannot be read, or its lock file not created.
pub(crate) fn push_by_itself(repo: &Repository, dir: &Path) -> Result<Vec<String>> {
    let mut told = Vec::new();
    if !is_push_due(repo)? {
        return Ok(told);
    }
    let (mut tried, mut is_first) = (Vec::new(), true);
    loop {
        repo.refresh()?;
        let waiting = waiting(repo)?;
        // Branches that failed, or that the remote has advanced, are not retried before there are
        // new turns.
        if waiting.is_empty() || waiting == tried {
            return Ok(told);
        }
        if !is_first {
            std::thread::sleep(PAUSE);
        }
        is_first = false;
        let Some(lock) = lock(dir)? else { return Ok(told) };
        for remote in repo.remotes()?.into_iter().filter(|(_, entry)| entry.auto) {
            told.extend(push_all(repo, &remote.0));
        }
        tried = waiting;
        // Another process that finds the lock held leaves its turns to this one, so this one checks
        // again after the release.
        drop(lock);
    }
}

/// Returns true if there are turns to push automatically to trusted remotes.
///
/// # Errors
/// If the remotes cannot be read.
pub(crate) fn is_push_due(repo: &Repository) -> turntree::Result<bool> {
    Ok(repo.is_push_due()? && may_reach_remotes(repo))
}

/// The branches that remotes with automatic push lack.
fn waiting(repo: &Repository) -> Result<Vec<String>> {
    let mut waiting = Vec::new();
    for (name, _) in repo.remotes()?.into_iter().filter(|(_, entry)| entry.auto) {
        let branches = repo.unpushed(&name).into_iter();
        waiting.extend(branches.map(|(branch, id)| format!("{name} {branch} {id}")));
    }
    Ok(waiting)
}

/// Pushes every session with new turns, each on its own; returns the errors.
fn push_all(repo: &Repository, remote: &str) -> Vec<String> {
    let failed = |session: &str, what: &str| format!("push of {session} to {remote}: {what}");
    let connection = match Connection::to(repo, Some(remote)) {
        Ok(connection) => connection,
        Err(failure) => return vec![format!("push to {remote}: {}", failure.message())],
    };
    let unpushed = repo.unpushed(remote).into_iter();
    let mut sessions: Vec<String> =
        unpushed.map(|(branch, _)| branch.session().to_owned()).collect();
    sessions.dedup();
    let mut told = Vec::new();
    for session in sessions {
        match push_session(repo, &connection, &session, PushManner::default()) {
            Ok(Outcome::Pushed(_)) => told.extend(fold(repo, &connection, &session)),
            Ok(Outcome::Refused(found)) => {
                let found = count(found.len() as u64, "secret");
                told.push(failed(&session, &format!("{found} would go out")));
            }
            Err(failure) => told.push(failed(&session, &failure.message())),
        }
    }
    told
}

/// Folds the bundles of a remote, for every session where it saves enough. Returns the errors, one
/// per line; the next push tries again. Does nothing while another process pushes automatically.
///
/// # Errors
/// If the store cannot be read, or its lock file not created.
pub(crate) fn fold_by_itself(repo: &Repository, dir: &Path, remote: &str) -> Result<Vec<String>> {
    let Some(_lock) = lock(dir)?.filter(|_| may_reach_remotes(repo)) else {
        return Ok(Vec::new());
    };
    let connection = Connection::to(repo, Some(remote))?;
    let sessions = repo.remote_sessions(remote);
    Ok(sessions.iter().filter_map(|session| fold(repo, &connection, session)).collect())
}

/// Folds the bundles of a session, if it saves enough; returns the error.
fn fold(repo: &Repository, connection: &Connection, session: &str) -> Option<String> {
    let failed = connection.with(repo, |remote| remote.fold(session)).err()?;
    Some(format!("merge bundles of {session} on {}: {failed}", connection.name))
}

/// Takes the lock; `None` if another process holds it.
fn lock(dir: &Path) -> Result<Option<File>> {
    let path = dir.join(LOCK_FILE);
    let failed = |error| Error::io(format!("lock {}", path.display()), error);
    let mut options = File::options();
    // The store may be untrusted: does not follow a link in place of the file, and does not block
    // on a pipe.
    let options = options.read(true).write(true).create(true).truncate(false);
    let file = without_links(private(options)).open(&path).map_err(failed)?;
    match try_lock(&file).map_err(failed)? {
        Lock::Taken => Ok(Some(file)),
        Lock::Busy => Ok(None),
    }
}
