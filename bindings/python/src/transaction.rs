//! A change of branches that is buffered in memory until it is committed.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use bytes::Bytes;
use pyo3::prelude::*;
use turntree::context::{FileMode, Role};
use turntree::local::{BranchChange, Change, Host};
use turntree::object::ObjectId;
use turntree::repo::BranchName;
use turntree::{Error, ErrorKind};

use crate::error::{of_kind, raised};
use crate::process::{detached, patiently};
use crate::store::{Expect, repo_of};

/// A change of a branch, buffered in memory. Leaving its ``with`` block commits it; an
/// exception drops it. An unchanged branch gets no snapshot.
#[pyclass(frozen, module = "turntree")]
pub(crate) struct Transaction {
    host: Arc<Host>,
    /// `None` after it was committed or dropped; shared by the branches of one change.
    change: Arc<Mutex<Option<Change>>>,
    branch: BranchName,
    message: String,
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
        let change = Arc::new(Mutex::new(Some(change)));
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
        self.change.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn edit(&self, edit: impl FnOnce(&mut BranchChange) -> turntree::Result<()>) -> PyResult<()> {
        let mut change = self.lock();
        let change = change.as_mut().ok_or_else(finished)?;
        edit(change.on(&self.branch)).map_err(|error| raised(&error))
    }
}

fn finished() -> PyErr {
    of_kind(ErrorKind::InvalidInput, "the transaction is finished: begin a new one".to_owned())
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
        let branch = branch.parse().map_err(|error: Error| raised(&error))?;
        let (host, change) = (Arc::clone(&self.host), Arc::clone(&self.change));
        let other = Self { host, change, branch, message: self.message.clone() };
        other.edit(|_| Ok(()))?;
        other.expecting(expect)?;
        Ok(other)
    }

    /// Sets an entry of a map section; creates the section if needed.
    fn put(&self, section: &str, key: &str, content: &[u8]) -> PyResult<()> {
        self.edit(|on| on.put(section, key, Bytes::copy_from_slice(content)))
    }

    /// Sets a file of the workspace, which is an entry of the section ``files``. The content
    /// of a link is its target.
    #[pyo3(signature = (path, content, *, mode="regular"))]
    fn put_file(&self, path: &str, content: &[u8], mode: &str) -> PyResult<()> {
        let mode = mode.parse::<FileMode>().map_err(|error| raised(&error))?;
        self.edit(|on| on.put_file(path, mode, Bytes::copy_from_slice(content)))
    }

    /// Sets an entry unless it exists at commit.
    fn put_new(&self, section: &str, key: &str, content: &[u8]) -> PyResult<()> {
        self.edit(|on| on.put_new(section, key, Bytes::copy_from_slice(content)))
    }

    /// Removes an entry of a map section, if it exists.
    fn remove(&self, section: &str, key: &str) -> PyResult<()> {
        self.edit(|on| on.remove(section, key))
    }

    /// Appends a record to a list section; creates the section if needed.
    fn push(&self, section: &str, record: &[u8]) -> PyResult<()> {
        self.edit(|on| on.push(section, Bytes::copy_from_slice(record)))
    }

    /// Appends a record in a format to the conversation of an agent.
    #[pyo3(signature = (role, record, *, agent="main", format="json"))]
    fn push_message(&self, role: &str, record: &[u8], agent: &str, format: &str) -> PyResult<()> {
        self.edit(|on| {
            on.push_message(agent, Role::from_name(role), format, Bytes::copy_from_slice(record))
        })
    }

    /// Truncates a list section to its first ``count`` records.
    fn cut(&self, section: &str, count: u64) -> PyResult<()> {
        self.edit(|on| on.cut(section, count))
    }

    /// Replaces a section of any shape with one blob.
    fn set_blob(&self, section: &str, content: &[u8]) -> PyResult<()> {
        self.edit(|on| on.set_blob(section, Bytes::copy_from_slice(content)))
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
    fn go_on_from(&self, py: Python<'_>, revision: &str) -> PyResult<()> {
        let repo = repo_of(&self.host)?;
        let at = detached(py, || repo.resolve(revision))?;
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
