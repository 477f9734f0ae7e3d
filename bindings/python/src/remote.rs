//! Remotes in folders: pushes and fetches sessions.

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Arc;

use pyo3::prelude::*;
use turntree::context::MessagePolicy;
use turntree::local::{Repo, is_free, random_bytes};
use turntree::repo::{RemoteEntry, SearchScope, check_remote_name};
use turntree::store::{Io, IoFile, RealIo, Steps};
use turntree::transfer::bundle::BundlePlan;
use turntree::transfer::remote::{
    Fetched, FolderBucket, Followed, Hex, HowFollowed, PushOptions, Pushed, PushedBranch, Remote,
    RemoteId, Survey, find_remote, make_remote,
};
use turntree::{Error, ErrorKind, Result};
use turntree_exchange::formats::tool_use;
use turntree_exchange::scan_secrets;

use crate::exchange::{open_secrets, refuse_secrets};
use crate::values::named;

/// A connection to a remote.
struct Connection {
    name: String,
    id: RemoteId,
    bucket: FolderBucket,
}

impl Connection {
    /// Connects to the remote of this name; without a name to the only one.
    fn to(repo: &Repo, name: Option<&str>) -> Result<Self> {
        repo.refresh()?;
        let remotes = repo.repository().remotes()?;
        let names = || remotes.keys().cloned().collect::<Vec<_>>().join(", ");
        let (name, entry) = match name {
            Some(name) => remotes.get_key_value(name).ok_or_else(|| {
                Error::not_found(format!("there is no remote '{name}': found [{}]", names()))
            })?,
            None if remotes.len() > 1 => {
                return Err(Error::invalid(format!("name one of the remotes {}", names())));
            }
            None => remotes
                .iter()
                .next()
                .ok_or_else(|| Error::not_found("the store has no remote: add_remote adds one"))?,
        };
        let bad = || Error::malformed(format!("the id of the remote {name}"), "hex digits");
        let id = Hex::parse(&entry.id).ok_or_else(bad)?;
        if entry.keys.is_some() {
            return Err(encrypted(name));
        }
        let bucket = FolderBucket::open(Arc::new(RealIo), folder(&entry.url)?, random_bytes())?;
        Ok(Self { name: name.clone(), id, bucket })
    }

    fn with<T>(&self, repo: &Repo, work: impl FnOnce(&Remote<'_>) -> Result<T>) -> Result<T> {
        let repository = repo.repository();
        let (stamp, spool) = (repo.stamp(), || unnamed_file(repository.dir()));
        work(&Remote {
            repo: repository,
            name: &self.name,
            id: self.id,
            bucket: &self.bucket,
            lazy: false,
            stamp: &stamp,
            random: &random_bytes,
            spool: &spool,
        })
    }
}

/// Creates a file without a name, on the disk of a directory.
fn unnamed_file(dir: &Path) -> Result<Arc<dyn IoFile>> {
    let path = dir.join(format!(".{}.tmp", Hex(random_bytes())));
    let failed = |error| Error::io(format!("make a file in {}", dir.display()), error);
    let file = RealIo.create(&path).map_err(failed)?;
    RealIo.remove(&path).map_err(failed)?;
    Ok(file)
}

/// Returns the folder of a URL; the program connects to other places.
fn folder(url: &str) -> Result<&str> {
    let path = url.strip_prefix("file://").unwrap_or(url);
    match path.contains("://") || is_host(path) {
        false => Ok(path),
        true => Err(Error::new(
            ErrorKind::Unsupported,
            format!("{url} is no folder: the program 'turntree' pushes to it and fetches from it"),
        )),
    }
}

/// Returns true for HOST:PATH.
fn is_host(url: &str) -> bool {
    url.split_once(':').is_some_and(|(host, _)| !host.is_empty() && !host.contains('/'))
}

fn encrypted(name: &str) -> Error {
    let message =
        format!("the remote {name} is encrypted: the program 'turntree' has the keys for it");
    Error::new(ErrorKind::Unsupported, message)
}

/// Returns the URLs of the remotes by name.
pub(crate) fn remotes(repo: &Repo) -> Result<BTreeMap<String, String>> {
    repo.refresh()?;
    let remotes = repo.repository().remotes()?.into_iter();
    Ok(remotes.map(|(name, entry)| (name, entry.url)).collect())
}

/// Adds the remote in a folder, which is created if it is missing. Returns false if the name is
/// taken.
pub(crate) fn add(repo: &Repo, name: &str, url: &str) -> Result<bool> {
    check_remote_name(name)?;
    repo.refresh()?;
    let repository = repo.repository();
    let mut remotes = repository.remotes()?;
    if remotes.contains_key(name) {
        return Ok(false);
    }
    let dir = std::path::absolute(folder(url)?)
        .map_err(|error| Error::io(format!("find {url}"), error))?;
    let url = dir.to_str().ok_or_else(|| Error::invalid("the path of a remote is not UTF-8"))?;
    let bucket = FolderBucket::create(Arc::new(RealIo), &dir, random_bytes())?;
    if Survey::of(&bucket)?.is_encrypted {
        return Err(encrypted(name));
    }
    let stamp = repo.stamp();
    let id = match find_remote(&bucket)? {
        Some(id) => id,
        None => make_remote(&bucket, Hex(random_bytes()), &stamp)?,
    };
    let (lazy, auto, keys) = (false, false, None);
    let entry = RemoteEntry { url: url.to_owned(), id: id.to_string(), lazy, auto, keys };
    remotes.insert(name.to_owned(), entry);
    let mut change = repository.begin();
    change.set_remotes(&remotes)?;
    change.commit(&stamp, &format!("add the remote {name}"))?;
    Ok(true)
}

/// Creates a store with every session of the remote in a folder. Creates nothing if there is no
/// remote.
pub(crate) fn clone(url: &str, dir: &Path, name: &str, actor: &str) -> Result<()> {
    check_remote_name(name)?;
    let bucket = FolderBucket::open(Arc::new(RealIo), folder(url)?, random_bytes())?;
    if find_remote(&bucket)?.is_none() {
        return Err(Error::not_found(format!("there is no remote in {url}: add_remote makes one")));
    }
    if Survey::of(&bucket)?.is_encrypted {
        return Err(encrypted(name));
    }
    let is_free =
        is_free(dir).map_err(|error| Error::io(format!("inspect {}", dir.display()), error))?;
    if !is_free {
        return Err(Error::invalid(format!(
            "{} is not empty: name a new directory, or use add_remote and pull",
            dir.display()
        )));
    }
    let repo = Repo::create(dir)?.acting_as(actor);
    add(&repo, name, url)?;
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
    let connection = Connection::to(repo, remote)?;
    let repository = repo.repository();
    let is_named = !sessions.is_empty();
    let mut chosen = sessions.to_vec();
    if !is_named {
        let all = repository.branches().into_iter();
        chosen.extend(all.map(|(branch, _)| branch.session().to_owned()));
        chosen.dedup();
        chosen.retain(|session| !repository.is_deleted_on(&connection.name, session));
    }
    let mut done = Vec::new();
    for session in chosen {
        let check = |branches: &[PushedBranch], plan: &BundlePlan| match allow_secrets {
            true => Ok(()),
            false => check(repo, branches, plan),
        };
        let options = PushOptions { branches: None, is_revived: is_named, check: &check };
        let pushed = connection.with(repo, |remote| remote.push(&session, options))?;
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
    let connection = Connection::to(repo, remote)?;
    fetch_by(repo, &connection, sessions)
}

fn fetch_by(repo: &Repo, connection: &Connection, sessions: &[String]) -> Result<Vec<Fetched>> {
    let mut all = Vec::new();
    if sessions.is_empty() {
        let mut tell = |fetched: &Fetched| all.push(fetched.clone());
        connection.with(repo, |remote| remote.fetch_all(&Steps::default(), &mut tell))?;
    }
    for session in sessions {
        let fetched = connection.with(repo, |remote| remote.fetch(session))?;
        let missing =
            || Error::not_found(format!("{} has no session '{session}'", connection.name));
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
    let connection = Connection::to(repo, remote)?;
    fetch_by(repo, &connection, sessions)?;
    let known = repo.repository().remote_sessions(&connection.name);
    let mut all = Vec::new();
    for session in known {
        if sessions.is_empty() || sessions.contains(&session) {
            let follow =
                |remote: &Remote<'_>| remote.follow(&session, &MessagePolicy::default(), &tool_use);
            all.extend(connection.with(repo, follow)?);
        }
    }
    Ok(all)
}

pub(crate) fn pushed_into_python(
    py: Python<'_>,
    (session, pushed): PushedSession,
) -> PyResult<Bound<'_, PyAny>> {
    let moved = pushed.branches.iter().filter(|branch| branch.line.is_pushed());
    let branches: Vec<String> = moved.map(|branch| branch.branch.to_string()).collect();
    named(py, "Pushed", (session, branches, pushed.bytes))
}

pub(crate) fn fetched_into_python(py: Python<'_>, fetched: Fetched) -> PyResult<Bound<'_, PyAny>> {
    let branches: Vec<String> =
        fetched.moved.iter().map(|moved| moved.branch.to_string()).collect();
    named(py, "Fetched", (fetched.session, branches, fetched.bytes, fetched.is_deleted))
}

pub(crate) fn followed_into_python(
    py: Python<'_>,
    followed: Followed,
) -> PyResult<Bound<'_, PyAny>> {
    let kind = match followed.how {
        HowFollowed::Made => "created",
        HowFollowed::Forward => "fast-forward",
        HowFollowed::Merged => "merged",
    };
    let (branch, id) = (followed.branch.to_string(), followed.id.to_string());
    named(py, "Pulled", (branch, id, kind, followed.conflicts))
}
