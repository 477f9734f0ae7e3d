//! Fuzzes commits, tags, operations and policies: accepted bytes are canonical.

use turntree::maintenance::Policy;
use turntree::object::{Commit, Operation, Tag};

/// Decodes `bytes` as each structured object other than a tree.
///
/// # Panics
/// If accepted bytes are not canonical.
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
/// If accepted bytes are not canonical.
pub fn policies(bytes: &[u8]) {
    if let Ok(policy) = Policy::decode(bytes) {
        assert_eq!(policy.encode().unwrap(), bytes, "a second way to write a policy");
    }
}
