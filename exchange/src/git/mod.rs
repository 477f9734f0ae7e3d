//! Exports histories as git repositories, and imports git histories as snapshots. Behind the
//! feature `git`.
//!
//! ```text
//! snapshots, oldest first -> what changed since the parent -> trees, blobs, a commit -> one pack -> refs
//! commits, oldest first   -> what changed since the parent -> files, a snapshot      -> one operation
//! ```
//!
//! An export is for users and their git tools: one commit per turn, with the sections of the
//! context as files. The same store gives the same git ids everywhere. The next export to the same
//! directory writes only new commits. It finds the existing ones by their trailers.
//! `docs/reference/formats/git.md` specifies the layout.
//!
//! | section | in the tree |
//! |---|---|
//! | `files` | `files/<path>`, with the executable bit, links as links |
//! | `agents/<name>/messages` | `agents/<name>/messages/0042/004217-assistant.md`, a file each |
//! | other lists | `reasoning/0000/000017` |
//! | maps | one file per key: `scratchpad/<key>`, `agents/<name>/state/<key>` |
//! | blobs | `agents/<name>/system-prompt` |
//! | `source` | only on request |
//!
//! An import reads only objects and refs. It runs no hooks or filters and ignores the configuration
//! of the repository. It verifies the hash of every object and checks its size before it reads the
//! content.
//!
//! This is the only folder that uses gix.

mod check;
mod encoding;
mod export;
mod import;
mod names;
mod pack;
mod refs;
mod repository;
mod repository_state;
mod sections;
mod source_repository;
mod tags;
mod tips;
mod trailers;
mod tree;

pub use export::{ExportSelection, GitExport, GitExportOptions, GitRef, GitRefChange, export};
pub use import::{GitBranch, GitImport, GitImportOptions, check_repository, import};
pub use tags::GitTag;

use std::io;

use turntree::error::{Error, ErrorKind};

/// Content that was skipped or changed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct GitNote {
    /// The place: a path, a ref or a commit.
    pub place: String,
    /// The description.
    pub what: String,
}

/// Returns true if the system rejects a path as invalid. Refs and lists in a repository can contain
/// such paths.
fn is_invalid_path(error: &io::Error) -> bool {
    matches!(error.kind(), io::ErrorKind::InvalidInput | io::ErrorKind::InvalidFilename)
}

/// Converts an error of gix during `action`.
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
    } else if error.downcast_any_ref().is_some_and(is_invalid_path) {
        ErrorKind::InvalidInput
    } else {
        ErrorKind::Io
    };
    Error::new(kind, action).with_source(error)
}
