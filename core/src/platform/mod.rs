//! Everything that differs between operating systems: one interface, and one folder for each kind
//! of system that implements it.
//!
//! | file | content |
//! |---|---|
//! | `file.rs` | opening, identities, locks, positioned reads and writes, changes of names |
//! | `folder.rs` | directories held open, and entries opened one name at a time |
//! | `mapping.rs` | whole files in memory |
//! | `errors.rs` | numbers of errors of the system |
//! | `process.rs` | limits and priorities of this process |
//!
//! No other file of the engine names an operating system. What is weaker on one of them is in
//! `docs/reference/platforms.md`.

mod entry;
mod facts;
mod names;
#[cfg(unix)]
mod unix;
#[cfg(windows)]
mod windows;

#[cfg(unix)]
use unix as system;
#[cfg(windows)]
use windows as system;

pub(crate) use entry::{EntryKind, FolderEntry, kind_of_mode};
pub use facts::FileFacts;
pub use names::NameRules;
pub use system::errors::is_link_refusal;
pub(crate) use system::errors::{OUT_OF_HANDLES, PASSING};
pub use system::file::{
    HOME_VARIABLE, canonical, free_bytes, has_other_users, identity, is_program, lock_folder,
    name_of_bytes, own_identity, path_text, private, private_folders, read_at, script_permissions,
    sync_names, try_lock, unlock, with_permissions_of, without_links, write_all_at,
};
pub(crate) use system::file::{
    SYSTEM_CONFIG, file_identity, is_plain_file, kind_of_special, path_bytes, remove,
    rename_to_free, replace, stat_of, stat_of_path, store_identity, sync_data, waiting_for_nothing,
};
pub use system::folder::Folder;
pub(crate) use system::mapping::MAPS_FILES;
pub use system::mapping::Mapping;
pub(crate) use system::process::{handle_limit, lower_thread_priority};
pub(crate) use system::stat::RawStat;

/// The rules for names of files on this system.
pub const NAME_RULES: NameRules = system::NAME_RULES;

/// The prefix of every temporary name. No key of a context maps to such a name, and such files are
/// not captured.
pub(crate) const TEMPORARY: &str = ".turntree-part-";

/// True if files of this system have a bit that makes them executable.
pub(crate) const HAS_EXECUTABLE_BIT: bool = system::HAS_EXECUTABLE_BIT;

/// The result of an attempt at a lock.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Lock {
    /// This handle has it. It ends with the handle, even if the process is killed.
    Taken,
    /// Another handle has it.
    Busy,
}
