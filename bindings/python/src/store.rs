//! A store: opening and closing, its sessions and history, and operations on whole branches.

#![expect(clippy::needless_pass_by_value, reason = "Python makes the arguments for each call")]

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use pyo3::prelude::*;
use pyo3::types::PyTuple;
use turntree::ErrorKind;
use turntree::local::{EntryChange, Host, HostOptions, Repo, Retention};
use turntree::maintenance::{FsckReport, Stats};
use turntree::repo::{BranchName, NewPin, PatternOptions, Pin, Resolution, SessionLabels};
use turntree::store::StoreKeys;

use crate::branches::{self, Conflict, MergeOutcome};
use crate::error::{already_exists, raised};
use crate::history::{self, Log};
use crate::lookup::{branch_name, repo_of, snapshot_at};
use crate::names;
use crate::process::{BETWEEN_SIGNALS, detached, interruptibly, patiently};
#[cfg(feature = "program")]
use crate::program_store::ProgramStore;
use crate::restore::{self, Restore};
use crate::search::{self, Search};
use crate::snapshot::Snapshot;
use crate::transaction::Transaction;
use crate::upkeep::{self, Collected};
use crate::values::{Content, Expect, Named, Revision, micros_of};

/// The store in a directory, which is created if it is missing.
///
/// ``actor`` is the author of snapshots. With ``maintain``, a background thread packs a large
/// journal regularly. After a fork the child process reopens the store automatically.
///
/// An encrypted store is opened with its ``key``, which ``turntree.keys`` unwraps; a missing
/// or wrong key raises ``Encrypted``.
#[cfg_attr(
    feature = "program",
    pyclass(frozen, module = "turntree", weakref, extends = ProgramStore)
)]
#[cfg_attr(not(feature = "program"), pyclass(frozen, module = "turntree", weakref))]
pub(crate) struct Store {
    host: Arc<Host>,
}

impl Store {
    fn repo(&self) -> PyResult<Repo> {
        repo_of(&self.host)
    }

    pub(crate) fn open(
        py: Python<'_>,
        path: PathBuf,
        actor: &str,
        create: bool,
        maintain: bool,
        key: Option<Content>,
    ) -> PyResult<PyClassInitializer<Self>> {
        let keys = key.map(|key| StoreKeys::parse(&key.0)).transpose();
        let options = HostOptions {
            actor: actor.to_owned(),
            create,
            maintain,
            keys: keys.map_err(|error| raised(&error))?,
            lock_timeout: BETWEEN_SIGNALS,
        };
        let host = detached(py, || Host::open(path, options))?;
        let store = Self { host: Arc::new(host) };
        #[cfg(feature = "program")]
        let base = PyClassInitializer::from(ProgramStore { host: Arc::clone(&store.host) });
        #[cfg(feature = "program")]
        return Ok(base.add_subclass(store));
        #[cfg(not(feature = "program"))]
        Ok(store.into())
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
        key: Option<Content>,
    ) -> PyResult<PyClassInitializer<Self>> {
        Self::open(py, path, actor, create, maintain, key)
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

    /// Returns the snapshot at a revision, such as ``task``, ``task/plan-b``, ``task~1`` or an id;
    /// None if it does not exist. ``store[revision]`` raises ``NotFound`` then.
    fn get(&self, py: Python<'_>, revision: Revision) -> PyResult<Option<Snapshot>> {
        let repo = self.repo()?;
        let found = detached(py, || match snapshot_at(&repo, &revision.0) {
            Err(error) if error.kind() == ErrorKind::NotFound => Ok(None),
            found => found.map(Some),
        })?;
        Ok(found.map(|inner| Snapshot { inner }))
    }

    /// Returns the snapshot at a revision, such as ``task``, ``task/plan-b``, ``task~1`` or an id;
    /// raises ``NotFound``.
    fn __getitem__(&self, py: Python<'_>, revision: Revision) -> PyResult<Snapshot> {
        let repo = self.repo()?;
        let inner = detached(py, || snapshot_at(&repo, &revision.0))?;
        Ok(Snapshot { inner })
    }

    /// Returns True if there is a snapshot at this revision.
    fn __contains__(&self, py: Python<'_>, revision: Revision) -> PyResult<bool> {
        Ok(self.get(py, revision)?.is_some())
    }

    /// Iterates over the sessions that have a snapshot, ordered by name.
    fn __iter__<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyAny>> {
        Ok(PyTuple::new(py, self.sessions(py)?)?.try_iter()?.into_any())
    }

    /// Returns the newest snapshot of a branch; None if the branch is missing. Unlike ``get``, it
    /// accepts the name of a session or branch only, so a tag of that name does not hide it.
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

    /// Creates a branch, of any session, at a snapshot, without a copy. Returns the snapshot.
    /// Raises ``AlreadyExists`` if there is a branch of this name.
    #[pyo3(signature = (branch, *, at))]
    fn fork(&self, py: Python<'_>, branch: &str, at: Revision) -> PyResult<Snapshot> {
        let inner = branches::fork(py, &self.repo()?, branch, &at.0)?;
        Ok(Snapshot { inner })
    }

    /// Iterates over the snapshots backwards from a revision, read on demand: at most ``limit``,
    /// only those later than ``since``, and only those that changed something at or below
    /// ``path``.
    #[pyo3(signature = (revision, *, limit=None, since=None, path=None))]
    fn log(
        &self,
        py: Python<'_>,
        revision: Revision,
        limit: Option<u64>,
        since: Option<Bound<'_, PyAny>>,
        path: Option<String>,
    ) -> PyResult<Log> {
        let repo = self.repo()?;
        let since = since.as_ref().map(micros_of).transpose()?;
        let at = detached(py, || repo.resolve(&revision.0))?;
        Ok(Log::new(Arc::clone(&self.host), at, limit, since, path))
    }

    /// Returns the changes between two revisions, ordered by path.
    fn diff(
        &self,
        py: Python<'_>,
        old: Revision,
        new: Revision,
    ) -> PyResult<Named<Vec<EntryChange>>> {
        let repo = self.repo()?;
        let work = || snapshot_at(&repo, &new.0)?.changes_since(&snapshot_at(&repo, &old.0)?);
        detached(py, work).map(Named)
    }

    /// Merges the newest snapshot of one branch into another branch.
    fn merge(&self, py: Python<'_>, into: &str, theirs: &str) -> PyResult<MergeOutcome> {
        branches::merge(py, &self.repo()?, into, theirs)
    }

    /// Applies the changes of single snapshots to a branch, each as a new snapshot. A revision can
    /// also be a range: ``task..task/plan-b`` are the snapshots of the second that the first does not
    /// have, oldest first. With ``only``, the changes at and below these paths. One ``undo`` reverts
    /// all.
    #[pyo3(signature = (into, *revisions, only=vec![]))]
    fn cherry_pick(
        &self,
        py: Python<'_>,
        into: &str,
        revisions: Vec<Revision>,
        only: Vec<String>,
    ) -> PyResult<Vec<MergeOutcome>> {
        let (repo, into) = (self.repo()?, branch_name(into)?);
        let revisions: Vec<String> = revisions.into_iter().map(|revision| revision.0).collect();
        patiently(py, || branches::cherry_pick(&repo, &into, &revisions, &only))
    }

    /// Returns the conflicts of merges that are open on a branch, ordered by path.
    fn conflicts(&self, py: Python<'_>, branch: &str) -> PyResult<Named<Vec<Conflict>>> {
        let (repo, branch) = (self.repo()?, branch_name(branch)?);
        detached(py, || branches::conflicts(&repo, &branch)).map(Named)
    }

    /// Resolves open conflicts of a branch in a new snapshot: those at ``paths``, or all. ``take`` is
    /// ``ours``, ``theirs``, ``base``, or ``current`` for the entry as it is now; ``content`` is for
    /// one path. Raises ``NotFound`` if there is no such conflict.
    #[pyo3(signature = (branch, *paths, take=None, content=None, message=None))]
    fn resolve(
        &self,
        py: Python<'_>,
        branch: &str,
        paths: Vec<String>,
        take: Option<&str>,
        content: Option<Content>,
        message: Option<&str>,
    ) -> PyResult<Named<Resolution>> {
        let (repo, branch) = (self.repo()?, branch_name(branch)?);
        let take = branches::taken(take, content.map(|content| content.0));
        let take = take.map_err(|error| raised(&error))?;
        patiently(py, || branches::resolve(&repo, &branch, &paths, &take, message)).map(Named)
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
    /// ends the wait; the collection continues, or stops safely with the process. With
    /// ``dry_run``, nothing changes, and the bytes are estimates.
    #[pyo3(signature = (*, repack=false, dry_run=false))]
    fn collect(&self, py: Python<'_>, repack: bool, dry_run: bool) -> PyResult<Named<Collected>> {
        let repo = self.repo()?;
        interruptibly(py, move || upkeep::collect(&repo, repack, dry_run)).map(Named)
    }

    /// Returns the retention rules of a session, or those of sessions without their own; None if
    /// there are none.
    #[pyo3(signature = (session=None))]
    fn retention(
        &self,
        py: Python<'_>,
        session: Option<&str>,
    ) -> PyResult<Named<Option<Retention>>> {
        let repo = self.repo()?;
        detached(py, || repo.retention(session)).map(Named)
    }

    /// Writes a snapshot as files into a directory, which is created if it is missing: everything,
    /// or the entries at and below the paths ``only``. Existing files are replaced only with
    /// ``overwrite``, and no file is deleted. The home directory and those above it require
    /// ``allow_broad``. Returns the files; with ``dry_run``, nothing is written.
    #[pyo3(signature = (
        revision, directory, *, only=vec![], overwrite=false, allow_broad=false, dry_run=false
    ))]
    #[expect(clippy::too_many_arguments, reason = "the options of Python")]
    fn restore(
        &self,
        py: Python<'_>,
        revision: Revision,
        directory: PathBuf,
        only: Vec<String>,
        overwrite: bool,
        allow_broad: bool,
        dry_run: bool,
    ) -> PyResult<Named<Vec<restore::File>>> {
        let repo = self.repo()?;
        let options = Restore { only, overwrite, allow_broad, dry_run };
        let work = || restore::restore(&repo, &revision.0, &directory, &options);
        patiently(py, work).map(Named)
    }

    /// Rolls a branch back to the snapshot ``to`` or to its turn ``turn``, as a new snapshot: all
    /// of it, or the entries at and below the paths ``only``. With ``workspace``, the files of that
    /// directory follow, and are saved before; ``undo`` restores both. With ``dry_run``, nothing
    /// changes.
    #[pyo3(signature = (
        branch, *, to=None, turn=None, workspace=None, only=vec![], allow_broad=false,
        dry_run=false
    ))]
    #[expect(clippy::too_many_arguments, reason = "the options of Python")]
    fn rollback(
        &self,
        py: Python<'_>,
        branch: &str,
        to: Option<Revision>,
        turn: Option<u64>,
        workspace: Option<PathBuf>,
        only: Vec<String>,
        allow_broad: bool,
        dry_run: bool,
    ) -> PyResult<Named<restore::RolledBack>> {
        let repo = self.repo()?;
        branch_name(branch)?;
        let to = restore::target(to.map(|to| to.0), turn).map_err(|error| raised(&error))?;
        let options = Restore { only, overwrite: true, allow_broad, dry_run };
        let dir = workspace.as_deref();
        let work = || restore::roll_back(&repo, branch, &to, dir, &options);
        patiently(py, work).map(Named)
    }

    /// Returns the parts of the entry or section at a path, each with the turn that wrote it: the
    /// lines of a text, the entries of a map, or the records of a list.
    fn blame(
        &self,
        py: Python<'_>,
        revision: Revision,
        path: String,
    ) -> PyResult<Named<Vec<search::Line>>> {
        let repo = self.repo()?;
        interruptibly(py, move || search::blame(&repo, &revision.0, &path)).map(Named)
    }

    /// Searches the lines of every message, entry and file in the history of a session, of the
    /// revision ``at``, or of all sessions, for a regular expression, or with ``fixed`` for a text.
    /// Returns each distinct entry once, in the first turn that has it.
    #[pyo3(signature = (
        pattern, *, session=None, at=None, paths=vec![], fixed=false, ignore_case=false, word=false
    ))]
    #[expect(clippy::too_many_arguments, reason = "the options of Python")]
    fn grep(
        &self,
        py: Python<'_>,
        pattern: String,
        session: Option<String>,
        at: Option<Revision>,
        paths: Vec<String>,
        fixed: bool,
        ignore_case: bool,
        word: bool,
    ) -> PyResult<Named<Vec<search::Match>>> {
        let repo = self.repo()?;
        let options = PatternOptions { fixed, ignore_case, word };
        let revision = at.map(|at| at.0);
        let query = Search { pattern, options, session, revision, paths };
        interruptibly(py, move || query.run(&repo)).map(Named)
    }

    /// Finds the first snapshot on the way from ``good`` to ``bad`` for which ``is_bad`` returns
    /// True, with as few calls as possible; as in a binary search, all later ones must be bad, too.
    /// ``good`` is an ancestor of ``bad`` by first parents. Expired snapshots are skipped.
    fn bisect(
        &self,
        py: Python<'_>,
        good: Revision,
        bad: Revision,
        is_bad: &Bound<'_, PyAny>,
    ) -> PyResult<Snapshot> {
        let inner = history::first_bad(py, &self.repo()?, &good.0, &bad.0, is_bad)?;
        Ok(Snapshot { inner })
    }

    /// Returns every tag, ordered by name.
    fn tags(&self, py: Python<'_>) -> PyResult<Named<Vec<names::Tagged>>> {
        let repo = self.repo()?;
        detached(py, || names::tags(&repo)).map(Named)
    }

    /// Gives a snapshot a fixed name, which is also a revision, and protects it from retention.
    /// Raises ``AlreadyExists`` if there is a tag of this name.
    #[pyo3(signature = (name, *, at, message=""))]
    fn tag(&self, py: Python<'_>, name: &str, at: Revision, message: &str) -> PyResult<()> {
        let repo = self.repo()?;
        match patiently(py, || names::tag(&repo, name, &at.0, message))? {
            true => Ok(()),
            false => Err(already_exists(format!(
                "tag '{name}' exists already: choose another name, or delete it with untag"
            ))),
        }
    }

    /// Deletes a tag; raises ``NotFound``.
    fn untag(&self, py: Python<'_>, name: &str) -> PyResult<()> {
        let repo = self.repo()?;
        patiently(py, || names::untag(&repo, name))
    }

    /// Returns every pin, including expired ones, ordered by name.
    fn pins(&self, py: Python<'_>) -> PyResult<Named<Vec<Pin>>> {
        let repo = self.repo()?;
        detached(py, || names::pins(&repo)).map(Named)
    }

    /// Protects a snapshot from retention, until ``expires``. The name is the beginning of its id
    /// by default. A pin of this name on the same snapshot is replaced; on another snapshot it raises
    /// ``AlreadyExists``.
    #[pyo3(signature = (at, *, name=None, reason="", expires=None))]
    fn pin(
        &self,
        py: Python<'_>,
        at: Revision,
        name: Option<String>,
        reason: &str,
        expires: Option<Bound<'_, PyAny>>,
    ) -> PyResult<Named<Pin>> {
        let repo = self.repo()?;
        let expires_micros = expires.as_ref().map(micros_of).transpose()?;
        let new = NewPin { name, reason: reason.to_owned(), expires_micros };
        match patiently(py, || names::pin(&repo, &at.0, &new))? {
            Some(pin) => Ok(Named(pin)),
            None => Err(already_exists("a pin on another snapshot has this name".to_owned())),
        }
    }

    /// Removes a pin; raises ``NotFound``.
    fn unpin(&self, py: Python<'_>, name: &str) -> PyResult<()> {
        let repo = self.repo()?;
        patiently(py, || names::unpin(&repo, name))
    }

    /// Returns the title and the labels that people gave a session.
    fn labels(&self, py: Python<'_>, session: &str) -> PyResult<Named<SessionLabels>> {
        let repo = self.repo()?;
        detached(py, || names::labels(&repo, session)).map(Named)
    }

    /// Adds labels to a session, and removes the labels ``remove``. A label is one word. Returns
    /// the result.
    #[pyo3(signature = (session, *labels, remove=vec![]))]
    fn label(
        &self,
        py: Python<'_>,
        session: &str,
        labels: Vec<String>,
        remove: Vec<String>,
    ) -> PyResult<Named<SessionLabels>> {
        let repo = self.repo()?;
        let change = |all: &mut SessionLabels| {
            all.labels.extend(labels.iter().cloned());
            all.labels.retain(|label| !remove.contains(label));
        };
        let reason = format!("session label {session}");
        patiently(py, || names::set_labels(&repo, session, change, &reason)).map(Named)
    }

    /// Gives a session a title that replaces that of its client; None removes it. Its name stays.
    fn rename(&self, py: Python<'_>, session: &str, title: Option<String>) -> PyResult<()> {
        let repo = self.repo()?;
        let change = |all: &mut SessionLabels| all.title.clone_from(&title);
        let reason = format!("session rename {session}");
        patiently(py, || names::set_labels(&repo, session, change, &reason)).map(drop)
    }

    /// Examines the store: every byte, or with ``quick`` only its structure. Changes nothing.
    #[pyo3(signature = (*, quick=false))]
    fn fsck(&self, py: Python<'_>, quick: bool) -> PyResult<Named<FsckReport>> {
        let repo = self.repo()?;
        interruptibly(py, move || upkeep::examine(&repo, quick)).map(Named)
    }

    /// Measures the sessions of the store, or one of them.
    #[pyo3(signature = (session=None))]
    fn stats(&self, py: Python<'_>, session: Option<String>) -> PyResult<Named<Stats>> {
        let repo = self.repo()?;
        interruptibly(py, move || upkeep::measure(&repo, session.as_deref())).map(Named)
    }
}
