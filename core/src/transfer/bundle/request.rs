//! Requests for the content of a bundle.

use crate::object::ObjectId;
use crate::repo::BranchName;

/// A request for the content of a bundle.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum BundleRequest {
    /// Every branch of a session.
    Session(String),
    /// One branch.
    Branch(BranchName),
    /// A branch as it is elsewhere: at this commit, which must be here, wherever the branch is here.
    BranchAt(BranchName, ObjectId),
    /// A commit, which becomes a branch `turn-<n>` of its session.
    Commit(ObjectId),
}
