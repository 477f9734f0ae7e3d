//! Directories and contexts: captures a workspace, and writes a context as files.
//!
//! | part | purpose |
//! |---|---|
//! | [`capture`](capture()) | reads a directory into the `files` section of a context |
//! | [`checkout`](plan_checkout) | writes a context into any directory; nothing else changes |
//! | [`rewind`](prepare_rewind) | restores a branch and its workspace; [`prepare_undo`] undoes it |
//! | `broad` | refuses directories that contain more than a workspace |
//! | `caches` | files next to the store that save work between processes; may be deleted any time |
//! | `git` | git's data about a directory besides `.gitignore`: settings, other rules, the index |
//! | `disk` | directories held open, and files that are renamed into place when they are complete |
//!
//! Contexts are untrusted, and other processes may change the directory concurrently. So:
//!
//! - Every key is a path inside the directory, and never in a folder of git or of a store.
//! - No symbolic link below the directory is followed. The checked directory is the one written to:
//!   directories are held open and entered one name at a time.
//! - An existing file is overwritten only if the caller allows it, and only if it is unchanged
//!   since the plan. A directory, pipe, socket or device is never replaced.
//! - A file is renamed into place after it is complete and durable; in a directory that did not
//!   exist before, all of it is durable at the end. Files of the kernel's own file systems were not
//!   changed since they were written, files of others are read back. A killed process leaves up to
//!   a batch of temporary files, `.turntree-part-` and 16 hex digits; the next process that writes
//!   the same files removes them.
//! - Permissions are 666, or 777 for an executable, minus the user's umask, and never more than
//!   those of the replaced file. Setuid, setgid and sticky bits are never set.

mod broad_directory;
mod caches;
mod capture;
mod checkout;
mod disk;
mod git;
mod rewind;

pub use broad_directory::expect_narrow;
pub use caches::{
    AdoptionCache, Claim, FileMark, database_path, make_database, read_note, write_note,
};
pub use capture::{
    CaptureOptions, CaptureProgress, CaptureReport, MAX_FILE_BYTES, SkippedFile, StatCache,
    capture, workspace_metadata,
};
pub use checkout::{CheckoutReport, FileAction, FilesPlan, PlannedFile, Scratch, plan_checkout};
pub use disk::{
    entry_path, is_reserved, open_regular, read_regular, read_regular_text, save, store_above,
};
pub use git::{GitPlaces, tracking_repository};
pub use rewind::{
    AppliedFiles, ChangeKind, FileChange, FileChanges, KeptWorkspace, PreparedMerge,
    PreparedRewind, RewindChanges, RewindReport, RewindRequest, UntouchedFile, WorkspaceBackup,
    expect_own_directory, is_undo_unfinished, lay_out_files, prepare_merge, prepare_rewind,
    prepare_undo, prepare_undo_rest,
};
