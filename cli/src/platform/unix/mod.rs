//! Linux, macOS and other Unix systems.

pub(super) mod folders;
pub(super) mod process;
pub(super) mod signals;
pub(super) mod terminal;

/// True on Windows.
pub(crate) const IS_WINDOWS: bool = false;
