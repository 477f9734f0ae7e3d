//! Directories and contexts: a workspace is captured, a context is laid out as files.
//!
//! | room | does |
//! |---|---|
//! | [`capture`](capture()) | reads a directory into the `files` section of a context |
//! | [`checkout`](plan_checkout) | writes a context into any directory; nothing else changes |
//! | [`rewind`](prepare_rewind) | brings a branch and its workspace back to a state, as one operation that [`prepare_undo`] takes back |
//! | `broad` | refuses directories that are more than a workspace |
//! | `caches` | files beside the store that save work between processes and may be deleted at any time |
//! | `git` | what git says of a directory beside its `.gitignore`: settings, other rules, the index |
//! | `disk` | directories held open, and files that get their names when they are whole |
//!
//! A context may come from anyone, and other processes may change the directory while we work in
//! it. So:
//!
//! - Every key has a path inside the directory, and none in a folder of git or of a store.
//! - No symbolic link is followed below the directory. The directory that was checked is the one
//!   that is written to: directories are held open and entered one name at a time.
//! - An existing file is overwritten only if the caller allows it and only if it is still what the
//!   plan saw. A directory, pipe, socket or device is never replaced.
//! - A file gets its name when it is whole, on disk and read back. A killed process leaves a
//!   temporary file, `.turntree-part-` and 16 hex digits; the next process that writes the same
//!   file removes it.
//! - Permissions are 666, or 777 for an executable, less the user's umask, and never more than
//!   those of the file that is replaced. Setuid, setgid and sticky bits are never set.

mod broad;
mod caches;
mod capture;
mod checkout;
mod disk;
mod git;
mod rewind;

pub use broad::expect_narrow;
pub use caches::{
    AdoptionCache, Claim, FileMark, database_path, make_database, read_note, was_captured_here,
    write_note,
};
pub use capture::{
    CaptureOptions, CaptureProgress, CaptureReport, MAX_FILE_BYTES, SkippedFile, StatCache,
    capture, workspace_metadata,
};
pub use checkout::{CheckoutReport, FileAction, FilesPlan, PlannedFile, Scratch, plan_checkout};
pub use disk::{is_reserved, open_regular, read_regular, read_regular_text, save, store_above};
pub use git::{GitPlaces, tracking_repository};
pub use rewind::{
    AppliedFiles, ChangeKind, FileChange, FileChanges, KeptWorkspace, PreparedMerge,
    PreparedRewind, RewindChanges, RewindReport, RewindRequest, UntouchedFile, WorkspaceBackup,
    expect_own_directory, is_undo_unfinished, lay_out_files, prepare_merge, prepare_rewind,
    prepare_undo, prepare_undo_rest,
};
