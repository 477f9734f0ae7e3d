//! A store: opened and closed, its sessions, their history, and what is done to whole branches.

use std::collections::VecDeque;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread::JoinHandle;
use std::time::{SystemTime, UNIX_EPOCH};

use pyo3::prelude::*;
use pyo3::types::PyDict;
use turntree::local::{Change, Repo, open_with, random_bytes};
use turntree::maintenance::{Policy, Purpose, Scope, auto, collect, remove_policy, set_policy};
use turntree::object::{ObjectId, Time};
use turntree::repo::{BranchName, MergeKind, Signature};
use turntree::store::{OpenOptions, StoreKeys, Tier};
use turntree::{Error, ErrorKind};

use crate::error::{of_kind, raised};
use crate::process::{
    BETWEEN_SIGNALS, caught, detached, in_this_process, interruptibly, patiently,
};
use crate::snapshot::Snapshot;
use crate::transaction::Transaction;

/// Snapshots that a walk through history reads at once.
const LOG_PAGE: usize = 64;

/// Bytes of the journal from which closing a store packs it: half of what is worth it meanwhile.
const CLOSING_BYTES: u64 = auto::DUE_BYTES / 2;

const MICROS_PER_SECOND: f64 = 1e6;

/// The tip that a branch must still have when a change of it is committed.
#[derive(Debug, Clone)]
pub(crate) enum Expect {
    /// Whichever it is then.
    Any,
    /// This one; `None` for a branch that is not there.
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

/// What a store and its transactions have in common.
pub(crate) struct Shared {
    path: PathBuf,
    actor: String,
    maintains: bool,
    /// What opens it, if it is encrypted.
    keys: Option<StoreKeys>,
    state: Mutex<State>,
}

struct State {
    /// The process that opened the handle.
    process: u32,
    /// `None` once the store is closed.
    repo: Option<Repo>,
    maintenance: Option<JoinHandle<()>>,
}

impl Shared {
    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn open(&self) -> turntree::Result<Repo> {
        let options =
            OpenOptions { lock_timeout: BETWEEN_SIGNALS, ..OpenOptions::new(random_bytes()) };
        let opened = open_with(&self.path, self.keys, options)?;
        Ok(Repo::from(opened).acting_as(self.actor.clone()))
    }

    fn open_or_create(&self) -> turntree::Result<Repo> {
        match self.open() {
            Err(error) if error.kind() == ErrorKind::NotFound => {
                drop(Repo::open_or_create(&self.path)?);
                self.open()
            }
            opened => opened,
        }
    }

    /// The handle of this process. One that came with a fork is left alone, since its locks are its
    /// parent's, and the store is opened anew.
    pub(crate) fn repo(&self) -> PyResult<Repo> {
        let mut state = self.lock();
        if state.repo.is_some() && state.process != std::process::id() {
            let own = self.open().map_err(|error| raised(&error))?;
            std::mem::forget(state.repo.replace(own));
            std::mem::forget(state.maintenance.take());
            state.process = std::process::id();
        }
        state.repo.clone().ok_or_else(|| {
            let text = format!("the store {} is closed", self.path.display());
            of_kind(ErrorKind::InvalidInput, text)
        })
    }

    pub(crate) fn resolve(&self, py: Python<'_>, revision: &str) -> PyResult<ObjectId> {
        let repo = self.repo()?;
        detached(py, || resolve(&repo, revision))
    }

    pub(crate) fn commit(
        &self,
        py: Python<'_>,
        change: &Change,
        message: &str,
    ) -> PyResult<Vec<(BranchName, Option<ObjectId>)>> {
        let tips = patiently(py, || change.commit(message))?;
        self.maintain();
        Ok(tips)
    }

    /// Gives the handle back, and packs the journal if it has enough for that: what this handle wrote
    /// could not be packed while it was open.
    fn leave(&self, repo: Repo) -> turntree::Result<()> {
        let is_worth_it = repo.repository().store().summary()?.journal_bytes >= CLOSING_BYTES;
        drop(repo);
        if self.maintains && is_worth_it {
            let repo = self.open()?;
            collect(repo.repository(), Purpose::Step, &stamp("maintenance"), &mut |_| ())?;
        }
        Ok(())
    }

    /// Packs on a thread of its own what the journal has too much of.
    fn maintain(&self) {
        let Ok(repo) = self.repo() else { return };
        if !self.maintains || !auto::is_due(repo.repository()).unwrap_or(false) {
            return;
        }
        let mut state = self.lock();
        if state.maintenance.as_ref().is_some_and(|thread| !thread.is_finished()) {
            return;
        }
        let work = move || {
            // What fails here is tried again after the next commit; the store is as it was.
            let step = || auto::step(repo.repository(), &stamp("maintenance"));
            let _ = in_this_process(step);
        };
        state.maintenance = std::thread::Builder::new().spawn(work).ok();
    }
}

fn stamp(actor: &str) -> Signature {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    let micros = i64::try_from(since.as_micros()).unwrap_or(i64::MAX);
    Signature { time: Time { micros, offset_minutes: 0 }, actor: actor.to_owned() }
}

/// The commit of a revision. An id is looked for in what is known first.
fn resolve(repo: &Repo, revision: &str) -> turntree::Result<ObjectId> {
    if let Ok(id) = revision.parse::<ObjectId>()
        && repo.repository().commit(&id).is_ok()
    {
        return Ok(id);
    }
    repo.refresh()?;
    let found = repo.repository().resolve(revision)?;
    match found.path {
        None => Ok(found.commit),
        Some(_) => Err(Error::invalid(format!("'{revision}' names an entry, not a snapshot"))),
    }
}

fn tip(repo: &Repo, branch: &BranchName) -> turntree::Result<Option<ObjectId>> {
    repo.refresh()?;
    Ok(repo.repository().tip(branch))
}

fn keys_of(text: &[u8]) -> PyResult<StoreKeys> {
    let keys = std::str::from_utf8(text).ok().and_then(StoreKeys::from_text);
    keys.ok_or_else(|| {
        let text = "the key is none of a store: expected what was unwrapped of keys/NAME.age";
        of_kind(ErrorKind::InvalidInput, text.to_owned())
    })
}

fn branch_name(name: &str) -> PyResult<BranchName> {
    name.parse().map_err(|error: Error| raised(&error))
}

/// The store in a directory, which is made if nothing is there.
///
/// ``actor`` is named as the author of snapshots. With ``maintain``, what the journal has too much of
/// is packed now and then, on a thread of its own. After a fork of the process the child opens the store
/// anew by itself.
///
/// An encrypted store is opened with its ``key``, which ``turntree.keys`` unwraps; without it, and with
/// another one, ``Encrypted`` is raised.
#[pyclass(frozen, module = "turntree", weakref)]
pub(crate) struct Store {
    shared: Arc<Shared>,
}

impl Store {
    fn repo(&self) -> PyResult<Repo> {
        self.shared.repo()
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
        let state = State { process: std::process::id(), repo: None, maintenance: None };
        let shared = Shared {
            // A later change of the working directory is not to lead elsewhere.
            path: std::path::absolute(&path).unwrap_or(path),
            actor: actor.to_owned(),
            maintains: maintain,
            keys: key.map(keys_of).transpose()?,
            state: Mutex::new(state),
        };
        let repo = detached(py, || match create {
            true => shared.open_or_create(),
            false => shared.open(),
        })?;
        shared.lock().repo = Some(repo);
        Ok(Self { shared: Arc::new(shared) })
    }

    /// The directory.
    #[getter]
    fn path(&self) -> &Path {
        &self.shared.path
    }

    /// Whether it was closed.
    #[getter]
    fn closed(&self) -> bool {
        self.shared.lock().repo.is_none()
    }

    /// Closes the store. Everything that was committed is durable already. With ``maintain``, a journal of
    /// 4 MiB and more is packed now, which takes some tenths of a second.
    fn close(&self, py: Python<'_>) {
        let mut state = self.shared.lock();
        let (repo, thread) = (state.repo.take(), state.maintenance.take());
        let is_own = state.process == std::process::id();
        drop(state);
        if !is_own {
            std::mem::forget((repo, thread));
            return;
        }
        py.detach(move || {
            if let Some(thread) = thread {
                let _ = thread.join();
            }
            if let Some(repo) = repo {
                // What fails here is tried again by others; the store is as it was.
                let _ = caught(|| self.shared.leave(repo));
            }
        });
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
        format!("<turntree.Store {}>", self.shared.path.display())
    }

    /// The sessions that have a snapshot, in order of names.
    fn sessions(&self, py: Python<'_>) -> PyResult<Vec<String>> {
        let repo = self.repo()?;
        detached(py, || {
            repo.refresh()?;
            Ok(repo.sessions().iter().map(|session| session.name().to_owned()).collect())
        })
    }

    /// The branches of a session or of all, as ``session/branch``, in order of names.
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

    /// The id of the newest snapshot of a branch; None when it is not there. A session alone means its
    /// branch ``main``.
    fn tip(&self, py: Python<'_>, branch: &str) -> PyResult<Option<String>> {
        let (repo, branch) = (self.repo()?, branch_name(branch)?);
        let found = detached(py, || tip(&repo, &branch))?;
        Ok(found.map(|id| id.to_string()))
    }

    /// The snapshot at a revision, such as ``task``, ``task/plan-b``, ``task~1`` or an id.
    fn snapshot(&self, py: Python<'_>, revision: &str) -> PyResult<Snapshot> {
        let repo = self.repo()?;
        let inner = detached(py, || {
            let id = resolve(&repo, revision)?;
            repo.snapshot(&id.to_string())
        })?;
        Ok(Snapshot { inner })
    }

    /// The newest snapshot of a branch; None when it is not there.
    fn newest(&self, py: Python<'_>, branch: &str) -> PyResult<Option<Snapshot>> {
        let repo = self.repo()?;
        branch_name(branch)?;
        let found = detached(py, || {
            repo.refresh()?;
            repo.session(branch)?.newest()
        })?;
        Ok(found.map(|inner| Snapshot { inner }))
    }

    /// Begins a change of a branch, which waits in memory. With ``expect``, committing it raises
    /// ``Conflict`` unless the newest snapshot is that one, or None for a branch that is not there;
    /// otherwise it goes on top of whatever is newest then.
    #[pyo3(signature = (branch, message="", *, expect=Expect::Any))]
    fn begin(&self, branch: &str, message: &str, expect: Expect) -> PyResult<Transaction> {
        let (change, branch) = (self.repo()?.change(), branch_name(branch)?);
        Transaction::begin(Arc::clone(&self.shared), change, branch, message.to_owned(), expect)
    }

    /// Begins a branch, of any session, at a snapshot. Copies nothing. Returns the id.
    fn fork(&self, py: Python<'_>, branch: &str, revision: &str) -> PyResult<String> {
        let (repo, name) = (self.repo()?, branch_name(branch)?);
        let at = self.shared.resolve(py, revision)?;
        let mut change = repo.change();
        change.on(&name).expect(None).go_on_from(at);
        patiently(py, || change.commit(&format!("fork {name}")))?;
        Ok(at.to_string())
    }

    /// The snapshots from a revision back, newest first, read as they are asked for.
    fn log(&self, py: Python<'_>, revision: &str) -> PyResult<Log> {
        let at = self.shared.resolve(py, revision)?;
        let walk = Walk { read: VecDeque::new(), next: Some(at) };
        Ok(Log { store: Arc::clone(&self.shared), walk: Mutex::new(walk) })
    }

    /// What changed between two revisions: paths of entries, and how.
    fn diff(&self, py: Python<'_>, old: &str, new: &str) -> PyResult<Vec<(String, &'static str)>> {
        let (old, new) = (self.snapshot(py, old)?, self.snapshot(py, new)?);
        new.changes_since(py, &old)
    }

    /// Merges the newest snapshot of one branch into another one.
    fn merge(&self, py: Python<'_>, into: &str, theirs: &str) -> PyResult<MergeOutcome> {
        let repo = self.repo()?;
        let outcome = patiently(py, || {
            repo.refresh()?;
            repo.session(into)?.merge(&repo.session(theirs)?)
        })?;
        let kind = match outcome.kind {
            MergeKind::UpToDate => "up-to-date",
            MergeKind::FastForward => "fast-forward",
            MergeKind::Merged => "merged",
        };
        let id = outcome.snapshot.id().to_string();
        Ok(MergeOutcome { id, kind, conflicts: outcome.conflicts })
    }

    /// Takes back the newest operation of this store's actor. Returns what it was.
    fn undo(&self, py: Python<'_>) -> PyResult<Option<String>> {
        let repo = self.repo()?;
        patiently(py, || {
            repo.refresh()?;
            repo.undo()
        })
    }

    /// Repeats the newest operation that was undone. Returns what it was.
    fn redo(&self, py: Python<'_>) -> PyResult<Option<String>> {
        let repo = self.repo()?;
        patiently(py, || {
            repo.refresh()?;
            repo.redo()
        })
    }

    /// Deletes a session with all of its branches. Returns whether it was there. An undo brings it back
    /// until a collection has let it go.
    fn delete(&self, py: Python<'_>, session: &str) -> PyResult<bool> {
        let repo = self.repo()?;
        branch_name(session)?;
        patiently(py, || {
            repo.refresh()?;
            let branches = repo.session(session)?.branches();
            let mut change = repo.change();
            for branch in &branches {
                change.on(branch.branch()).delete();
            }
            change.commit(&format!("delete {session}"))?;
            Ok(!branches.is_empty())
        })
    }

    /// Sets what a session keeps, or every session without rules of its own: the newest turns, those of
    /// the last seconds, as many as fit into so many bytes. Without a rule it keeps all again. Takes
    /// effect with collections.
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
        let scope = session.map_or(Scope::Default, Scope::Session);
        let keep_within = seconds.map(micros).transpose()?;
        let rules = Policy { keep_last: turns, keep_within, budget_bytes, ..Policy::default() };
        patiently(py, || {
            let mut change = repo.repository().begin();
            match rules == Policy::default() {
                true => remove_policy(&mut change, scope)?,
                false => set_policy(&mut change, scope, &rules)?,
            }
            change.commit(&stamp(&self.shared.actor), "retention").map(drop)
        })
    }

    /// Applies retention and frees what nothing leads to; with ``repack``, also compresses everything
    /// anew. Others read and write meanwhile. A signal such as Ctrl-C ends the wait for it; what was begun
    /// goes on to its end, or stops with the process and harms nothing.
    #[pyo3(signature = (*, repack=false))]
    fn collect<'py>(&self, py: Python<'py>, repack: bool) -> PyResult<Bound<'py, PyDict>> {
        let (repo, actor) = (self.repo()?, self.shared.actor.clone());
        let done = interruptibly(py, move || {
            let stamp = stamp(&actor);
            let mut done = collect(repo.repository(), Purpose::Gc, &stamp, &mut |_| ())?;
            if repack {
                let purpose = Purpose::Repack(Tier::Compacted);
                let packed = collect(repo.repository(), purpose, &stamp, &mut |_| ())?;
                done.written_bytes += packed.written_bytes;
            }
            Ok(done)
        })?;
        let report = PyDict::new(py);
        report.set_item("expired_turns", done.expired_turns)?;
        report.set_item("freed_objects", done.freed.objects)?;
        report.set_item("freed_bytes", done.freed.bytes)?;
        report.set_item("written_bytes", done.written_bytes)?;
        Ok(report)
    }
}

#[expect(clippy::cast_possible_truncation, reason = "bounds are checked before")]
fn micros(seconds: f64) -> PyResult<i64> {
    let micros = seconds * MICROS_PER_SECOND;
    if !(0.0..1e18).contains(&micros) {
        let text = format!("{seconds} is no number of seconds from now back");
        return Err(of_kind(ErrorKind::InvalidInput, text));
    }
    Ok(micros as i64)
}

/// The outcome of a merge.
#[pyclass(frozen, module = "turntree", get_all)]
pub(crate) struct MergeOutcome {
    /// The newest snapshot of the branch now.
    id: String,
    /// ``up-to-date``, ``fast-forward`` or ``merged``.
    kind: &'static str,
    /// Paths that both changed to something else; all versions are in the section ``conflicts``.
    conflicts: Vec<String>,
}

/// Snapshots from a revision back, newest first. Those that expired are passed over.
#[pyclass(frozen, module = "turntree")]
pub(crate) struct Log {
    store: Arc<Shared>,
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
        let repo = self.store.repo()?;
        let found = detached(py, || {
            let mut walk = self.walk.lock().unwrap_or_else(PoisonError::into_inner);
            walk.step(&repo).transpose()
        })?;
        Ok(found.map(|inner| Snapshot { inner }))
    }
}

impl Walk {
    /// The next snapshot. Those that expired are passed over.
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
