//! Reads a snapshot: entries, records, messages, and its place in history.

use std::collections::BTreeMap;
use std::ops::Range;

use bytes::Bytes;
use pyo3::prelude::*;
use pyo3::types::{PyBytes, PyTuple};
use turntree::context::Shape;
use turntree::local::{self, Scan};

use crate::process::detached;
use crate::values::{Answer, Named, datetime_of, named};

/// Number of entries or records read between checks for signals such as Ctrl-C.
const PAGE: u64 = 4096;

/// An agent's context at a turn.
#[pyclass(frozen, module = "turntree")]
pub(crate) struct Snapshot {
    pub(crate) inner: local::Snapshot,
}

/// A message of a conversation.
#[pyclass(frozen, module = "turntree", get_all)]
pub(crate) struct Message {
    /// ``system``, ``user``, ``assistant``, ``tool`` or ``other``.
    role: &'static str,
    /// The format of the record.
    format: String,
    /// The branch that a merge took the message from; None for a message of this branch.
    origin: Option<String>,
    /// The record, byte for byte.
    record: Py<PyBytes>,
}

#[pymethods]
impl Snapshot {
    /// The id of the commit: 64 hex digits.
    #[getter]
    fn id(&self) -> String {
        self.inner.id().to_string()
    }

    /// The number of the turn, from 1.
    #[getter]
    fn turn(&self) -> u64 {
        self.inner.turn()
    }

    /// The title.
    #[getter]
    fn title(&self) -> &str {
        self.inner.title()
    }

    /// The session of the snapshot.
    #[getter]
    fn session(&self) -> &str {
        &self.inner.commit().session
    }

    /// The ids of the parent snapshots.
    #[getter]
    fn parents(&self) -> Vec<String> {
        self.inner.commit().parents.iter().map(ToString::to_string).collect()
    }

    /// The time of the snapshot, in UTC.
    #[getter]
    fn time<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyAny>> {
        datetime_of(py, self.inner.commit().time.micros)
    }

    /// The agent that made the snapshot.
    #[getter]
    fn author(&self) -> &str {
        &self.inner.commit().author.agent
    }

    /// The metadata of the snapshot.
    #[getter]
    fn metadata(&self) -> BTreeMap<String, String> {
        self.inner.commit().metadata.clone()
    }

    /// Returns the sections by name, with their shapes.
    fn sections(&self, py: Python<'_>) -> PyResult<BTreeMap<String, &'static str>> {
        let sections = detached(py, || self.inner.sections())?;
        Ok(sections.into_iter().map(|(name, section)| (name, section.shape.name())).collect())
    }

    /// Returns the number of entries or records of a section; 0 if it is missing.
    fn count(&self, py: Python<'_>, section: &str) -> PyResult<u64> {
        detached(py, || self.inner.count(section))
    }

    /// Returns an entry of a map section; None if it is missing.
    fn get<'py>(
        &self,
        py: Python<'py>,
        section: &str,
        key: &str,
    ) -> PyResult<Option<Bound<'py, PyBytes>>> {
        let found = detached(py, || self.inner.get(section, key))?;
        Ok(found.map(|content| PyBytes::new(py, &content)))
    }

    /// Returns the entry or blob at a path, such as ``scratchpad/plan``; raises ``NotFound``.
    fn __getitem__<'py>(&self, py: Python<'py>, path: &str) -> PyResult<Bound<'py, PyBytes>> {
        Ok(PyBytes::new(py, &detached(py, || self.inner.read_entry(path))?))
    }

    /// Returns True if there is an entry or a blob at this path.
    fn __contains__(&self, py: Python<'_>, path: &str) -> PyResult<bool> {
        detached(py, || self.inner.has_entry(path))
    }

    /// Iterates over the paths of all blobs and of all entries of map sections.
    fn __iter__<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyAny>> {
        let mut paths = Vec::new();
        for (name, section) in detached(py, || self.inner.sections())? {
            match section.shape {
                Shape::Blob => paths.push(name),
                Shape::List => {}
                Shape::Map => {
                    let read = |page: &Scan| self.inner.scan_keys(&name, page);
                    let keys = paged(py, Scan::default(), read, |key| key)?;
                    paths.extend(keys.into_iter().map(|key| format!("{name}/{key}")));
                }
            }
        }
        Ok(PyTuple::new(py, paths)?.try_iter()?.into_any())
    }

    /// Returns entries of a map section ordered by key, or in reverse. Reading begins after
    /// the key ``after`` in that direction; it need not exist. Costs in proportion to the
    /// returned entries.
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
        let read = |page: &Scan| self.inner.scan(section, page);
        let found = paged(py, scan, read, |(key, _)| key)?;
        let bytes = |(key, content): (String, Bytes)| (key, PyBytes::new(py, &content));
        Ok(found.into_iter().map(bytes).collect())
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
        paged(py, scan, |page| self.inner.scan_keys(section, page), |key| key)
    }

    /// Returns the records of a list section at these places, as far as they exist.
    #[pyo3(signature = (section, start=0, stop=None))]
    fn list<'py>(
        &self,
        py: Python<'py>,
        section: &str,
        start: u64,
        stop: Option<u64>,
    ) -> PyResult<Vec<Bound<'py, PyBytes>>> {
        paged_list(py, start, stop, |places| self.inner.list(section, places))
    }

    /// Returns the agents that have a conversation or state.
    fn agents(&self, py: Python<'_>) -> PyResult<Vec<String>> {
        detached(py, || self.inner.agents())
    }

    /// Returns the conversation of an agent, oldest message first.
    #[pyo3(signature = (agent="main"))]
    fn messages(&self, py: Python<'_>, agent: &str) -> PyResult<Vec<Message>> {
        let found = detached(py, || {
            let mut found = Vec::new();
            for message in self.inner.messages(agent)? {
                found.push(message?);
                if (found.len() as u64).is_multiple_of(PAGE)
                    && let Err(signal) = Python::attach(signals)
                {
                    return Ok(Err(signal));
                }
            }
            Ok(Ok(found))
        })??;
        let message = |message: local::Message| Message {
            role: message.role.name(),
            format: message.format,
            origin: message.origin,
            record: PyBytes::new(py, &message.record).unbind(),
        };
        Ok(found.into_iter().map(message).collect())
    }

    /// Returns the changes from an older snapshot to this one, ordered by path.
    fn changes_since(
        &self,
        py: Python<'_>,
        older: &Self,
    ) -> PyResult<Named<Vec<local::EntryChange>>> {
        detached(py, || self.inner.changes_since(&older.inner)).map(Named)
    }

    fn __repr__(&self) -> String {
        format!("<turntree.Snapshot {} turn {}>", self.inner.id(), self.inner.turn())
    }

    fn __eq__(&self, other: &Self) -> bool {
        self.inner.id() == other.inner.id()
    }

    fn __hash__(&self) -> u64 {
        let bytes = self.inner.id();
        bytes.as_bytes().first_chunk().copied().map_or(0, u64::from_le_bytes)
    }
}

impl Answer for local::EntryChange {
    fn into_python(self, py: Python<'_>) -> PyResult<Bound<'_, PyAny>> {
        let kind = self.kind();
        named(py, "Change", (self.path, kind))
    }
}

/// Runs the handlers of pending signals, such as Ctrl-C, which may raise.
fn signals(py: Python<'_>) -> PyResult<()> {
    py.check_signals()
}

/// Reads records of a list, one page at a time.
pub(crate) fn paged_list<'py>(
    py: Python<'py>,
    start: u64,
    stop: Option<u64>,
    read: impl Fn(Range<u64>) -> turntree::Result<Vec<Bytes>> + Sync,
) -> PyResult<Vec<Bound<'py, PyBytes>>> {
    let (mut records, mut at, stop) = (Vec::new(), start, stop.unwrap_or(u64::MAX));
    while at < stop {
        let end = stop.min(at.saturating_add(PAGE));
        let found = detached(py, || read(at..end))?;
        records.extend(found.iter().map(|content| PyBytes::new(py, content)));
        if (found.len() as u64) < PAGE {
            break;
        }
        at = end;
        signals(py)?;
    }
    Ok(records)
}

/// Reads the results of a scan, one page at a time.
pub(crate) fn paged<T: Send>(
    py: Python<'_>,
    mut scan: Scan,
    read: impl Fn(&Scan) -> turntree::Result<Vec<T>> + Sync,
    key_of: impl Fn(&T) -> &String,
) -> PyResult<Vec<T>> {
    let (mut found, mut left) = (Vec::new(), scan.limit.unwrap_or(u64::MAX));
    loop {
        scan.limit = Some(left.min(PAGE));
        let page = detached(py, || read(&scan))?;
        let count = page.len() as u64;
        left = left.saturating_sub(count);
        found.extend(page);
        if count < PAGE || left == 0 {
            return Ok(found);
        }
        scan.after = found.last().map(|last| key_of(last).clone());
        signals(py)?;
    }
}

#[pymethods]
impl Message {
    /// The text that its format finds in the record, or else the record. Formats of transcripts
    /// need the program.
    #[getter]
    fn text(&self, py: Python<'_>) -> String {
        let record = self.record.bind(py).as_bytes();
        let text = (crate::formats().text)(&self.format, record);
        text.unwrap_or_else(|| String::from_utf8_lossy(record).into_owned())
    }

    /// Returns the record as the value of its JSON; raises ``ValueError`` if it is none.
    fn json<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyAny>> {
        py.import("json")?.call_method1("loads", (&self.record,))
    }

    fn __repr__(&self) -> String {
        format!("<turntree.Message of {}>", self.role)
    }
}
