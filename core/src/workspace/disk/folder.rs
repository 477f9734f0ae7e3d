//! Directories held open, so that checking a path and acting on it are atomic.
//!
//! Another process may rename directories between a check and a write. So nothing here takes a
//! path: from the user's directory down, each name is opened in its open parent, and the same call
//! refuses a name that is not a real directory. How the system does it is in `platform`.

pub(in crate::workspace) use crate::platform::{EntryKind, Folder, FolderEntry};
