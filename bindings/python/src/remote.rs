//! Remotes of any kind: pushes and fetches sessions.

use std::collections::BTreeMap;
use std::ffi::CString;
use std::path::{Path, PathBuf};

use pyo3::exceptions::PyUserWarning;
use pyo3::prelude::*;
use turntree::context::MessagePolicy;
use turntree::local::{Repo, is_free};
use turntree::repo::{SearchScope, check_remote_name};
use turntree::store::Steps;
use turntree::transfer::bundle::BundlePlan;
use turntree::transfer::remote::{
    Fetched, Followed, HowFollowed, PushOptions, Pushed, PushedBranch, Remote,
};
use turntree::{Error, Result};
use turntree_cli::library::{FoundRemote, RemoteConnection, add_remote};
use turntree_exchange::formats::tool_use;
use turntree_exchange::scan_secrets;

use crate::exchange::{open_secrets, refuse_secrets};
use crate::values::{Answer, named};

/// Returns the name of a remote; without one, of the only remote.
fn named_remote(repo: &Repo, name: Option<&str>) -> Result<String> {
    repo.refresh()?;
    let remotes = repo.repository().remotes()?;
    let names = || remotes.keys().cloned().collect::<Vec<_>>().join(", ");
    match (name, remotes.keys().next()) {
        (Some(name), _) if remotes.contains_key(name) => Ok(name.to_owned()),
        (Some(name), _) => {
            Err(Error::not_found(format!("there is no remote '{name}': found [{}]", names())))
        }
        (None, Some(_)) if remotes.len() > 1 => {
            Err(Error::invalid(format!("name one of the remotes {}", names())))
        }
        (None, Some(only)) => Ok(only.clone()),
        (None, None) => Err(Error::not_found("the store has no remote: add_remote adds one")),
    }
}

/// Connects to the remote of this name; without a name to the only one.
fn connect(repo: &Repo, name: Option<&str>) -> Result<(String, RemoteConnection)> {
    let name = named_remote(repo, name)?;
    let connection = RemoteConnection::to(repo.repository(), &name, repo.stamp())?;
    Ok((name, connection))
}

/// Returns the URLs of the remotes by name.
pub(crate) fn remotes(repo: &Repo) -> Result<BTreeMap<String, String>> {
    repo.refresh()?;
    let remotes = repo.repository().remotes()?.into_iter();
    Ok(remotes.map(|(name, entry)| (name, entry.url)).collect())
}

/// A remote that was added; the file with the user's secret key if it was created for it.
pub(crate) struct Added(Option<PathBuf>);

/// Adds a remote, encrypted for `members` and the user if there are some and it is new. Returns
/// `None` if the name is taken.
pub(crate) fn add(
    repo: &Repo,
    name: &str,
    url: &str,
    members: Option<&[String]>,
) -> Result<Option<Added>> {
    check_remote_name(name)?;
    repo.refresh()?;
    let repository = repo.repository();
    if repository.remotes()?.contains_key(name) {
        return Ok(None);
    }
    let made_key = add_remote(repository, name, url, members, &repo.stamp())?;
    Ok(Some(Added(made_key)))
}

/// Warns of a secret key that has just one copy.
pub(crate) fn warn_of_key(py: Python<'_>, added: Added) -> PyResult<()> {
    let Some(path) = added.0 else { return Ok(()) };
    let text = format!("made your secret key in {}: keep a copy of it elsewhere", path.display());
    let text = CString::new(text).map_err(PyErr::from)?;
    PyErr::warn(py, &py.get_type::<PyUserWarning>(), &text, 1)
}

/// Removes a remote from a store.
pub(crate) fn remove(repo: &Repo, name: &str) -> Result<()> {
    let name = named_remote(repo, Some(name))?;
    let mut remotes = repo.repository().remotes()?;
    remotes.remove(&name);
    let mut change = repo.repository().begin();
    change.set_remotes(&remotes)?;
    change.commit(&repo.stamp(), &format!("forget the remote {name}")).map(drop)
}

/// Creates a store with every session of the remote at a URL. Creates nothing if there is no remote.
pub(crate) fn clone(url: &str, dir: &Path, name: &str, actor: &str) -> Result<()> {
    check_remote_name(name)?;
    let found = FoundRemote::at(url, name)?;
    let is_free =
        is_free(dir).map_err(|error| Error::io(format!("inspect {}", dir.display()), error))?;
    if !is_free {
        return Err(Error::invalid(format!(
            "{} is not empty: name a new directory, or use add_remote and pull",
            dir.display()
        )));
    }
    let repo = Repo::create(dir)?.acting_as(actor);
    found.adopt(repo.repository(), name, &repo.stamp())?;
    pull(&repo, &[], Some(name)).map(drop)
}

/// A session, and the result of its push.
pub(crate) type PushedSession = (String, Pushed);

/// Pushes sessions, or all with new turns. Scans the new turns for secrets.
pub(crate) fn push(
    repo: &Repo,
    sessions: &[String],
    remote: Option<&str>,
    allow_secrets: bool,
) -> Result<Vec<PushedSession>> {
    let (name, connection) = connect(repo, remote)?;
    let repository = repo.repository();
    let is_named = !sessions.is_empty();
    let mut chosen = sessions.to_vec();
    if !is_named {
        let all = repository.branches().into_iter();
        chosen.extend(all.map(|(branch, _)| branch.session().to_owned()));
        chosen.dedup();
        chosen.retain(|session| !repository.is_deleted_on(&name, session));
    }
    let mut done = Vec::new();
    for session in chosen {
        let check = |branches: &[PushedBranch], plan: &BundlePlan| match allow_secrets {
            true => Ok(()),
            false => check(repo, branches, plan),
        };
        let options = PushOptions { branches: None, is_revived: is_named, check: &check };
        let pushed = connection.with(repository, |remote| remote.push(&session, options))?;
        done.push((session, pushed));
    }
    Ok(done)
}

/// Refuses a push whose content has secrets.
fn check(repo: &Repo, branches: &[PushedBranch], plan: &BundlePlan) -> Result<()> {
    let repository = repo.repository();
    let moved = branches.iter().filter(|branch| branch.line.is_pushed());
    let scope = SearchScope {
        starts: moved.map(|moved| (moved.id, Some(moved.branch.clone()))).collect(),
        hide: branches.iter().filter_map(|branch| branch.before).collect(),
    };
    let scan = scan_secrets(repository, &[scope], &|_, _| ())?;
    if !scan.damage.is_empty() {
        return Err(Error::corrupt("the history to push", "readable content", "damage"));
    }
    let mut found: Vec<_> = scan.open().cloned().collect();
    for text in plan.texts(repository)? {
        found.extend(open_secrets(repo, &text)?);
    }
    refuse_secrets(repo, &found, "the push")
}

/// Fetches sessions, or all that changed.
pub(crate) fn fetch(
    repo: &Repo,
    sessions: &[String],
    remote: Option<&str>,
) -> Result<Vec<Fetched>> {
    let (name, connection) = connect(repo, remote)?;
    fetch_by(repo, &name, &connection, sessions)
}

fn fetch_by(
    repo: &Repo,
    name: &str,
    connection: &RemoteConnection,
    sessions: &[String],
) -> Result<Vec<Fetched>> {
    let repository = repo.repository();
    let mut all = Vec::new();
    if sessions.is_empty() {
        let mut tell = |fetched: &Fetched| all.push(fetched.clone());
        connection.with(repository, |remote| remote.fetch_all(&Steps::default(), &mut tell))?;
    }
    for session in sessions {
        let fetched = connection.with(repository, |remote| remote.fetch(session))?;
        let missing = || Error::not_found(format!("{name} has no session '{session}'"));
        all.push(fetched.ok_or_else(missing)?);
    }
    Ok(all)
}

/// Fetches sessions, and updates the branches of this store: fast-forwards or merges.
pub(crate) fn pull(
    repo: &Repo,
    sessions: &[String],
    remote: Option<&str>,
) -> Result<Vec<Followed>> {
    let (name, connection) = connect(repo, remote)?;
    fetch_by(repo, &name, &connection, sessions)?;
    let repository = repo.repository();
    let known = repository.remote_sessions(&name);
    let mut all = Vec::new();
    for session in known {
        if sessions.is_empty() || sessions.contains(&session) {
            let follow =
                |remote: &Remote<'_>| remote.follow(&session, &MessagePolicy::default(), &tool_use);
            all.extend(connection.with(repository, follow)?);
        }
    }
    Ok(all)
}

impl Answer for PushedSession {
    fn into_python(self, py: Python<'_>) -> PyResult<Bound<'_, PyAny>> {
        let (session, pushed) = self;
        let moved = pushed.branches.iter().filter(|branch| branch.line.is_pushed());
        let branches: Vec<String> = moved.map(|branch| branch.branch.to_string()).collect();
        named(py, "Pushed", (session, branches, pushed.bytes))
    }
}

impl Answer for Fetched {
    fn into_python(self, py: Python<'_>) -> PyResult<Bound<'_, PyAny>> {
        let branches: Vec<String> =
            self.moved.iter().map(|moved| moved.branch.to_string()).collect();
        named(py, "Fetched", (self.session, branches, self.bytes, self.is_deleted))
    }
}

impl Answer for Followed {
    fn into_python(self, py: Python<'_>) -> PyResult<Bound<'_, PyAny>> {
        let kind = match self.how {
            HowFollowed::Made => "created",
            HowFollowed::Forward => "fast-forward",
            HowFollowed::Merged => "merged",
        };
        let (branch, id) = (self.branch.to_string(), self.id.to_string());
        named(py, "Pulled", (branch, id, kind, self.conflicts))
    }
}
