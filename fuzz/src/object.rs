//! Commits, tags, operations and policies: what is accepted is what would be written.

use turntree::maintenance::Policy;
use turntree::object::{Commit, Operation, Tag};

/// Decodes `bytes` as each structured object that has no tree behind it.
///
/// # Panics
/// When bytes are accepted that would not be written again.
pub fn objects(bytes: &[u8]) {
    if let Ok(commit) = Commit::decode(bytes) {
        assert_eq!(commit.encode(), bytes, "a second way to write a commit");
    }
    if let Ok(tag) = Tag::decode(bytes) {
        assert_eq!(tag.encode(), bytes, "a second way to write a tag");
    }
    if let Ok(operation) = Operation::decode(bytes) {
        assert_eq!(operation.encode(), bytes, "a second way to write an operation");
    }
}

/// Decodes `bytes` as the policy of a session.
///
/// # Panics
/// When bytes are accepted that would not be written again.
pub fn policies(bytes: &[u8]) {
    if let Ok(policy) = Policy::decode(bytes) {
        assert_eq!(policy.encode().unwrap(), bytes, "a second way to write a policy");
    }
}
