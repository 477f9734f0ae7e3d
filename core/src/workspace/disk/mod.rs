//! Directories held open, and files that get their names when they are whole.
//!
//! [`folder`] opens one name at a time, so that a check and the write after it are of one
//! directory. [`target`] is the directory that a plan writes to, [`layout`] the paths in it,
//! [`content`] what a file is to hold, and [`write`] puts a file in its place by way of a
//! [`temp_file`]. [`open_regular`] reads what is found unasked, and nothing that waits.

pub(super) mod content;
pub(super) mod folder;
pub(super) mod layout;
mod regular;
pub(super) mod stat;
pub(super) mod target;
pub(super) mod temp_file;
pub(super) mod write;

pub use self::layout::is_reserved;
pub use self::regular::{open_regular, read_regular, read_regular_text};
pub use self::target::store_above;
pub use self::write::save;
