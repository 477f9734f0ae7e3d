//! Errors of the store as errors of Node, which `lib/index.cts` makes a class each.

use turntree::Error;

/// Stands between the kind of an error and its text.
const SEPARATOR: char = '\n';

/// The error of Node for an error of the store, which says its causes too.
pub(crate) fn raised(error: Error) -> napi::Error {
    of_kind(error.kind().name(), &error.with_causes())
}

/// The error of Node for a panic.
pub(crate) fn internal(text: &str) -> napi::Error {
    of_kind("internal", text)
}

fn of_kind(kind: &str, text: &str) -> napi::Error {
    napi::Error::from_reason(format!("{kind}{SEPARATOR}{text}"))
}
