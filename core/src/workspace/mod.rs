//! Between contexts and directories: a workspace goes in, a context comes out as files.
//!
//! [`capture`] makes the `files` section of a context what a directory holds. [`prepare`] plans to bring
//! a state back, on its branch and in its workspace, and [`Prepared::apply`] does it, as one operation
//! that [`prepare_undo`] takes back. [`plan`] says what laying a context out in any directory would
//! write, and [`RestorePlan::apply`] does it. [`save`] writes one file with the same care,
//! and [`Scratch`] shows one turn after another.
//!
//! A context may come from anybody, and other processes may work in the directory meanwhile. So:
//!
//! - Every key has a place inside the directory, and none in a folder of git or of a store.
//! - No link is followed below the directory, and what is checked is what is written to: directories
//!   are held open and gone through one name at a time.
//! - What is there is overwritten only if the caller says so, and only if it is still what the plan
//!   saw. A directory, pipe, socket or device is never replaced.
//! - A file has its name only when it is whole, on disk, and was read back. What a killed restore
//!   leaves has a name of its own, `.turntree-part-` and 16 hex digits, and the next one removes it.
//! - Permissions are those the user's umask leaves of 666, or 777 for what can be executed, and never
//!   more than those of the file that is replaced. Setuid, setgid and sticky bits are never set.

mod arrange;
mod cache_folder;
mod capture;
mod capture_options;
mod captured;
mod changes;
mod content;
mod folder;
mod known;
mod layout;
mod notes;
mod part;
mod plan;
mod reader;
mod restoration;
mod restore;
mod rules;
mod scan;
mod scratch;
mod seen;
mod stat;
mod stat_cache;
mod table;
mod target;

pub use arrange::Arranged;
pub use capture::capture;
pub use capture_options::{CaptureOptions, CaptureProgress, MAX_FILE_BYTES};
pub use captured::{Captured, Skipped};
pub use changes::{ChangeKind, FileChange, FileChanges, LeftFile};
pub use notes::{Claim, recall, remember};
pub use plan::{Action, PlannedFile, RestorePlan, plan};
pub use restoration::{
    Done, Kept, Prepared, Restoration, Restore, is_unfinished, prepare, prepare_rest, prepare_undo,
    workspace_metadata,
};
pub use restore::{Restored, save};
pub use scratch::Scratch;
pub use seen::{Mark, Seen};
pub use stat_cache::StatCache;
pub use {layout::is_reserved, target::store_above};
