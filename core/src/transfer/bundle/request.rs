//! What somebody wants in a bundle.

use crate::object::ObjectId;
use crate::repo::BranchName;

/// What to put into a bundle.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum BundleRequest {
    /// Every branch of a session.
    Session(String),
    /// One branch.
    Branch(BranchName),
    /// A commit, which becomes a branch `turn-<n>` of its session.
    Commit(ObjectId),
}
