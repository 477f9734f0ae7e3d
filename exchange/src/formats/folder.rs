//! Files of a directory in which a framework keeps what it stores, and what is odd about them.

use bytes::Bytes;

/// A file of the folder.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct StoredFile {
    /// Its path below the folder, its parts separated by `/`.
    pub path: String,
    /// What it holds.
    pub bytes: Bytes,
}

/// What is odd about a file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FolderNote {
    /// The file.
    pub path: String,
    /// What, for people.
    pub what: String,
}
