//! Numbers of errors.

use std::io;

use rustix::io::Errno;

/// Errors that pass, and say nothing about the bytes of a file: too many open files, no memory, no
/// permission.
pub(crate) const PASSING: [i32; 7] = [
    Errno::MFILE.raw_os_error(),
    Errno::NFILE.raw_os_error(),
    Errno::NOMEM.raw_os_error(),
    Errno::INTR.raw_os_error(),
    Errno::AGAIN.raw_os_error(),
    Errno::ACCESS.raw_os_error(),
    Errno::PERM.raw_os_error(),
];

/// Errors of a process, or a system, with too many open files.
pub(crate) const OUT_OF_HANDLES: [i32; 2] =
    [Errno::MFILE.raw_os_error(), Errno::NFILE.raw_os_error()];

/// Returns true for the error of opening a symbolic link that is not followed.
#[must_use]
pub fn is_link_refusal(error: &io::Error) -> bool {
    error.raw_os_error() == Some(Errno::LOOP.raw_os_error())
}
