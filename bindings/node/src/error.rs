//! Errors of the store as errors of Node, which `lib/index.cts` makes a class each.

use std::error::Error as _;

use turntree::{Error, ErrorKind};

/// Stands between the kind of an error and its text.
const SEPARATOR: char = '\n';

/// The kind as `TurntreeError.kind` says it.
fn name(kind: ErrorKind) -> &'static str {
    match kind {
        ErrorKind::NotFound => "not-found",
        ErrorKind::Expired => "expired",
        ErrorKind::Redacted => "redacted",
        ErrorKind::Ambiguous => "ambiguous",
        ErrorKind::Conflict => "conflict",
        ErrorKind::Corrupt => "corrupt",
        ErrorKind::Locked => "locked",
        ErrorKind::Unsupported => "unsupported",
        ErrorKind::LimitExceeded => "limit-exceeded",
        ErrorKind::InvalidInput => "invalid-input",
        ErrorKind::Encrypted => "encrypted",
        ErrorKind::Io => "io",
        _ => "internal",
    }
}

/// The error of Node for an error of the store, which says its causes too.
pub(crate) fn raised(error: Error) -> napi::Error {
    let mut text = error.to_string();
    let mut cause = error.source();
    while let Some(error) = cause {
        text = format!("{text}: {error}");
        cause = error.source();
    }
    of_kind(name(error.kind()), &text)
}

/// The error of Node for a panic.
pub(crate) fn internal(text: &str) -> napi::Error {
    of_kind("internal", text)
}

fn of_kind(kind: &str, text: &str) -> napi::Error {
    napi::Error::from_reason(format!("{kind}{SEPARATOR}{text}"))
}
