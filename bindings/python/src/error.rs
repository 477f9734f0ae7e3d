//! Converts errors of the store to Python exceptions: one class per kind, all derived from
//! `turntree.Error`.

use pyo3::exceptions::{
    PyException, PyFileExistsError, PyLookupError, PyOSError, PyPermissionError, PyRuntimeError,
    PyValueError,
};
use pyo3::prelude::*;
use pyo3::sync::PyOnceLock;
use pyo3::types::{PyDict, PyTuple, PyType};
use turntree::{Error, ErrorKind};

/// The exception classes by kind: name and description.
const CLASSES: [(ErrorKind, &str, &str); 12] = [
    (ErrorKind::NotFound, "NotFound", "The named thing does not exist."),
    (ErrorKind::Expired, "Expired", "The snapshot was dropped by retention."),
    (ErrorKind::Redacted, "Redacted", "The content was erased on purpose."),
    (ErrorKind::Ambiguous, "Ambiguous", "An abbreviation names more than one thing."),
    (ErrorKind::Conflict, "Conflict", "Another process committed first: read again, and retry."),
    (ErrorKind::Corrupt, "Corrupt", "Stored bytes do not verify."),
    (ErrorKind::Locked, "Locked", "Another process holds the lock."),
    (ErrorKind::Unsupported, "Unsupported", "This build cannot do that."),
    (ErrorKind::LimitExceeded, "LimitExceeded", "A stated limit is exceeded."),
    (
        ErrorKind::InvalidInput,
        "InvalidInput",
        "An argument is invalid, or a store or transaction is closed.",
    ),
    (ErrorKind::Encrypted, "Encrypted", "The store is encrypted, with another key or none given."),
    (ErrorKind::Io, "StoreIOError", "The operating system refused."),
];

/// The class for a name that is taken, and its description.
const ALREADY_EXISTS: (&str, &str) = ("AlreadyExists", "The name is taken: choose another name.");

static TAKEN: PyOnceLock<Py<PyType>> = PyOnceLock::new();
static BASE: PyOnceLock<Py<PyType>> = PyOnceLock::new();
static BY_KIND: PyOnceLock<Vec<(ErrorKind, Py<PyType>)>> = PyOnceLock::new();

/// Creates the classes and adds them to the module.
pub(crate) fn add_to(module: &Bound<'_, PyModule>) -> PyResult<()> {
    let py = module.py();
    let exception = py.get_type::<PyException>();
    let base =
        new_class(py, "Error", "internal", "The base of every error of turntree.", &[&exception])?;
    module.add("Error", base.clone_ref(py))?;
    let mut classes = Vec::new();
    for (kind, name, doc) in CLASSES {
        let beside = match kind {
            ErrorKind::NotFound | ErrorKind::Expired | ErrorKind::Redacted => {
                Some(py.get_type::<PyLookupError>())
            }
            ErrorKind::InvalidInput | ErrorKind::Ambiguous | ErrorKind::LimitExceeded => {
                Some(py.get_type::<PyValueError>())
            }
            ErrorKind::Encrypted => Some(py.get_type::<PyPermissionError>()),
            ErrorKind::Io => Some(py.get_type::<PyOSError>()),
            _ => None,
        };
        let mut bases = vec![base.bind(py)];
        bases.extend(&beside);
        let class = new_class(py, name, kind.name(), doc, &bases)?;
        module.add(name, class.clone_ref(py))?;
        classes.push((kind, class));
    }
    let conflict = classes.iter().find(|(kind, _)| *kind == ErrorKind::Conflict);
    if let Some((kind, conflict)) = conflict {
        let exists = py.get_type::<PyFileExistsError>();
        let (name, doc) = ALREADY_EXISTS;
        let class = new_class(py, name, kind.name(), doc, &[conflict.bind(py), &exists])?;
        module.add(name, class.clone_ref(py))?;
        let _ = TAKEN.set(py, class);
    }
    let _ = BASE.set(py, base);
    let _ = BY_KIND.set(py, classes);
    Ok(())
}

fn new_class(
    py: Python<'_>,
    name: &str,
    kind: &str,
    doc: &str,
    bases: &[&Bound<'_, PyType>],
) -> PyResult<Py<PyType>> {
    let members = PyDict::new(py);
    members.set_item("kind", kind)?;
    members.set_item("__doc__", doc)?;
    members.set_item("__module__", "turntree")?;
    let class = py.get_type::<PyType>().call1((name, PyTuple::new(py, bases)?, members))?;
    Ok(class.cast_into::<PyType>()?.unbind())
}

/// Returns the exception for an error, including its causes.
pub(crate) fn raised(error: &Error) -> PyErr {
    of_kind(error.kind(), error.with_causes())
}

/// Returns an exception of this kind.
pub(crate) fn of_kind(kind: ErrorKind, text: String) -> PyErr {
    Python::attach(|py| {
        let found = BY_KIND.get(py).and_then(|all| all.iter().find(|(known, _)| *known == kind));
        match found.map(|(_, class)| class).or_else(|| BASE.get(py)) {
            Some(class) => PyErr::from_type(class.bind(py).clone(), text),
            None => PyRuntimeError::new_err(text),
        }
    })
}

/// Returns an exception for a name that is taken.
pub(crate) fn already_exists(text: String) -> PyErr {
    Python::attach(|py| match TAKEN.get(py) {
        Some(class) => PyErr::from_type(class.bind(py).clone(), text),
        None => of_kind(ErrorKind::Conflict, text),
    })
}

/// Returns an exception for an internal error.
pub(crate) fn internal(text: String) -> PyErr {
    Python::attach(|py| match BASE.get(py) {
        Some(class) => PyErr::from_type(class.bind(py).clone(), text),
        None => PyRuntimeError::new_err(text),
    })
}
