//! Files next to the store that save work between processes. Losing one costs only time.
//!
//! Each is written under a temporary name and then renamed, never synced. A reader verifies the
//! file and treats an invalid one as missing. Only a database holds content of a store.

mod adoptions;
mod captured_directories;
mod database;
mod folder;
mod notes;

pub use self::adoptions::{AdoptionCache, FileMark};
pub(crate) use self::captured_directories::was_captured_here;
pub(super) use self::captured_directories::{note_capture, note_captured};
pub use self::database::{database_path, make_database};
pub(super) use self::folder::{CacheFolder, NOTES_PREFIX};
pub use self::notes::{Claim, read_note, write_note};
