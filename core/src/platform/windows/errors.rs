//! Numbers of errors.

use std::io;

use windows_sys::Win32::Foundation::{
    ERROR_ACCESS_DENIED, ERROR_CANT_ACCESS_FILE, ERROR_COMMITMENT_LIMIT, ERROR_LOCK_VIOLATION,
    ERROR_NO_SYSTEM_RESOURCES, ERROR_NOT_ENOUGH_MEMORY, ERROR_OUTOFMEMORY, ERROR_SHARING_VIOLATION,
    ERROR_TOO_MANY_OPEN_FILES,
};

/// Errors that pass, and say nothing about the bytes of a file: too many open files, no memory, no
/// permission, or another program that has the file open alone.
pub(crate) const PASSING: [i32; 8] = [
    number(ERROR_TOO_MANY_OPEN_FILES),
    number(ERROR_ACCESS_DENIED),
    number(ERROR_SHARING_VIOLATION),
    number(ERROR_LOCK_VIOLATION),
    number(ERROR_NOT_ENOUGH_MEMORY),
    number(ERROR_OUTOFMEMORY),
    number(ERROR_NO_SYSTEM_RESOURCES),
    number(ERROR_COMMITMENT_LIMIT),
];

/// Errors of a process, or a system, with too many open files.
pub(crate) const OUT_OF_HANDLES: [i32; 2] =
    [number(ERROR_TOO_MANY_OPEN_FILES), number(ERROR_NO_SYSTEM_RESOURCES)];

/// Returns true for the error of opening a symbolic link that is not followed.
#[must_use]
pub fn is_link_refusal(error: &io::Error) -> bool {
    error.raw_os_error() == Some(number(ERROR_CANT_ACCESS_FILE))
}

/// Returns the number of an error as Rust's library has it.
pub(super) const fn number(error: u32) -> i32 {
    error.cast_signed()
}

/// Returns the error of opening a symbolic link that is not followed.
pub(super) fn link_refusal() -> io::Error {
    io::Error::from_raw_os_error(number(ERROR_CANT_ACCESS_FILE))
}
