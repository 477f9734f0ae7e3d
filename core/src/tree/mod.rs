//! Persistent lists and maps whose shape follows from their content alone.
//!
//! A tree is a sequence of levels. Level 0 holds the items. A boundary rule cuts each level into
//! nodes, and the references to these nodes are the level above, until no node ends any more. What
//! follows the last boundary of a level is its unfinished run. The **root** holds the unfinished
//! run of every level; the nodes are objects of their own.
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
//! The rule looks at an entry's own digest and at how many entries the node has so far, and starts
//! afresh at each boundary. So equal content has an equal root, whatever the edits that led to it;
//! an edit changes the nodes around it and those above them; and two versions share all others,
//! which is what makes them cheap to keep and to compare. An append touches the right edge only,
//! and that lies in the root.
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
//! Nothing but the root is kept in memory, so a [`List`] or [`Map`] is cheap to clone, and cloning
//! one is how a version is kept. The tree does not look into items: a link to any object, and up to
//! a kilobyte of meta.
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
pub use salvage::Salvaged;

use crate::error::{Error, Result};
use crate::object::{Kind, ObjectId};

/// Most bytes of an item's meta.
pub(crate) const MAX_META_BYTES: usize = 1024;

/// Most bytes of a map's key; a key has at least one.
pub const MAX_KEY_BYTES: usize = 4096;

/// Most items of one tree.
pub const MAX_ITEMS: u64 = 1 << 48;

/// Most levels of one tree. A node has two entries or more, and sixteen or eight in the mean.
pub(crate) const MAX_LEVELS: usize = 16;

/// A reference to an object.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Link {
    /// Its target.
    pub kind: Kind,
    /// Its id.
    pub id: ObjectId,
}

/// An element of a list, or a value of a map.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Item {
    /// The object that the item is.
    pub link: Link,
    /// Facts for the layer above without reading the object: at most `MAX_META_BYTES`.
    pub meta: Bytes,
}

impl Item {
    /// The object `id` of `kind`, without meta.
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
