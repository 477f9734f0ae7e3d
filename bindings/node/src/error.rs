//! Converts errors of the store to errors of Node; `lib/index.cts` gives each kind its own class.

use turntree::Error;

/// Separates the kind of an error from its text.
const SEPARATOR: char = '\n';

/// Returns the Node error for an error of the store, including its causes.
pub(crate) fn raised(error: Error) -> napi::Error {
    of_kind(error.kind().name(), &error.with_causes())
}

/// Returns the Node error for a panic.
pub(crate) fn internal(text: &str) -> napi::Error {
    of_kind("internal", text)
}

fn of_kind(kind: &str, text: &str) -> napi::Error {
    napi::Error::from_reason(format!("{kind}{SEPARATOR}{text}"))
}
