//! A store: opening and closing, its sessions and history, and operations on whole branches.

use std::collections::VecDeque;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};

use pyo3::prelude::*;
use pyo3::types::PyDict;
use turntree::local::{Host, HostOptions, Repo, Retention};
use turntree::object::ObjectId;
use turntree::repo::BranchName;
use turntree::store::StoreKeys;
use turntree::{Error, ErrorKind};

use crate::error::raised;
use crate::process::{BETWEEN_SIGNALS, detached, interruptibly, patiently};
use crate::snapshot::Snapshot;
use crate::transaction::Transaction;

/// Number of snapshots per read during a walk through history.
const LOG_PAGE: usize = 64;

/// The expected tip of a branch when a change of it is committed.
#[derive(Debug, Clone)]
pub(crate) enum Expect {
    /// Any tip.
    Any,
    /// This tip; `None` for a missing branch.
    Tip(Option<String>),
}

impl<'py> FromPyObject<'_, 'py> for Expect {
    type Error = PyErr;

    fn extract(object: Borrowed<'_, 'py, PyAny>) -> PyResult<Self> {
        if object.is(object.py().Ellipsis()) {
            return Ok(Self::Any);
        }
        Ok(Self::Tip(object.extract()?))
    }
}

/// Returns the handle of a host in this process.
pub(crate) fn repo_of(host: &Host) -> PyResult<Repo> {
    host.repo().map_err(|error| raised(&error))
}

fn branch_name(name: &str) -> PyResult<BranchName> {
    name.parse().map_err(|error: Error| raised(&error))
}

/// The store in a directory, which is created if it is missing.
///
/// ``actor`` is the author of snapshots. With ``maintain``, a background thread packs a large
/// journal regularly. After a fork the child process reopens the store automatically.
///
/// An encrypted store is opened with its ``key``, which ``turntree.keys`` unwraps; a missing
/// or wrong key raises ``Encrypted``.
#[pyclass(frozen, module = "turntree", weakref)]
pub(crate) struct Store {
    host: Arc<Host>,
}

impl Store {
    fn repo(&self) -> PyResult<Repo> {
        repo_of(&self.host)
    }
}

#[pymethods]
impl Store {
    #[new]
    #[pyo3(signature = (
        path, *, actor="python", create=true, maintain=true, key=None
    ))]
    fn new(
        py: Python<'_>,
        path: PathBuf,
        actor: &str,
        create: bool,
        maintain: bool,
        key: Option<&[u8]>,
    ) -> PyResult<Self> {
        let options = HostOptions {
            actor: actor.to_owned(),
            create,
            maintain,
            keys: key.map(StoreKeys::parse).transpose().map_err(|error| raised(&error))?,
            lock_timeout: BETWEEN_SIGNALS,
        };
        let host = detached(py, || Host::open(path, options))?;
        Ok(Self { host: Arc::new(host) })
    }

    /// The directory of the store.
    #[getter]
    fn path(&self) -> &Path {
        self.host.dir()
    }

    /// True after the store was closed.
    #[getter]
    fn closed(&self) -> bool {
        self.host.is_closed()
    }

    /// Closes the store. Everything committed is already durable. With ``maintain``, a
    /// journal of 4 MiB or more is packed now, which takes some tenths of a second.
    fn close(&self, py: Python<'_>) {
        let closing = self.host.close();
        py.detach(|| drop(catch_unwind(AssertUnwindSafe(|| closing.finish()))));
    }

    fn __enter__(slf: Bound<'_, Self>) -> Bound<'_, Self> {
        slf
    }

    #[pyo3(signature = (_kind, _value, _traceback))]
    fn __exit__(
        &self,
        py: Python<'_>,
        _kind: &Bound<'_, PyAny>,
        _value: &Bound<'_, PyAny>,
        _traceback: &Bound<'_, PyAny>,
    ) -> bool {
        self.close(py);
        false
    }

    fn __repr__(&self) -> String {
        format!("<turntree.Store {}>", self.host.dir().display())
    }

    /// Returns the sessions that have a snapshot, ordered by name.
    fn sessions(&self, py: Python<'_>) -> PyResult<Vec<String>> {
        let repo = self.repo()?;
        detached(py, || {
            repo.refresh()?;
            Ok(repo.sessions().iter().map(|session| session.name().to_owned()).collect())
        })
    }

    /// Returns the branches of a session, or of all sessions, as ``session/branch``, ordered
    /// by name.
    #[pyo3(signature = (session=None))]
    fn branches(&self, py: Python<'_>, session: Option<&str>) -> PyResult<Vec<String>> {
        let repo = self.repo()?;
        detached(py, || {
            repo.refresh()?;
            let all = repo.repository().branches().into_iter().map(|(branch, _)| branch);
            let wanted = |branch: &BranchName| session.is_none_or(|name| branch.session() == name);
            Ok(all.filter(wanted).map(|branch| branch.to_string()).collect())
        })
    }

    /// Returns the id of the newest snapshot of a branch; None if the branch is missing. A
    /// session name means its branch ``main``.
    fn tip(&self, py: Python<'_>, branch: &str) -> PyResult<Option<String>> {
        let (repo, branch) = (self.repo()?, branch_name(branch)?);
        let found = detached(py, || {
            repo.refresh()?;
            Ok(repo.repository().tip(&branch))
        })?;
        Ok(found.map(|id| id.to_string()))
    }

    /// Returns the snapshot at a revision, such as ``task``, ``task/plan-b``, ``task~1`` or
    /// an id.
    fn snapshot(&self, py: Python<'_>, revision: &str) -> PyResult<Snapshot> {
        let repo = self.repo()?;
        let inner = detached(py, || {
            let id = repo.resolve(revision)?;
            repo.snapshot(&id.to_string())
        })?;
        Ok(Snapshot { inner })
    }

    /// Returns the newest snapshot of a branch; None if the branch is missing.
    fn newest(&self, py: Python<'_>, branch: &str) -> PyResult<Option<Snapshot>> {
        let repo = self.repo()?;
        branch_name(branch)?;
        let found = detached(py, || {
            repo.refresh()?;
            repo.session(branch)?.newest()
        })?;
        Ok(found.map(|inner| Snapshot { inner }))
    }

    /// Begins a change of a branch, buffered in memory. With ``expect``, committing it raises
    /// ``Conflict`` unless the newest snapshot is that one, or the branch is missing for
    /// None; otherwise it is applied on top of the newest snapshot.
    #[pyo3(signature = (branch, message="", *, expect=Expect::Any))]
    fn begin(&self, branch: &str, message: &str, expect: Expect) -> PyResult<Transaction> {
        let (change, branch) = (self.repo()?.change(), branch_name(branch)?);
        Transaction::begin(Arc::clone(&self.host), change, branch, message.to_owned(), expect)
    }

    /// Creates a branch, of any session, at a snapshot, without a copy. Returns the id.
    fn fork(&self, py: Python<'_>, branch: &str, revision: &str) -> PyResult<String> {
        let (repo, name) = (self.repo()?, branch_name(branch)?);
        let at = detached(py, || repo.resolve(revision))?;
        let mut change = repo.change();
        change.on(&name).expect(None).go_on_from(at);
        patiently(py, || change.commit(&format!("fork {name}")))?;
        Ok(at.to_string())
    }

    /// Iterates over the snapshots backwards from a revision, read on demand.
    fn log(&self, py: Python<'_>, revision: &str) -> PyResult<Log> {
        let repo = self.repo()?;
        let at = detached(py, || repo.resolve(revision))?;
        let walk = Walk { read: VecDeque::new(), next: Some(at) };
        Ok(Log { host: Arc::clone(&self.host), walk: Mutex::new(walk) })
    }

    /// Returns the changes between two revisions: paths of entries, and the kind of each
    /// change.
    fn diff(&self, py: Python<'_>, old: &str, new: &str) -> PyResult<Vec<(String, &'static str)>> {
        let (old, new) = (self.snapshot(py, old)?, self.snapshot(py, new)?);
        new.changes_since(py, &old)
    }

    /// Merges the newest snapshot of one branch into another branch.
    fn merge(&self, py: Python<'_>, into: &str, theirs: &str) -> PyResult<MergeOutcome> {
        let repo = self.repo()?;
        let outcome = patiently(py, || {
            repo.refresh()?;
            repo.session(into)?.merge(&repo.session(theirs)?)
        })?;
        let (id, kind) = (outcome.snapshot.id().to_string(), outcome.kind.name());
        Ok(MergeOutcome { id, kind, conflicts: outcome.conflicts })
    }

    /// Undoes the newest operation of this store's actor. Returns its description.
    fn undo(&self, py: Python<'_>) -> PyResult<Option<String>> {
        let repo = self.repo()?;
        patiently(py, || {
            repo.refresh()?;
            repo.undo()
        })
    }

    /// Redoes the operation that was undone last. Returns its description.
    fn redo(&self, py: Python<'_>) -> PyResult<Option<String>> {
        let repo = self.repo()?;
        patiently(py, || {
            repo.refresh()?;
            repo.redo()
        })
    }

    /// Deletes a session with all of its branches. Returns True if it existed. An undo
    /// restores it until a collection frees its content.
    fn delete(&self, py: Python<'_>, session: &str) -> PyResult<bool> {
        let repo = self.repo()?;
        branch_name(session)?;
        patiently(py, || {
            repo.refresh()?;
            repo.session(session)?.delete()
        })
    }

    /// Sets the retention rules of a session, or of every session without its own rules: the
    /// newest turns, turns of the last seconds, and a budget in bytes. Without a rule
    /// everything is kept again. Collections apply the rules.
    #[pyo3(signature = (session=None, *, turns=None, seconds=None, budget_bytes=None))]
    fn retain(
        &self,
        py: Python<'_>,
        session: Option<&str>,
        turns: Option<u64>,
        seconds: Option<f64>,
        budget_bytes: Option<u64>,
    ) -> PyResult<()> {
        let repo = self.repo()?;
        let rules = Retention { turns, seconds, budget_bytes };
        patiently(py, || repo.retain(session, &rules))
    }

    /// Applies retention and frees unreachable content; with ``repack``, also recompresses
    /// everything. Other processes can read and write concurrently. A signal such as Ctrl-C
    /// ends the wait; the collection continues, or stops safely with the process.
    #[pyo3(signature = (*, repack=false))]
    fn collect<'py>(&self, py: Python<'py>, repack: bool) -> PyResult<Bound<'py, PyDict>> {
        let repo = self.repo()?;
        let done = interruptibly(py, move || repo.collect(repack))?;
        let report = PyDict::new(py);
        report.set_item("expired_turns", done.expired_turns)?;
        report.set_item("freed_objects", done.freed.objects)?;
        report.set_item("freed_bytes", done.freed.bytes)?;
        report.set_item("written_bytes", done.written_bytes)?;
        Ok(report)
    }
}

/// The result of a merge.
#[pyclass(frozen, module = "turntree", get_all)]
pub(crate) struct MergeOutcome {
    /// The newest snapshot of the branch now.
    id: String,
    /// ``up-to-date``, ``fast-forward`` or ``merged``.
    kind: &'static str,
    /// Conflicting paths; all versions are in the section ``conflicts``.
    conflicts: Vec<String>,
}

/// Iterates over snapshots backwards from a revision. Skips expired ones.
#[pyclass(frozen, module = "turntree")]
pub(crate) struct Log {
    host: Arc<Host>,
    walk: Mutex<Walk>,
}

struct Walk {
    read: VecDeque<turntree::Result<turntree::local::Snapshot>>,
    next: Option<ObjectId>,
}

#[pymethods]
impl Log {
    fn __iter__(slf: Bound<'_, Self>) -> Bound<'_, Self> {
        slf
    }

    fn __next__(&self, py: Python<'_>) -> PyResult<Option<Snapshot>> {
        let repo = repo_of(&self.host)?;
        let found = detached(py, || {
            let mut walk = self.walk.lock().unwrap_or_else(PoisonError::into_inner);
            walk.step(&repo).transpose()
        })?;
        Ok(found.map(|inner| Snapshot { inner }))
    }
}

impl Walk {
    /// Returns the next snapshot. Skips expired ones.
    fn step(&mut self, repo: &Repo) -> Option<turntree::Result<turntree::local::Snapshot>> {
        loop {
            match self.read.pop_front() {
                Some(Err(error)) if error.kind() == ErrorKind::Expired => {}
                Some(found) => return Some(found),
                None => {
                    let start = self.next.take()?;
                    if let Err(error) = self.read_page(repo, start) {
                        return Some(Err(error));
                    }
                }
            }
        }
    }

    fn read_page(&mut self, repo: &Repo, start: ObjectId) -> turntree::Result<()> {
        let entries = repo.repository().history(&[start], &[])?.first_parent();
        for entry in entries.take(LOG_PAGE) {
            let entry = entry?;
            self.next = entry.parents.first().copied();
            self.read.push_back(repo.snapshot(&entry.id.to_string()));
        }
        Ok(())
    }
}
