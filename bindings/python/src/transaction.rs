//! A change of branches that is buffered in memory until it is committed.

use std::ffi::CString;
use std::ops::Range;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use pyo3::exceptions::{PyResourceWarning, PyValueError};
use pyo3::prelude::*;
use pyo3::types::{PyBytes, PyDict};
use turntree::Error;
use turntree::context::{FileMode, JSON_MEDIA, split};
use turntree::local::{BranchChange, Change, Contents, Host, Scan};
use turntree::object::ObjectId;
use turntree::repo::BranchName;

use crate::error::raised;
use crate::lookup::{branch_name, repo_of};
use crate::process::{detached, patiently};
use crate::snapshot::{paged, paged_list};
use crate::values::{Content, Expect, Revision, role_named};

/// A change of a branch, buffered in memory. Leaving its ``with`` block commits it; an
/// exception drops it. An unchanged branch gets no snapshot.
#[pyclass(frozen, module = "turntree")]
pub(crate) struct Transaction {
    host: Arc<Host>,
    /// Shared by the branches of one change.
    change: Arc<Pending>,
    branch: BranchName,
    message: String,
}

/// A change that is not committed yet; `None` after it was committed or dropped.
struct Pending(Mutex<Option<Change>>);

impl Drop for Pending {
    /// Warns of a change with content that neither a commit nor a rollback ended: it is lost.
    fn drop(&mut self) {
        let change = self.0.get_mut().unwrap_or_else(PoisonError::into_inner).take();
        let Some(change) = change.filter(|change| !change.is_empty()) else { return };
        let branches: Vec<String> = change.branches().map(ToString::to_string).collect();
        let text = format!(
            "uncommitted change of {}: commit it, roll it back, or begin it in a with block",
            branches.join(", ")
        );
        let Ok(text) = CString::new(text) else { return };
        Python::try_attach(|py| {
            // The object may be dropped while an exception is being raised.
            let raised = PyErr::take(py);
            let kind = py.get_type::<PyResourceWarning>();
            if let Err(error) = PyErr::warn(py, &kind, &text, 1) {
                error.write_unraisable(py, None);
            }
            if let Some(raised) = raised {
                raised.restore(py);
            }
        });
    }
}

impl Transaction {
    pub(crate) fn begin(
        host: Arc<Host>,
        mut change: Change,
        branch: BranchName,
        message: String,
        expect: Expect,
    ) -> PyResult<Self> {
        // Include the branch, so that an empty commit also returns its tip.
        change.on(&branch);
        let change = Arc::new(Pending(Mutex::new(Some(change))));
        let begun = Self { host, change, branch, message };
        begun.expecting(expect)?;
        Ok(begun)
    }

    fn expecting(&self, expect: Expect) -> PyResult<()> {
        if let Expect::Tip(tip) = expect {
            let tip = tip.as_deref().map(str::parse::<ObjectId>).transpose();
            let tip = tip.map_err(|error| raised(&error))?;
            self.edit(|on| {
                on.expect(tip);
                Ok(())
            })?;
        }
        Ok(())
    }

    fn lock(&self) -> MutexGuard<'_, Option<Change>> {
        self.change.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn edit(&self, edit: impl FnOnce(&mut BranchChange) -> turntree::Result<()>) -> PyResult<()> {
        let mut change = self.lock();
        let change = change.as_mut().ok_or_else(finished)?;
        edit(change.on(&self.branch)).map_err(|error| raised(&error))
    }
}

fn finished() -> PyErr {
    raised(&finished_error())
}

fn finished_error() -> Error {
    Error::invalid("the transaction is finished: begin a new one")
}

impl Transaction {
    /// Reads the branch as the change will leave it.
    fn read<T>(&self, read: impl Fn(Contents<'_>) -> turntree::Result<T>) -> turntree::Result<T> {
        let mut change = self.lock();
        read(change.as_mut().ok_or_else(finished_error)?.contents(&self.branch)?)
    }
}

#[pymethods]
impl Transaction {
    /// The branch, with its session.
    #[getter]
    fn branch(&self) -> String {
        self.branch.to_string()
    }

    /// Returns the part of the same change for another branch. All parts commit together.
    #[pyo3(signature = (branch, *, expect=Expect::Any))]
    fn on(&self, branch: &str, expect: Expect) -> PyResult<Self> {
        let branch = branch_name(branch)?;
        let (host, change) = (Arc::clone(&self.host), Arc::clone(&self.change));
        let other = Self { host, change, branch, message: self.message.clone() };
        other.edit(|_| Ok(()))?;
        other.expecting(expect)?;
        Ok(other)
    }

    /// Returns an entry of a map section as this change will leave it; None if it is missing.
    ///
    /// The first read reads the newest snapshot of the branch, and ``commit`` raises ``Conflict``
    /// if the branch has another snapshot then; so the change never depends on stale content.
    fn get<'py>(
        &self,
        py: Python<'py>,
        section: &str,
        key: &str,
    ) -> PyResult<Option<Bound<'py, PyBytes>>> {
        let found = detached(py, || self.read(|contents| contents.get(section, key)))?;
        Ok(found.map(|content| PyBytes::new(py, &content)))
    }

    /// Returns the entry or blob at a path, such as ``scratchpad/plan``, as ``get`` does; raises
    /// ``NotFound``.
    fn __getitem__<'py>(&self, py: Python<'py>, path: &str) -> PyResult<Bound<'py, PyBytes>> {
        let found = detached(py, || self.read(|contents| contents.read_entry(path)))?;
        Ok(PyBytes::new(py, &found))
    }

    /// Returns True if there is an entry or a blob at this path, as ``get`` does.
    fn __contains__(&self, py: Python<'_>, path: &str) -> PyResult<bool> {
        detached(py, || self.read(|contents| contents.has_entry(path)))
    }

    /// Sets the entry at a path of a map section, such as ``scratchpad/plan``.
    fn __setitem__(&self, path: &str, content: Content) -> PyResult<()> {
        let (section, key) = split(path);
        self.put(section, key, content)
    }

    /// Returns the number of entries or records of a section, as ``get`` does; 0 if it is missing.
    fn count(&self, py: Python<'_>, section: &str) -> PyResult<u64> {
        detached(py, || self.read(|contents| contents.count(section)))
    }

    /// Returns entries of a map section ordered by key, or in reverse, as ``get`` and
    /// ``Snapshot.scan`` do.
    #[pyo3(signature = (section, prefix="", *, after=None, reverse=false, limit=None))]
    fn scan<'py>(
        &self,
        py: Python<'py>,
        section: &str,
        prefix: &str,
        after: Option<String>,
        reverse: bool,
        limit: Option<u64>,
    ) -> PyResult<Vec<(String, Bound<'py, PyBytes>)>> {
        let scan = Scan { prefix: prefix.to_owned(), after, backwards: reverse, limit };
        let read = |page: &Scan| self.read(|contents| contents.scan(section, page));
        let found = paged(py, scan, read, |(key, _)| key)?;
        Ok(found.into_iter().map(|(key, content)| (key, PyBytes::new(py, &content))).collect())
    }

    /// Returns the keys that ``scan`` finds.
    #[pyo3(signature = (section, prefix="", *, after=None, reverse=false, limit=None))]
    fn keys(
        &self,
        py: Python<'_>,
        section: &str,
        prefix: &str,
        after: Option<String>,
        reverse: bool,
        limit: Option<u64>,
    ) -> PyResult<Vec<String>> {
        let scan = Scan { prefix: prefix.to_owned(), after, backwards: reverse, limit };
        let read = |page: &Scan| self.read(|contents| contents.scan_keys(section, page));
        paged(py, scan, read, |key| key)
    }

    /// Returns the records of a list section at these places, as far as they exist, as ``get``
    /// does.
    #[pyo3(signature = (section, start=0, stop=None))]
    fn list<'py>(
        &self,
        py: Python<'py>,
        section: &str,
        start: u64,
        stop: Option<u64>,
    ) -> PyResult<Vec<Bound<'py, PyBytes>>> {
        let read =
            |places: Range<u64>| self.read(|contents| contents.list(section, places.clone()));
        paged_list(py, start, stop, read)
    }

    /// Sets an entry of a map section; creates the section if needed.
    fn put(&self, section: &str, key: &str, content: Content) -> PyResult<()> {
        self.edit(|on| on.put(section, key, content.0))
    }

    /// Sets a file of the workspace, which is an entry of the section ``files``. The content
    /// of a link is its target.
    #[pyo3(signature = (path, content, *, mode="regular"))]
    fn put_file(&self, path: &str, content: Content, mode: &str) -> PyResult<()> {
        let mode = mode.parse::<FileMode>().map_err(|error| raised(&error))?;
        self.edit(|on| on.put_file(path, mode, content.0))
    }

    /// Sets an entry unless it exists at commit.
    fn put_new(&self, section: &str, key: &str, content: Content) -> PyResult<()> {
        self.edit(|on| on.put_new(section, key, content.0))
    }

    /// Removes an entry of a map section, if it exists.
    fn remove(&self, section: &str, key: &str) -> PyResult<()> {
        self.edit(|on| on.remove(section, key))
    }

    /// Appends a record to a list section; creates the section if needed.
    fn push(&self, section: &str, record: Content) -> PyResult<()> {
        self.edit(|on| on.push(section, record.0))
    }

    /// Appends a record in a format to the conversation of an agent. A role is one of those of
    /// ``Message``, or its name in a chat format, such as ``developer`` or ``model``.
    #[pyo3(signature = (role, record, *, agent="main", format="json"))]
    fn push_message(&self, role: &str, record: Content, agent: &str, format: &str) -> PyResult<()> {
        let role = role_named(role)?;
        self.edit(|on| on.push_message(agent, role, format, record.0))
    }

    /// Appends a message, which is stored as JSON, to the conversation of an agent. Without
    /// ``role``, it is the message's own.
    #[pyo3(signature = (message, *, role=None, agent="main", format="json"))]
    fn message(
        &self,
        message: &Bound<'_, PyAny>,
        role: Option<&str>,
        agent: &str,
        format: &str,
    ) -> PyResult<()> {
        let role = match role {
            Some(role) => role_named(role)?,
            None => role_named(&role_of(message)?)?,
        };
        let record = json_of(message)?;
        self.edit(|on| on.push_message(agent, role, format, record.0))
    }

    /// Appends what ``role`` says to the conversation of an agent: a message with this role and
    /// this text as its content.
    #[pyo3(signature = (role, text, *, agent="main"))]
    fn say(&self, py: Python<'_>, role: &str, text: &str, agent: &str) -> PyResult<()> {
        let known = role_named(role)?;
        let message = PyDict::new(py);
        message.set_item("role", role)?;
        message.set_item("content", text)?;
        let record = json_of(&message)?;
        self.edit(|on| on.push_message(agent, known, JSON_MEDIA, record.0))
    }

    /// Truncates a list section to its first ``count`` records.
    fn cut(&self, section: &str, count: u64) -> PyResult<()> {
        self.edit(|on| on.cut(section, count))
    }

    /// Replaces a section of any shape with one blob.
    fn set_blob(&self, section: &str, content: Content) -> PyResult<()> {
        self.edit(|on| on.set_blob(section, content.0))
    }

    /// Removes a section, if it exists.
    fn drop_section(&self, section: &str) -> PyResult<()> {
        self.edit(|on| on.drop_section(section))
    }

    /// Adds metadata to the snapshot.
    fn note(&self, name: &str, value: &str) -> PyResult<()> {
        self.edit(|on| {
            on.with(name, value);
            Ok(())
        })
    }

    /// Sets a title for the snapshot instead of the message.
    fn title(&self, title: &str) -> PyResult<()> {
        self.edit(|on| {
            on.titled(title);
            Ok(())
        })
    }

    /// Continues the branch from a snapshot of any session, without a copy.
    #[expect(clippy::needless_pass_by_value, reason = "made of the argument for this call")]
    fn go_on_from(&self, py: Python<'_>, revision: Revision) -> PyResult<()> {
        let repo = repo_of(&self.host)?;
        let at = detached(py, || repo.resolve(&revision.0))?;
        self.edit(|on| {
            on.go_on_from(at);
            Ok(())
        })
    }

    /// Restarts the branch without its history and its sections.
    fn start_over(&self) -> PyResult<()> {
        self.edit(|on| {
            on.start_over();
            Ok(())
        })
    }

    /// Deletes the branch.
    fn delete(&self) -> PyResult<()> {
        self.edit(|on| {
            on.delete();
            Ok(())
        })
    }

    /// Commits the change durably as one operation. Returns the new tip of the branch.
    #[pyo3(signature = (message=None))]
    fn commit(&self, py: Python<'_>, message: Option<&str>) -> PyResult<Option<String>> {
        // Check first, so that a change of a closed store is not lost silently.
        repo_of(&self.host)?;
        let change = self.lock().take().ok_or_else(finished)?;
        let message = message.unwrap_or(&self.message);
        let tips = patiently(py, || change.commit(message))?;
        self.host.maintain();
        let own = tips.into_iter().find(|(branch, _)| *branch == self.branch);
        Ok(own.and_then(|(_, tip)| tip).map(|tip| tip.to_string()))
    }

    /// Drops the change.
    fn rollback(&self) {
        drop(self.lock().take());
    }

    fn __enter__(slf: Bound<'_, Self>) -> Bound<'_, Self> {
        slf
    }

    #[pyo3(signature = (kind, _value, _traceback))]
    fn __exit__(
        &self,
        py: Python<'_>,
        kind: &Bound<'_, PyAny>,
        _value: &Bound<'_, PyAny>,
        _traceback: &Bound<'_, PyAny>,
    ) -> PyResult<bool> {
        if !kind.is_none() {
            self.rollback();
        } else if self.lock().is_some() {
            self.commit(py, None)?;
        }
        Ok(false)
    }

    fn __repr__(&self) -> String {
        format!("<turntree.Transaction on {}>", self.branch)
    }
}

/// Returns the role that a message states.
fn role_of(message: &Bound<'_, PyAny>) -> PyResult<String> {
    let stated = match message.cast::<PyDict>() {
        Ok(message) => message.get_item("role")?,
        Err(_) => None,
    };
    let stated = stated.and_then(|role| role.extract().ok());
    stated.ok_or_else(|| {
        PyValueError::new_err("the message is no dict with a role: give it one by role=")
    })
}

/// Returns a value as its stored JSON.
fn json_of(value: &Bound<'_, PyAny>) -> PyResult<Content> {
    value.py().import("turntree._json")?.call_method1("to_json", (value,))?.extract()
}
