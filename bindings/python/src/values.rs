//! Values that pass between Python and the library: contents, revisions, times and named results.

use bytes::Bytes;
use pyo3::exceptions::{PyTypeError, PyValueError};
use pyo3::prelude::*;
use pyo3::sync::PyOnceLock;
use pyo3::types::{PyBytes, PyList, PyMemoryView, PyString, PyTuple};
use turntree::context::Role;

use crate::snapshot::Snapshot;

/// The module of the named results.
const RESULTS: &str = "turntree._results";

/// Bytes to store: ``bytes``, any other buffer, or text, which is stored as UTF-8.
pub(crate) struct Content(pub(crate) Bytes);

impl<'py> FromPyObject<'_, 'py> for Content {
    type Error = PyErr;

    fn extract(object: Borrowed<'_, 'py, PyAny>) -> PyResult<Self> {
        if let Ok(bytes) = object.cast::<PyBytes>() {
            return Ok(Self(Bytes::copy_from_slice(bytes.as_bytes())));
        }
        if let Ok(text) = object.cast::<PyString>() {
            return Ok(Self(Bytes::copy_from_slice(text.to_str()?.as_bytes())));
        }
        let Ok(view) = PyMemoryView::from(&object) else {
            let found = object.get_type().name()?;
            let text = format!("expected bytes, another buffer or str, found {found}");
            return Err(PyTypeError::new_err(text));
        };
        let bytes = view.call_method0("tobytes")?;
        Ok(Self(Bytes::copy_from_slice(bytes.cast::<PyBytes>()?.as_bytes())))
    }
}

/// A revision: its text, or the id of a snapshot.
pub(crate) struct Revision(pub(crate) String);

impl<'py> FromPyObject<'_, 'py> for Revision {
    type Error = PyErr;

    fn extract(object: Borrowed<'_, 'py, PyAny>) -> PyResult<Self> {
        if let Ok(snapshot) = object.cast::<Snapshot>() {
            return Ok(Self(snapshot.get().inner.id().to_string()));
        }
        match object.cast::<PyString>() {
            Ok(text) => Ok(Self(text.to_str()?.to_owned())),
            Err(_) => {
                let found = object.get_type().name()?;
                let text = format!("expected a revision as str or a Snapshot, found {found}");
                Err(PyTypeError::new_err(text))
            }
        }
    }
}

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
        let tip: Option<Revision> = object.extract()?;
        Ok(Self::Tip(tip.map(|Revision(id)| id)))
    }
}

/// Returns the role of this name, which chat formats may also use. A misspelt one is an error,
/// because its message would be left out of every view of the conversation.
pub(crate) fn role_named(name: &str) -> PyResult<Role> {
    match Role::from_name(name) {
        Role::Other if name != Role::Other.name() => Err(PyValueError::new_err(format!(
            "'{name}' is not a role: expected system, user, assistant or tool; 'other' is for \
             records of anything else"
        ))),
        role => Ok(role),
    }
}

/// A result of a method, with named fields in Python.
pub(crate) trait Answer {
    fn into_python(self, py: Python<'_>) -> PyResult<Bound<'_, PyAny>>;
}

impl<T: Answer> Answer for Vec<T> {
    fn into_python(self, py: Python<'_>) -> PyResult<Bound<'_, PyAny>> {
        let all = self.into_iter().map(|one| one.into_python(py)).collect::<PyResult<Vec<_>>>()?;
        Ok(PyList::new(py, all)?.into_any())
    }
}

impl<T: Answer> Answer for Option<T> {
    fn into_python(self, py: Python<'_>) -> PyResult<Bound<'_, PyAny>> {
        self.map_or_else(|| Ok(py.None().into_bound(py)), |one| one.into_python(py))
    }
}

/// An answer that becomes a named result when its method returns.
pub(crate) struct Named<T>(pub(crate) T);

impl<'py, T: Answer> IntoPyObject<'py> for Named<T> {
    type Target = PyAny;
    type Output = Bound<'py, PyAny>;
    type Error = PyErr;

    fn into_pyobject(self, py: Python<'py>) -> PyResult<Self::Output> {
        self.0.into_python(py)
    }
}

/// Returns a named result of this class.
pub(crate) fn named<'py>(
    py: Python<'py>,
    class: &str,
    fields: impl IntoPyObject<'py, Target = PyTuple, Output = Bound<'py, PyTuple>, Error = PyErr>,
) -> PyResult<Bound<'py, PyAny>> {
    results(py)?.getattr(class)?.call1(fields.into_pyobject(py)?)
}

/// Returns the named results in a JSON record, by the function of this name.
#[cfg(feature = "program")]
pub(crate) fn parsed<'py>(
    py: Python<'py>,
    function: &str,
    record: &str,
) -> PyResult<Bound<'py, PyAny>> {
    results(py)?.getattr(function)?.call1((record,))
}

fn results(py: Python<'_>) -> PyResult<&Bound<'_, PyModule>> {
    static MODULE: PyOnceLock<Py<PyModule>> = PyOnceLock::new();
    let module = MODULE.get_or_try_init(py, || py.import(RESULTS).map(Bound::unbind))?;
    Ok(module.bind(py))
}

/// Returns a time, given in microseconds since 1970, as a ``datetime`` in UTC.
pub(crate) fn datetime_of(py: Python<'_>, micros: i64) -> PyResult<Bound<'_, PyAny>> {
    let delta = py.import("datetime")?.getattr("timedelta")?.call1((0, 0, micros))?;
    epoch(py)?.add(delta)
}

/// Returns a ``datetime`` in microseconds since 1970.
pub(crate) fn micros_of(time: &Bound<'_, PyAny>) -> PyResult<i64> {
    let py = time.py();
    let module = py.import("datetime")?;
    if !time.is_instance(&module.getattr("datetime")?)? {
        let found = time.get_type().name()?;
        return Err(PyTypeError::new_err(format!("expected a datetime, found {found}")));
    }
    if time.getattr("tzinfo")?.is_none() {
        return Err(PyValueError::new_err(
            "the datetime has no time zone: give it one, such as datetime.timezone.utc",
        ));
    }
    let micro = module.getattr("timedelta")?.call1((0, 0, 1))?;
    time.sub(epoch(py)?)?.floor_div(micro)?.extract()
}

fn epoch(py: Python<'_>) -> PyResult<Bound<'_, PyAny>> {
    let module = py.import("datetime")?;
    let utc = module.getattr("timezone")?.getattr("utc")?;
    module.getattr("datetime")?.call1((1970, 1, 1, 0, 0, 0, 0, utc))
}
