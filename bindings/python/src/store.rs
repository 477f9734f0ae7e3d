//! A store: opening and closing, its sessions and history, and operations on whole branches.

#![expect(clippy::needless_pass_by_value, reason = "Python makes the arguments for each call")]

#[cfg(feature = "program")]
use std::collections::BTreeMap;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use pyo3::prelude::*;
#[cfg(feature = "program")]
use pyo3::types::PyBytes;
use pyo3::types::PyTuple;
use turntree::ErrorKind;
use turntree::local::{Host, HostOptions, Repo, Retention};
use turntree::repo::{BranchName, NewPin, PatternOptions, SessionLabels};
use turntree::store::StoreKeys;

use crate::branches::{self, MergeOutcome};
use crate::error::{already_exists, raised};
#[cfg(feature = "program")]
use crate::exchange::{self, WordSearch};
use crate::history::{self, Log};
use crate::lookup::{branch_name, repo_of, snapshot_at};
use crate::names;
use crate::process::{BETWEEN_SIGNALS, detached, interruptibly, patiently};
#[cfg(feature = "program")]
use crate::remote;
use crate::restore::{self, Restore};
use crate::search::{self, Search};
use crate::snapshot::Snapshot;
use crate::transaction::Transaction;
use crate::upkeep;
use crate::values::{Content, Expect, Revision, micros_of, named};

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

    fn open(
        py: Python<'_>,
        path: PathBuf,
        actor: &str,
        create: bool,
        maintain: bool,
        key: Option<Content>,
    ) -> PyResult<Self> {
        let keys = key.map(|key| StoreKeys::parse(&key.0)).transpose();
        let options = HostOptions {
            actor: actor.to_owned(),
            create,
            maintain,
            keys: keys.map_err(|error| raised(&error))?,
            lock_timeout: BETWEEN_SIGNALS,
        };
        let host = detached(py, || Host::open(path, options))?;
        Ok(Self { host: Arc::new(host) })
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
    ) -> PyResult<Self> {
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
    fn diff<'py>(
        &self,
        py: Python<'py>,
        old: Revision,
        new: Revision,
    ) -> PyResult<Vec<Bound<'py, PyAny>>> {
        let (old, new) = (self.__getitem__(py, old)?, self.__getitem__(py, new)?);
        new.changes_since(py, &old)
    }

    /// Merges the newest snapshot of one branch into another branch.
    fn merge(&self, py: Python<'_>, into: &str, theirs: &str) -> PyResult<MergeOutcome> {
        branches::merge(py, &self.repo()?, into, theirs)
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
    fn collect<'py>(
        &self,
        py: Python<'py>,
        repack: bool,
        dry_run: bool,
    ) -> PyResult<Bound<'py, PyAny>> {
        let repo = self.repo()?;
        let done = interruptibly(py, move || upkeep::collect(&repo, repack, dry_run))?;
        named(py, "Collected", (done.expired_turns, done.freed.0, done.freed.1, done.written_bytes))
    }

    /// Returns the retention rules of a session, or those of sessions without their own; None if
    /// there are none.
    #[pyo3(signature = (session=None))]
    fn retention<'py>(
        &self,
        py: Python<'py>,
        session: Option<&str>,
    ) -> PyResult<Option<Bound<'py, PyAny>>> {
        let repo = self.repo()?;
        let rules = detached(py, || repo.retention(session))?;
        let rules = rules.map(|rules| (rules.turns, rules.seconds, rules.budget_bytes));
        rules.map(|fields| named(py, "Retention", fields)).transpose()
    }

    /// Writes a snapshot as files into a directory, which is created if it is missing: everything,
    /// or the entries at and below the paths ``only``. Existing files are replaced only with
    /// ``overwrite``, and no file is deleted. The home directory and those above it require
    /// ``allow_broad``. Returns the files; with ``dry_run``, nothing is written.
    #[pyo3(signature = (
        revision, directory, *, only=vec![], overwrite=false, allow_broad=false, dry_run=false
    ))]
    #[expect(clippy::too_many_arguments, reason = "the options of Python")]
    fn restore<'py>(
        &self,
        py: Python<'py>,
        revision: Revision,
        directory: PathBuf,
        only: Vec<String>,
        overwrite: bool,
        allow_broad: bool,
        dry_run: bool,
    ) -> PyResult<Vec<Bound<'py, PyAny>>> {
        let repo = self.repo()?;
        let options = Restore { only, overwrite, allow_broad, dry_run };
        let work = || restore::restore(&repo, &revision.0, &directory, &options);
        restore::files_into_python(py, patiently(py, work)?)
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
    fn rollback<'py>(
        &self,
        py: Python<'py>,
        branch: &str,
        to: Option<Revision>,
        turn: Option<u64>,
        workspace: Option<PathBuf>,
        only: Vec<String>,
        allow_broad: bool,
        dry_run: bool,
    ) -> PyResult<Bound<'py, PyAny>> {
        let repo = self.repo()?;
        branch_name(branch)?;
        let to = restore::target(to.map(|to| to.0), turn).map_err(|error| raised(&error))?;
        let options = Restore { only, overwrite: true, allow_broad, dry_run };
        let dir = workspace.as_deref();
        let work = || restore::roll_back(&repo, branch, &to, dir, &options);
        patiently(py, work)?.into_python(py)
    }

    /// Returns the parts of the entry or section at a path, each with the turn that wrote it: the
    /// lines of a text, the entries of a map, or the records of a list.
    fn blame<'py>(
        &self,
        py: Python<'py>,
        revision: Revision,
        path: String,
    ) -> PyResult<Vec<Bound<'py, PyAny>>> {
        let repo = self.repo()?;
        let lines = interruptibly(py, move || search::blame(&repo, &revision.0, &path))?;
        lines.into_iter().map(|line| line.into_python(py)).collect()
    }

    /// Searches the lines of every message, entry and file in the history of a session, of the
    /// revision ``at``, or of all sessions, for a regular expression, or with ``fixed`` for a text.
    /// Returns each distinct entry once, in the first turn that has it.
    #[pyo3(signature = (
        pattern, *, session=None, at=None, paths=vec![], fixed=false, ignore_case=false, word=false
    ))]
    #[expect(clippy::too_many_arguments, reason = "the options of Python")]
    fn grep<'py>(
        &self,
        py: Python<'py>,
        pattern: String,
        session: Option<String>,
        at: Option<Revision>,
        paths: Vec<String>,
        fixed: bool,
        ignore_case: bool,
        word: bool,
    ) -> PyResult<Vec<Bound<'py, PyAny>>> {
        let repo = self.repo()?;
        let options = PatternOptions { fixed, ignore_case, word };
        let revision = at.map(|at| at.0);
        let query = Search { pattern, options, session, revision, paths };
        let found = interruptibly(py, move || query.run(&repo))?;
        found.into_iter().map(|one| one.into_python(py)).collect()
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
    fn tags<'py>(&self, py: Python<'py>) -> PyResult<Vec<Bound<'py, PyAny>>> {
        let repo = self.repo()?;
        let tags = detached(py, || names::tags(&repo))?;
        tags.into_iter().map(|tag| tag.into_python(py)).collect()
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
    fn pins<'py>(&self, py: Python<'py>) -> PyResult<Vec<Bound<'py, PyAny>>> {
        let repo = self.repo()?;
        let pins = detached(py, || names::pins(&repo))?;
        pins.into_iter().map(|pin| names::pin_into_python(py, pin)).collect()
    }

    /// Protects a snapshot from retention, until ``expires``. The name is the beginning of its id
    /// by default. A pin of this name on the same snapshot is replaced; on another snapshot it raises
    /// ``AlreadyExists``.
    #[pyo3(signature = (at, *, name=None, reason="", expires=None))]
    fn pin<'py>(
        &self,
        py: Python<'py>,
        at: Revision,
        name: Option<String>,
        reason: &str,
        expires: Option<Bound<'py, PyAny>>,
    ) -> PyResult<Bound<'py, PyAny>> {
        let repo = self.repo()?;
        let expires_micros = expires.as_ref().map(micros_of).transpose()?;
        let new = NewPin { name, reason: reason.to_owned(), expires_micros };
        match patiently(py, || names::pin(&repo, &at.0, &new))? {
            Some(pin) => names::pin_into_python(py, pin),
            None => Err(already_exists("a pin on another snapshot has this name".to_owned())),
        }
    }

    /// Removes a pin; raises ``NotFound``.
    fn unpin(&self, py: Python<'_>, name: &str) -> PyResult<()> {
        let repo = self.repo()?;
        patiently(py, || names::unpin(&repo, name))
    }

    /// Returns the title and the labels that people gave a session.
    fn labels<'py>(&self, py: Python<'py>, session: &str) -> PyResult<Bound<'py, PyAny>> {
        let repo = self.repo()?;
        names::labels_into_python(py, detached(py, || names::labels(&repo, session))?)
    }

    /// Adds labels to a session, and removes the labels ``remove``. A label is one word. Returns
    /// the result.
    #[pyo3(signature = (session, *labels, remove=vec![]))]
    fn label<'py>(
        &self,
        py: Python<'py>,
        session: &str,
        labels: Vec<String>,
        remove: Vec<String>,
    ) -> PyResult<Bound<'py, PyAny>> {
        let repo = self.repo()?;
        let change = |all: &mut SessionLabels| {
            all.labels.extend(labels.iter().cloned());
            all.labels.retain(|label| !remove.contains(label));
        };
        let reason = format!("session label {session}");
        let labels = patiently(py, || names::set_labels(&repo, session, change, &reason))?;
        names::labels_into_python(py, labels)
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
    fn fsck<'py>(&self, py: Python<'py>, quick: bool) -> PyResult<Bound<'py, PyAny>> {
        let repo = self.repo()?;
        let report = interruptibly(py, move || upkeep::examine(&repo, quick))?;
        upkeep::report_into_python(py, report)
    }

    /// Measures the sessions of the store, or one of them.
    #[pyo3(signature = (session=None))]
    fn stats<'py>(&self, py: Python<'py>, session: Option<String>) -> PyResult<Bound<'py, PyAny>> {
        let repo = self.repo()?;
        let found = interruptibly(py, move || upkeep::measure(&repo, session.as_deref()))?;
        upkeep::stats_into_python(py, found)
    }

    /// Returns a snapshot as text in UTF-8: ``source`` is the imported transcript byte for byte,
    /// ``jsonl``, ``openai``, ``anthropic`` and ``atif`` are the conversation of an agent,
    /// ``markdown`` is the history to read, and ``json`` the whole context. Raises
    /// ``InvalidInput`` if it contains a secret, unless ``allow_secrets``.
    #[cfg(feature = "program")]
    #[pyo3(signature = (revision, format, *, agent="main", allow_secrets=false))]
    fn export<'py>(
        &self,
        py: Python<'py>,
        revision: Revision,
        format: String,
        agent: &str,
        allow_secrets: bool,
    ) -> PyResult<Bound<'py, PyBytes>> {
        let (repo, agent) = (self.repo()?, agent.to_owned());
        let work = move || exchange::export(&repo, &revision.0, &format, &agent, allow_secrets);
        Ok(PyBytes::new(py, &interruptibly(py, work)?))
    }

    /// Imports the transcript in a file into a session, which is named after the file by default.
    /// The format is recognised by default. A repeated import adds only new turns.
    #[cfg(feature = "program")]
    #[pyo3(signature = (path, *, session=None, format=None))]
    fn import_file<'py>(
        &self,
        py: Python<'py>,
        path: PathBuf,
        session: Option<String>,
        format: Option<String>,
    ) -> PyResult<Bound<'py, PyAny>> {
        let repo = self.repo()?;
        let work = move || exchange::import(&repo, &path, session.as_deref(), format.as_deref());
        exchange::report_into_python(py, interruptibly(py, work)?)
    }

    /// Finds messages, notes and files of all branches by words, the best first: words,
    /// ``"phrases"`` and beginnings of words, ``wor*``. With ``all_words``, a hit has every word as
    /// it is written. The first search builds an index, and later ones add new turns to it.
    #[cfg(feature = "program")]
    #[pyo3(signature = (text, *, session=None, paths=vec![], all_words=false, limit=20))]
    fn search<'py>(
        &self,
        py: Python<'py>,
        text: String,
        session: Option<String>,
        paths: Vec<String>,
        all_words: bool,
        limit: u64,
    ) -> PyResult<Vec<Bound<'py, PyAny>>> {
        let repo = self.repo()?;
        let query = WordSearch { text, session, all_words, paths, limit };
        let hits = interruptibly(py, move || query.run(&repo))?;
        hits.into_iter().map(|hit| exchange::hit_into_python(py, hit)).collect()
    }

    /// Returns the URLs of the remotes by name.
    #[cfg(feature = "program")]
    fn remotes(&self, py: Python<'_>) -> PyResult<BTreeMap<String, String>> {
        let repo = self.repo()?;
        detached(py, || remote::remotes(&repo))
    }

    /// Adds the remote in a folder, which is created if it is missing. Raises ``AlreadyExists`` if
    /// there is a remote of this name. Remotes by ssh, in object storage, and encrypted ones need
    /// the program.
    #[cfg(feature = "program")]
    fn add_remote(&self, py: Python<'_>, name: String, url: PathBuf) -> PyResult<()> {
        let repo = self.repo()?;
        let url = url.to_string_lossy();
        match patiently(py, || remote::add(&repo, &name, &url))? {
            true => Ok(()),
            false => Err(already_exists(format!("there is a remote '{name}' already"))),
        }
    }

    /// Creates the store in the directory ``path``, which is missing or empty, with every session of
    /// the remote in a folder, and opens it. The remote is called ``name`` there.
    #[cfg(feature = "program")]
    #[staticmethod]
    #[pyo3(name = "clone", signature = (url, path, *, name="origin", actor="python"))]
    fn clone_remote(
        py: Python<'_>,
        url: PathBuf,
        path: PathBuf,
        name: &str,
        actor: &str,
    ) -> PyResult<Self> {
        let (url, place) = (url.to_string_lossy().into_owned(), path.clone());
        let (name, by) = (name.to_owned(), actor.to_owned());
        interruptibly(py, move || remote::clone(&url, &place, &name, &by))?;
        Self::open(py, path, actor, false, true, None)
    }

    /// Pushes new turns of sessions, or of all, to a remote, which is optional if there is only
    /// one. Raises ``Conflict`` if the remote has turns that this store lacks, and
    /// ``InvalidInput`` if the turns contain a secret, unless ``allow_secrets``; sessions pushed
    /// before stay pushed.
    #[cfg(feature = "program")]
    #[pyo3(signature = (*sessions, remote=None, allow_secrets=false))]
    fn push<'py>(
        &self,
        py: Python<'py>,
        sessions: Vec<String>,
        remote: Option<String>,
        allow_secrets: bool,
    ) -> PyResult<Vec<Bound<'py, PyAny>>> {
        let repo = self.repo()?;
        let work = move || remote::push(&repo, &sessions, remote.as_deref(), allow_secrets);
        let pushed = interruptibly(py, work)?.into_iter();
        pushed.map(|one| remote::pushed_into_python(py, one)).collect()
    }

    /// Fetches sessions, or all that changed, from a remote, which is optional if there is only
    /// one. Branches of this store do not move: fetched ones are revisions such as
    /// ``origin/task/main``.
    #[cfg(feature = "program")]
    #[pyo3(signature = (*sessions, remote=None))]
    fn fetch<'py>(
        &self,
        py: Python<'py>,
        sessions: Vec<String>,
        remote: Option<String>,
    ) -> PyResult<Vec<Bound<'py, PyAny>>> {
        let repo = self.repo()?;
        let work = move || remote::fetch(&repo, &sessions, remote.as_deref());
        let fetched = interruptibly(py, work)?.into_iter();
        fetched.map(|one| remote::fetched_into_python(py, one)).collect()
    }

    /// Fetches as ``fetch`` does, and then creates, fast-forwards or merges the branches of this
    /// store. Returns the branches that moved.
    #[cfg(feature = "program")]
    #[pyo3(signature = (*sessions, remote=None))]
    fn pull<'py>(
        &self,
        py: Python<'py>,
        sessions: Vec<String>,
        remote: Option<String>,
    ) -> PyResult<Vec<Bound<'py, PyAny>>> {
        let repo = self.repo()?;
        let work = move || remote::pull(&repo, &sessions, remote.as_deref());
        let pulled = interruptibly(py, work)?.into_iter();
        pulled.map(|one| remote::followed_into_python(py, one)).collect()
    }
}
