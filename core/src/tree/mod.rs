//! Persistent lists and maps whose shape depends only on their content.
//!
//! A tree is a sequence of levels. Level 0 holds the items. A boundary rule cuts each level into
//! nodes, and the references to these nodes form the level above, until no node ends. The entries
//! after the last boundary of a level are its unfinished run. The **root** holds the unfinished run
//! of every level; the nodes are separate objects.
//!
//! ```text
//!  root    level 2   (P)
//!          level 1   (F G)
//!          level 0   (x y z)                       unfinished runs: the right edge
//!
//!  nodes   level 1   P = [A B C D E]
//!          level 0   A = [....]  B = [......]  ...  F = [...]  G = [.....]
//!
//!  order   P, then F G, then x y z
//! ```
//!
//! The rule uses an entry's own digest and the number of entries in the node, and restarts at each
//! boundary. So equal content has an equal root, whatever edits produced it. An edit changes the
//! nodes around it and their ancestors, and two versions share all other nodes, which makes them
//! cheap to keep and to compare. An append changes only the right edge, which is in the root.
//!
//! | operation on n items | nodes read | objects written |
//! |---|---|---|
//! | open, or write the root | 1 | 1 |
//! | [`List::get`], [`Map::get`] | log n | |
//! | [`List::push`], [`List::extend`] by k | none | k / 16, and the root |
//! | [`List::splice`], [`Map::apply`] | log n for each place | log n for each place, and the root |
//! | [`diff_lists`], [`diff_maps`], `MultisetDiff` | log n for each change | |
//! | `merge_maps` | log n for each change of either side | |
//!
//! Only the root is kept in memory, so a [`List`] or [`Map`] is cheap to clone, and a clone keeps a
//! version. The tree does not interpret items: a link to any object, and up to a kilobyte of meta.
//!
//! ```
//! use turntree::object::{Kind, Memory, ObjectSink};
//! use turntree::tree::{Item, List, diff_lists};
//!
//! let mut objects = Memory::new();
//! let mut message = |text: &str| -> turntree::Result<Item> {
//!     let id = objects.write(Kind::Blob, text.to_owned().into())?;
//!     Ok(Item::new(Kind::Blob, id))
//! };
//! let (question, answer) = (message("How deep?")?, message("log n")?);
//!
//! let mut list = List::new();
//! list.push(&mut objects, question)?;
//! let before = list.clone();
//! list.push(&mut objects, answer.clone())?;
//!
//! let root = list.write(&mut objects)?;
//! let reopened = List::open(&objects, &root)?;
//! assert_eq!(reopened.get(&objects, 1)?, Some(answer));
//! let changes = diff_lists(&before, &reopened, &objects)?;
//! assert_eq!((changes[0].old.clone(), changes[0].new.clone()), (1..1, 1..2));
//! # Ok::<(), turntree::Error>(())
//! ```
//!
//! Specified in `format-spec/tree.md`.

mod boundary;
mod children;
mod cursor;
mod diff;
mod entry;
mod list;
mod map;
mod merge;
mod multiset_diff;
mod node;
mod run;
mod salvage;
mod splice;

use bytes::Bytes;

pub(crate) use children::Children;
pub use children::{Child, children, links};
pub(crate) use diff::longest_increasing;
pub use diff::{ListChange, MapChange, diff_lists, diff_maps};
pub use list::List;
pub use map::Map;
pub(crate) use merge::{MapConflict, Region, merge_maps, regions};
pub(crate) use multiset_diff::{MultisetChange, MultisetChanges, MultisetDiff};
pub use node::items;
pub use salvage::SalvagedPart;

use crate::error::{Error, Result};
use crate::object::{Kind, ObjectId};

/// Maximum bytes of an item's meta.
pub(crate) const MAX_META_BYTES: usize = 1024;

/// Maximum bytes of a map's key; a key has at least one byte.
pub const MAX_KEY_BYTES: usize = 4096;

/// Maximum number of items of one tree.
pub const MAX_ITEMS: u64 = 1 << 48;

/// Maximum number of levels of one tree. A node has at least two entries, and 16 or 8 on average.
pub(crate) const MAX_LEVELS: usize = 16;

/// A reference to an object.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Link {
    /// The kind of the target.
    pub kind: Kind,
    /// The id of the target.
    pub id: ObjectId,
}

/// An element of a list, or a value of a map.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Item {
    /// The object of the item.
    pub link: Link,
    /// Facts that the layer above reads without the object: at most `MAX_META_BYTES`.
    pub meta: Bytes,
}

impl Item {
    /// Creates an item for the object `id` of `kind`, without meta.
    #[must_use]
    pub const fn new(kind: Kind, id: ObjectId) -> Self {
        Self { link: Link { kind, id }, meta: Bytes::new() }
    }

    fn check(&self) -> Result<()> {
        match self.meta.len() {
            ..=MAX_META_BYTES => Ok(()),
            len => Err(Error::limit("bytes of an item's meta", MAX_META_BYTES as u64, len as u64)),
        }
    }
}

#[cfg(test)]
mod tests;
