//! The links of an object, which reachability follows.

use crate::error::Result;
use crate::object::{Commit, Kind, Object, Tag};
use crate::tree::{self, Link};

/// Returns the links of `object` in order: from a node to nodes and items, from a commit to its
/// context and its parents, from a tag to its target.
///
/// Operations have no links here: a policy decides which of their values must stay.
///
/// # Errors
/// `Corrupt` when the object is invalid for its kind.
pub fn links(object: &Object) -> Result<Vec<Link>> {
    match object.kind {
        Kind::Node => tree::links(&object.bytes),
        Kind::Commit => {
            let Commit { tree, parents, .. } = Commit::decode(&object.bytes)?;
            let parents = parents.into_iter().map(|id| Link { kind: Kind::Commit, id });
            Ok([Link { kind: Kind::Node, id: tree }].into_iter().chain(parents).collect())
        }
        Kind::Tag => {
            let tag = Tag::decode(&object.bytes)?;
            Ok(vec![Link { kind: tag.target_kind, id: tag.target }])
        }
        Kind::Blob | Kind::Operation => Ok(Vec::new()),
    }
}
