//! The report of an import.

use turntree::object::ObjectId;
use turntree::repo::BranchName;

use super::unread::UnreadRecords;

/// The entry of `meta` with the commit of the document that a transcript goes on from.
pub(crate) const BASE: &str = "base";

/// Most notes that an import reports one by one.
pub(crate) const MAX_NOTES: usize = 1000;

/// The report of an import.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ImportReport {
    /// The branch that has the file now.
    pub branch: BranchName,
    /// The format it was read as.
    pub format: &'static str,
    /// Commits made: turns and compactions.
    pub turns: u64,
    /// Messages in these turns.
    pub messages: u64,
    /// The newest commit of the branch.
    pub head: ObjectId,
    /// Bytes of the file.
    pub input_bytes: u64,
    /// Bytes the store grew by.
    pub new_bytes: u64,
    /// Pieces that are kept but were not understood, at most 1,000 of them.
    pub notes: Vec<ImportNote>,
    /// Records of kinds that the reader does not know.
    pub unread: UnreadRecords,
    /// Further branches that got something, for a file that holds several histories.
    pub others: Vec<ImportedBranch>,
}

impl ImportReport {
    /// The report of an import that added nothing to `branch`, which is at `head`.
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

/// The part of an import that went to one branch.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ImportedBranch {
    /// The branch.
    pub branch: BranchName,
    /// Commits made.
    pub turns: u64,
    /// Messages in them.
    pub messages: u64,
    /// The newest commit of the branch.
    pub head: ObjectId,
}

/// A piece that is kept but was not understood.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ImportNote {
    /// Line of the file, from 1.
    pub line: u64,
    /// Offset in the file.
    pub offset: u64,
    /// The expectation that it failed, and its content as far as that can be shown.
    pub what: String,
}
