//! Directories held open, and files that are renamed into place when they are complete.
//!
//! [`folder`] opens one name at a time, so that a check and the following write use the same
//! directory. [`target`] is the directory that a plan writes to, [`layout`] maps keys to paths in
//! it, [`content`] is the content of a file, and [`batch`] puts files into place, each through a
//! [`temp_file`], after it made them [`durable`] together. [`clash`] finds names that are one there. [`write`] does so for one file.
//! [`open_regular`] reads files at untrusted paths without blocking.

pub(super) mod batch;
mod clash;
pub(super) mod content;
mod durable;
pub(super) mod folder;
pub(super) mod layout;
mod regular;
pub(super) mod stat;
pub(super) mod target;
pub(super) mod temp_file;
pub(super) mod write;

pub use self::layout::{entry_path, is_reserved};
pub use self::regular::{open_regular, read_regular, read_regular_text};
pub use self::target::store_above;
pub use self::write::save;
