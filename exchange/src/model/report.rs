//! The report of an import.

use turntree::object::ObjectId;
use turntree::repo::BranchName;

use super::unread::UnreadRecords;

/// The key in `meta` with the commit of the document that a transcript continues.
pub(crate) const BASE: &str = "base";

/// Maximum number of notes that an import lists.
pub(crate) const MAX_NOTES: usize = 1000;

/// The report of an import.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ImportReport {
    /// The branch that has the file now.
    pub branch: BranchName,
    /// The format that the file was read as.
    pub format: &'static str,
    /// The number of commits: turns and compactions.
    pub turns: u64,
    /// The number of messages in these turns.
    pub messages: u64,
    /// The newest commit of the branch.
    pub head: ObjectId,
    /// The size of the file in bytes.
    pub input_bytes: u64,
    /// The number of bytes that the store grew by.
    pub new_bytes: u64,
    /// Pieces that were kept but not understood, at most 1,000.
    pub notes: Vec<ImportNote>,
    /// Records of kinds that the reader does not know.
    pub unread: UnreadRecords,
    /// Further branches that received commits, for a file with several histories.
    pub others: Vec<ImportedBranch>,
}

impl ImportReport {
    /// Returns the report of an import that added nothing to `branch`, whose tip is `head`.
    pub(crate) fn unchanged(branch: BranchName, head: ObjectId, format: &'static str) -> Self {
        Self {
            branch,
            format,
            turns: 0,
            messages: 0,
            head,
            input_bytes: 0,
            new_bytes: 0,
            notes: Vec::new(),
            unread: UnreadRecords::default(),
            others: Vec::new(),
        }
    }
}

/// The part of an import on one branch.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ImportedBranch {
    /// The branch.
    pub branch: BranchName,
    /// The number of commits.
    pub turns: u64,
    /// The number of messages in them.
    pub messages: u64,
    /// The newest commit of the branch.
    pub head: ObjectId,
}

/// A piece that was kept but not understood.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ImportNote {
    /// The line of the file, counted from 1.
    pub line: u64,
    /// The offset in the file.
    pub offset: u64,
    /// The failed expectation, with the content as far as it may be shown.
    pub what: String,
}
