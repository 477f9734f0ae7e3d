//! Reads only the children of nodes and roots: their links and keys.

use std::ops::Range;

use bytes::Bytes;

use super::Link;
use super::node::read_runs;
use super::run::RunReceiver;
use crate::error::Result;
use crate::object::{ID_BYTES, Kind, ObjectId, key_digest};

/// Returns the links of the node or root in `bytes`, in order: nodes of the level below, and the
/// links of its items. Reachability follows these.
///
/// # Errors
/// `Corrupt` unless the bytes are exactly what a tree writes, `Unsupported` for a later form.
pub fn links(bytes: &Bytes) -> Result<Vec<Link>> {
    let mut children = Children::default();
    children.read(bytes)?;
    Ok(children.into_links())
}

/// A child of a node or root.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct Child {
    /// The key of an item of a map; `None` for items of a list and for nodes of the level below.
    pub key: Option<Bytes>,
    /// The target.
    pub link: Link,
}

/// Like [`links`], with the keys of items, which identify versions of the same entry.
///
/// # Errors
/// Errors of [`links`].
pub fn children(bytes: &Bytes) -> Result<Vec<Child>> {
    let mut children = Children::default();
    children.read(bytes)?;
    let child = |(key, link): (Option<&[u8]>, &Link)| Child {
        key: key.map(Bytes::copy_from_slice),
        link: *link,
    };
    Ok(children.iter().map(child).collect())
}

/// The children of one node after another, with reused memory: a walk reads millions of nodes.
#[derive(Debug, Default)]
pub(crate) struct Children {
    links: Vec<Link>,
    /// The index of the first link of the current run.
    run: usize,
    /// True if the current run has items.
    has_items: bool,
    /// The keys of items, concatenated, and their ends. Items come first, so keys belong to the
    /// first links.
    keys: Vec<u8>,
    key_ends: Vec<usize>,
    /// True from the second node on.
    is_used_again: bool,
    /// Digests of recent keys, each in the one slot for its key: versions of a node have nearly the
    /// same keys.
    digests: Vec<(Vec<u8>, [u8; ID_BYTES])>,
}

/// Number of remembered digests.
const DIGESTS: usize = 1 << 8;

impl Children {
    /// Reads the node or root in `bytes`, and replaces the previous children.
    ///
    /// # Errors
    /// Errors of [`links`].
    pub(crate) fn read(&mut self, bytes: &[u8]) -> Result<()> {
        self.links.clear();
        self.keys.clear();
        self.key_ends.clear();
        read_runs(bytes, self)?;
        self.is_used_again = true;
        Ok(())
    }

    /// Returns the links, in order.
    pub(crate) fn links(&self) -> &[Link] {
        &self.links
    }

    /// Consumes the children and returns the links.
    fn into_links(self) -> Vec<Link> {
        self.links
    }

    /// Returns the links, with their keys if they have one.
    pub(crate) fn iter(&self) -> impl Iterator<Item = (Option<&[u8]>, &Link)> {
        let mut start = 0;
        let mut ends = self.key_ends.iter();
        self.links.iter().map(move |link| {
            let key = ends
                .next()
                .and_then(|end| self.keys.get(std::mem::replace(&mut start, *end)..*end));
            (key, link)
        })
    }
}

impl RunReceiver for Children {
    fn begin(&mut self, level: usize, ids: &[[u8; ID_BYTES]]) {
        self.has_items = level == 0;
        self.run = self.links.len();
        let kind = if self.has_items { Kind::Blob } else { Kind::Node };
        self.links.extend(ids.iter().map(|id| Link { kind, id: ObjectId::from_bytes(*id) }));
    }

    fn kind(&mut self, at: usize, kind: Kind) {
        if let Some(link) = self.links.get_mut(self.run + at) {
            link.kind = kind;
        }
    }

    fn meta(&mut self, _: Range<usize>, _: &[u8]) {}

    fn count(&mut self, _: usize, _: u64) {}

    fn key(&mut self, _: usize, key: &[u8]) {
        if self.has_items {
            self.keys.extend_from_slice(key);
            self.key_ends.push(self.keys.len());
        }
    }

    fn digest(&mut self, key: &[u8]) -> [u8; ID_BYTES] {
        if !self.is_used_again {
            return key_digest(key);
        }
        if self.digests.is_empty() {
            self.digests.resize(DIGESTS, <(Vec<u8>, [u8; ID_BYTES])>::default());
        }
        let Some((known, digest)) = self.digests.get_mut(slot(key)) else { return key_digest(key) };
        // An unused slot has an empty key, which no entry has.
        if known != key {
            *digest = key_digest(key);
            known.clear();
            known.extend_from_slice(key);
        }
        *digest
    }
}

/// Returns the slot of a key, from its end, because many keys share a prefix.
fn slot(key: &[u8]) -> usize {
    let end = key.last_chunk().copied().map_or(0, u64::from_le_bytes);
    let mixed = (end ^ key.len() as u64).wrapping_mul(0x9e37_79b9_7f4a_7c15);
    usize::from(mixed.to_le_bytes()[7]) % DIGESTS
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::object::Memory;
    use crate::tree::{Item, List, Map, items};

    #[test]
    fn nodes_that_are_read_one_after_the_other_have_what_each_has_alone() {
        let mut objects = Memory::new();
        let (mut list, mut map) = (List::new(), Map::new());
        for n in 0..300_u32 {
            let kind = if n.is_multiple_of(5) { Kind::Node } else { Kind::Blob };
            let item = Item::new(kind, ObjectId::of(kind, &n.to_le_bytes()));
            list.push(&mut objects, item.clone()).unwrap();
            // Keys that share the slot of a digest, and short ones.
            let keys = [format!("{n:03}/the same end"), format!("{n}")];
            let edits = keys.map(|key| (Bytes::from(key), Some(item.clone())));
            map.apply(&mut objects, edits.into()).unwrap();
            list.write(&mut objects).unwrap();
            map.write(&mut objects).unwrap();
        }
        let mut children = Children::default();
        let mut with_keys = 0;
        for (id, object) in objects.into_objects() {
            children.read(&object.bytes).unwrap();
            let read: Vec<_> = children.iter().collect();
            let items = items(&object.bytes).unwrap();
            for ((key, link), (known, item)) in read.iter().zip(&items) {
                assert_eq!((key.unwrap_or_default(), **link), (&**known, item.link), "{id}");
            }
            let below = read.get(items.len()..).unwrap();
            assert!(below.iter().all(|(key, link)| key.is_none() && link.kind == Kind::Node));
            let alone = super::children(&object.bytes).unwrap();
            assert!(alone.iter().map(|child| (child.key.as_deref(), &child.link)).eq(read));
            assert_eq!(children.links(), links(&object.bytes).unwrap());
            with_keys += usize::from(alone.iter().any(|child| child.key.is_some()));
        }
        assert!(with_keys > 9, "of {with_keys} nodes keys were compared");
    }
}
