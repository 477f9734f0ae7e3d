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
    /// A branch at the given local commit, whatever its local value: used for the state of a
    /// remote.
    BranchAt(BranchName, ObjectId),
    /// A commit, which becomes a branch `turn-<n>` of its session.
    Commit(ObjectId),
}
