//! Histories as git repositories, and git histories as snapshots. Behind the feature `git`.
//!
//! ```text
//! snapshots, oldest first -> what changed since the parent -> trees, blobs, a commit -> one pack -> refs
//! commits, oldest first   -> what changed since the parent -> files, a snapshot      -> one operation
//! ```
//!
//! An export is for reading and for the tools that people have: a commit for each turn, with the
//! sections of the context as files. The same store gives the same git ids everywhere. The next export
//! to the same directory writes what is new; what is there already it knows from the trailers of the
//! commits. What goes where is in `docs/formats/git.md`.
//!
//! | section | in the tree |
//! |---|---|
//! | `files` | `files/<path>`, with the executable bit, links as links |
//! | `agents/<name>/messages` | `agents/<name>/messages/0042/004217-assistant.md`: one file a message |
//! | other lists | `reasoning/0000/000017` |
//! | maps | one file a key: `scratchpad/<key>`, `agents/<name>/state/<key>` |
//! | blobs | `agents/<name>/system-prompt` |
//! | `source` | left out, unless it is asked for |
//!
//! An import reads objects and refs and nothing else: no hook, filter or setting of a repository counts,
//! every object is hashed, and sizes are looked at before anything is read.
//!
//! This is the only folder that uses gix.

mod export;
mod import;
mod incoming;
mod known;
mod names;
mod pack;
mod plain;
mod refs;
mod repository;
mod sections;
mod tags;
mod text;
mod tips;
mod trailers;
mod tree;

pub use export::{ExportSelection, GitExport, GitExportOptions, GitRef, GitRefChange, export};
pub use import::{GitBranch, GitImport, GitImportOptions, check_repository, import};
pub use tags::GitTag;

use std::io;

use turntree::error::{Error, ErrorKind};

/// Something that was left out or is not as it was.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct GitNote {
    /// The place: a path, a ref or a commit.
    pub place: String,
    /// The description.
    pub what: String,
}

/// Returns true if the system says that nothing can have such a path: refs and lists in a
/// repository name some.
fn is_no_path(error: &io::Error) -> bool {
    matches!(error.kind(), io::ErrorKind::InvalidInput | io::ErrorKind::InvalidFilename)
}

/// Makes an error of ours from one that gix reports for `action`.
fn git_error(action: impl Into<String>, error: gix::Error) -> Error {
    let kind = if error.is_conflict() {
        ErrorKind::Conflict
    } else if error.is_corrupted() || error.is_validation() {
        ErrorKind::Corrupt
    } else if error.is_not_found() {
        ErrorKind::NotFound
    } else if error.is_unsupported() {
        ErrorKind::Unsupported
    } else if error.is_resource_exhausted() {
        ErrorKind::LimitExceeded
    } else if error.downcast_any_ref().is_some_and(is_no_path) {
        ErrorKind::InvalidInput
    } else {
        ErrorKind::Io
    };
    Error::new(kind, action).with_source(error)
}
