//! The links of an object: the arrows that reachability follows.

use crate::error::Result;
use crate::object::{Commit, Kind, Object, Tag};
use crate::tree::{self, Link};

/// Returns the links of `object` in order: of a node to nodes and items, of a commit to its context
/// and its parents, of a tag to its target.
///
/// Operations refer to nothing here: which of the values they hold must stay is a matter of policy.
///
/// # Errors
/// `Corrupt` when the object is not what its kind says.
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
