//! Methods of a store that need the program in the package: imports, exports, comparisons, the search by
//! words, and remotes.

#![expect(clippy::needless_pass_by_value, reason = "Python makes the arguments for each call")]

use std::collections::BTreeMap;
use std::iter::once;
use std::path::PathBuf;
use std::sync::Arc;

use pyo3::prelude::*;
use pyo3::types::PyBytes;
use turntree::Error;
use turntree::local::{Host, Repo};
use turntree::transfer::remote::{Fetched, Followed};
use turntree_cli::library::compare;
use turntree_exchange::{ImportReport, SearchHit};

use crate::error::{already_exists, raised};
use crate::exchange::{self, WordSearch};
use crate::lookup::repo_of;
use crate::process::{detached, interruptibly, patiently};
use crate::remote;
use crate::store::Store;
use crate::values::{Named, Revision, parsed};

/// The methods of a store that need the program. Python sees one class, ``turntree.Store``: this one
/// has its name and is its base.
#[pyclass(frozen, subclass, name = "Store", module = "turntree")]
pub(crate) struct ProgramStore {
    pub(crate) host: Arc<Host>,
}

impl ProgramStore {
    fn repo(&self) -> PyResult<Repo> {
        repo_of(&self.host)
    }
}

#[pymethods]
impl ProgramStore {
    /// Returns a snapshot as text in UTF-8: ``source`` is the imported transcript byte for byte,
    /// ``jsonl``, ``openai``, ``anthropic`` and ``atif`` are the conversation of an agent,
    /// ``markdown`` is the history to read, and ``json`` the whole context. Raises
    /// ``InvalidInput`` if it contains a secret, unless ``allow_secrets``.
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
    #[pyo3(signature = (path, *, session=None, format=None))]
    fn import_file(
        &self,
        py: Python<'_>,
        path: PathBuf,
        session: Option<String>,
        format: Option<String>,
    ) -> PyResult<Named<ImportReport>> {
        let repo = self.repo()?;
        let work = move || exchange::import(&repo, &path, session.as_deref(), format.as_deref());
        interruptibly(py, work).map(Named)
    }

    /// Finds messages, notes and files of all branches by words, the best first: words,
    /// ``"phrases"`` and beginnings of words, ``wor*``. With ``all_words``, a hit has every word as
    /// it is written. The first search builds an index, and later ones add new turns to it.
    #[pyo3(signature = (text, *, session=None, paths=vec![], all_words=false, limit=20))]
    fn search(
        &self,
        py: Python<'_>,
        text: String,
        session: Option<String>,
        paths: Vec<String>,
        all_words: bool,
        limit: u64,
    ) -> PyResult<Named<Vec<SearchHit>>> {
        let repo = self.repo()?;
        let query = WordSearch { text, session, all_words, paths, limit };
        interruptibly(py, move || query.run(&repo)).map(Named)
    }

    /// Compares branches since they parted: the turns, messages, calls of tools, tokens, files,
    /// checks and test runs of each. One name of a session or branch means all branches of its
    /// session. With ``align``, also their steps, one by one: where they part, where their files are
    /// equal again, and the step that separates those that passed from those that failed.
    #[pyo3(signature = (revision, *others, align=false))]
    fn compare<'py>(
        &self,
        py: Python<'py>,
        revision: Revision,
        others: Vec<Revision>,
        align: bool,
    ) -> PyResult<Bound<'py, PyAny>> {
        let repo = self.repo()?;
        let names: Vec<String> = once(revision).chain(others).map(|name| name.0).collect();
        let work = move || {
            repo.refresh()?;
            compare(repo.repository(), &names, align)
        };
        parsed(py, "comparison", &interruptibly(py, work)?)
    }

    /// Returns the URLs of the remotes by name.
    fn remotes(&self, py: Python<'_>) -> PyResult<BTreeMap<String, String>> {
        let repo = self.repo()?;
        detached(py, || remote::remotes(&repo))
    }

    /// Adds the remote at a URL, and creates it if it is missing: a folder, ``ssh://``, ``s3://``,
    /// ``gs://``, ``az://`` or ``postgres://``. A new one is encrypted with ``encrypt``, for your own
    /// key and the public keys of ``members``; an encrypted one is recognised. Raises
    /// ``AlreadyExists`` if there is a remote of this name, ``Encrypted`` without a key of a member,
    /// and ``Unsupported`` for a kind that this package was built without.
    #[pyo3(signature = (name, url, *, encrypt=false, members=vec![]))]
    fn add_remote(
        &self,
        py: Python<'_>,
        name: String,
        url: PathBuf,
        encrypt: bool,
        members: Vec<String>,
    ) -> PyResult<()> {
        if !encrypt && !members.is_empty() {
            let text = "members are for an encrypted remote: add encrypt=True";
            return Err(raised(&Error::invalid(text)));
        }
        let (repo, taken) = (self.repo()?, format!("there is a remote '{name}' already"));
        let url = url.to_string_lossy().into_owned();
        let members = encrypt.then_some(members);
        let work = move || remote::add(&repo, &name, &url, members.as_deref());
        match interruptibly(py, work)? {
            Some(added) => remote::warn_of_key(py, added),
            None => Err(already_exists(taken)),
        }
    }

    /// Removes a remote from the store; the remote itself does not change. Raises ``NotFound``.
    fn remove_remote(&self, py: Python<'_>, name: &str) -> PyResult<()> {
        let repo = self.repo()?;
        patiently(py, || remote::remove(&repo, name))
    }

    /// Creates the store in the directory ``path``, which is missing or empty, with every session of
    /// the remote at a URL, and opens it. The remote is called ``name`` there.
    #[staticmethod]
    #[pyo3(name = "clone", signature = (url, path, *, name="origin", actor="python"))]
    fn clone_remote(
        py: Python<'_>,
        url: PathBuf,
        path: PathBuf,
        name: &str,
        actor: &str,
    ) -> PyResult<Py<Store>> {
        let (url, place) = (url.to_string_lossy().into_owned(), path.clone());
        let (name, by) = (name.to_owned(), actor.to_owned());
        interruptibly(py, move || remote::clone(&url, &place, &name, &by))?;
        Py::new(py, Store::open(py, path, actor, false, true, None)?)
    }

    /// Pushes new turns of sessions, or of all, to a remote, which is optional if there is only
    /// one. Raises ``Conflict`` if the remote has turns that this store lacks, and
    /// ``InvalidInput`` if the turns contain a secret, unless ``allow_secrets``; sessions pushed
    /// before stay pushed.
    #[pyo3(signature = (*sessions, remote=None, allow_secrets=false))]
    fn push(
        &self,
        py: Python<'_>,
        sessions: Vec<String>,
        remote: Option<String>,
        allow_secrets: bool,
    ) -> PyResult<Named<Vec<remote::PushedSession>>> {
        let repo = self.repo()?;
        let work = move || remote::push(&repo, &sessions, remote.as_deref(), allow_secrets);
        interruptibly(py, work).map(Named)
    }

    /// Fetches sessions, or all that changed, from a remote, which is optional if there is only
    /// one. Branches of this store do not move: fetched ones are revisions such as
    /// ``origin/task/main``.
    #[pyo3(signature = (*sessions, remote=None))]
    fn fetch(
        &self,
        py: Python<'_>,
        sessions: Vec<String>,
        remote: Option<String>,
    ) -> PyResult<Named<Vec<Fetched>>> {
        let repo = self.repo()?;
        interruptibly(py, move || remote::fetch(&repo, &sessions, remote.as_deref())).map(Named)
    }

    /// Fetches as ``fetch`` does, and then creates, fast-forwards or merges the branches of this
    /// store. Returns the branches that moved.
    #[pyo3(signature = (*sessions, remote=None))]
    fn pull(
        &self,
        py: Python<'_>,
        sessions: Vec<String>,
        remote: Option<String>,
    ) -> PyResult<Named<Vec<Followed>>> {
        let repo = self.repo()?;
        interruptibly(py, move || remote::pull(&repo, &sessions, remote.as_deref())).map(Named)
    }
}
