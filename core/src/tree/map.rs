//! The map: items by key, in the order of the keys' bytes.

use std::collections::BTreeMap;
use std::ops::Range;

use bytes::Bytes;

use super::boundary::TreeShape;
use super::cursor::Cursor;
use super::entry::NodeEntry;
use super::node::Root;
use super::splice::{Splice, apply};
use super::{Item, MAX_KEY_BYTES};
use crate::error::{Error, Result};
use crate::object::{ObjectId, ObjectSink, ObjectSource};

/// A persistent sorted map. Holds only its root; a clone is another version.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Map {
    pub(super) root: Root,
}

impl Map {
    /// Creates an empty map.
    #[must_use]
    pub fn new() -> Self {
        Self { root: Root::empty(TreeShape::Map) }
    }

    /// Opens the map with the root `root`. Reads one object.
    ///
    /// # Errors
    /// `NotFound` if it is missing, `Corrupt` if it is not the root of a map.
    pub fn open(source: &dyn ObjectSource, root: &ObjectId) -> Result<Self> {
        Ok(Self { root: Root::read(source, TreeShape::Map, root)? })
    }

    /// Stores the root and returns its id, which identifies the content: equal maps have equal ids.
    ///
    /// # Errors
    /// Errors of the sink.
    pub fn write(&self, sink: &mut dyn ObjectSink) -> Result<ObjectId> {
        self.root.write(sink)
    }

    /// Returns the number of keys.
    #[must_use]
    pub fn len(&self) -> u64 {
        self.root.len()
    }

    /// Returns true if the map has no keys.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Returns the item of `key`. Reads O(log n) nodes.
    ///
    /// # Errors
    /// `NotFound` or `Corrupt` if a node is missing or damaged.
    pub fn get(&self, source: &dyn ObjectSource, key: &[u8]) -> Result<Option<Item>> {
        let mut cursor = Cursor::new(&self.root, 0);
        Ok(find(&mut cursor, source, key)?.map(|entry| entry.item.clone()))
    }

    /// Returns the items of many keys, which must be sorted. Reads each needed node once.
    ///
    /// # Errors
    /// As [`Map::get`].
    pub fn get_sorted<'k>(
        &self,
        source: &dyn ObjectSource,
        keys: impl IntoIterator<Item = &'k [u8]>,
    ) -> Result<Vec<Option<Item>>> {
        let mut cursor = Cursor::new(&self.root, 0);
        let mut get = |key| Ok(find(&mut cursor, source, key)?.map(|entry| entry.item.clone()));
        keys.into_iter().map(&mut get).collect()
    }

    /// Iterates over every key and item, in the order of the keys. See [`Map::range`].
    pub fn iter<'a>(
        &self,
        source: &'a dyn ObjectSource,
    ) -> impl Iterator<Item = Result<(Bytes, Item)>> + use<'a> {
        self.range(source, &[], None)
    }

    /// Iterates over the keys that begin with `prefix`, and their items. See [`Map::range`].
    pub fn prefix<'a>(
        &self,
        source: &'a dyn ObjectSource,
        prefix: &[u8],
    ) -> impl Iterator<Item = Result<(Bytes, Item)>> + use<'a> {
        self.range(source, prefix, after_prefix(prefix).as_deref())
    }

    /// Iterates over the keys from `start` up to but excluding `end`, and their items; to the last
    /// key without an `end`. Reads nodes on demand and keeps one per level; ends after the first
    /// error.
    pub fn range<'a>(
        &self,
        source: &'a dyn ObjectSource,
        start: &[u8],
        end: Option<&[u8]>,
    ) -> impl Iterator<Item = Result<(Bytes, Item)>> + use<'a> {
        let mut cursor = Cursor::new(&self.root, 0);
        let mut start = Some(Bytes::copy_from_slice(start));
        let end = end.map(Bytes::copy_from_slice);
        let mut done = false;
        let mut step = move || -> Result<Option<NodeEntry>> {
            if let Some(start) = start.take() {
                cursor.seek_key(source, &start)?;
            }
            // A subtree whose last key is past the end may still begin before it.
            let entry = cursor.next(source)?;
            Ok(entry.filter(|entry| end.as_ref().is_none_or(|end| entry.key < *end)))
        };
        std::iter::from_fn(move || {
            if done {
                return None;
            }
            let entry = step().transpose();
            done = !matches!(entry, Some(Ok(_)));
            Some(entry?.map(|entry| (entry.key, entry.item)))
        })
    }

    /// Returns the number of keys below `key`, which need not exist. Reads O(log n) nodes.
    ///
    /// # Errors
    /// `NotFound` or `Corrupt` if a node is missing or damaged.
    pub fn rank(&self, source: &dyn ObjectSource, key: &[u8]) -> Result<u64> {
        let mut cursor = Cursor::new(&self.root, 0);
        cursor.seek_key(source, key)?;
        Ok(cursor.position())
    }

    /// Returns the positions of the keys that begin with `prefix`. Reads O(log n) nodes.
    ///
    /// # Errors
    /// As [`Map::rank`].
    pub fn prefix_positions(&self, source: &dyn ObjectSource, prefix: &[u8]) -> Result<Range<u64>> {
        let end = after_prefix(prefix).map(|end| self.rank(source, &end)).transpose()?;
        Ok(self.rank(source, prefix)?..end.unwrap_or_else(|| self.len()))
    }

    /// Iterates over the existing keys at these positions, in order, and their items. With
    /// [`Map::rank`] a caller can read backwards from any key. Reads like [`Map::range`].
    pub fn slice<'a>(
        &self,
        source: &'a dyn ObjectSource,
        positions: Range<u64>,
    ) -> impl Iterator<Item = Result<(Bytes, Item)>> + use<'a> {
        let mut cursor = Cursor::new(&self.root, 0);
        let mut left = Some(positions);
        std::iter::from_fn(move || {
            let positions = left.take()?;
            let at = cursor.position().max(positions.start);
            if at >= positions.end {
                return None;
            }
            let entry = cursor.seek(source, at).and_then(|()| cursor.next(source)).transpose()?;
            left = entry.is_ok().then_some(positions);
            Some(entry.map(|entry| (entry.key, entry.item)))
        })
    }

    /// Sets the keys with an item and removes those without one. Reads and writes O(log n) nodes
    /// per changed place; each node is written once, however many edits it contains.
    ///
    /// The map is unchanged after an error.
    ///
    /// # Errors
    /// `InvalidInput` for an empty key, `LimitExceeded` if a key or a meta is too long, `NotFound`
    /// or `Corrupt` if a node is missing or damaged, and errors of the sink.
    pub fn apply(
        &mut self,
        sink: &mut dyn ObjectSink,
        edits: BTreeMap<Bytes, Option<Item>>,
    ) -> Result<()> {
        let mut cursor = Cursor::new(&self.root, 0);
        let mut splices: Vec<Splice> = Vec::new();
        for (key, item) in edits {
            check_key(&key)?;
            item.iter().try_for_each(Item::check)?;
            let old = find(&mut cursor, sink, &key)?;
            if old.map(|entry| &entry.item) == item.as_ref() {
                continue;
            }
            let replaced = u64::from(old.is_some());
            let range = cursor.position()..cursor.position() + replaced;
            let entries = item.map(|item| NodeEntry::leaf(key, item));
            match splices.last_mut().filter(|last| last.range.end == range.start) {
                Some(last) => {
                    last.range.end = range.end;
                    last.entries.extend(entries);
                }
                None => splices.push(Splice { range, entries: entries.into_iter().collect() }),
            }
        }
        self.root = apply(&self.root, sink, splices)?;
        Ok(())
    }
}

impl Default for Map {
    fn default() -> Self {
        Self::new()
    }
}

/// Moves forward to `key`, and returns its entry if it exists.
fn find<'a>(
    cursor: &'a mut Cursor,
    source: &dyn ObjectSource,
    key: &[u8],
) -> Result<Option<&'a NodeEntry>> {
    cursor.seek_key(source, key)?;
    Ok(cursor.peek().map(|(_, entry)| entry).filter(|entry| entry.key == key))
}

fn check_key(key: &[u8]) -> Result<()> {
    match key.len() {
        0 => Err(Error::invalid("a map's key has at least one byte")),
        1..=MAX_KEY_BYTES => Ok(()),
        len => Err(Error::limit("bytes of a map's key", MAX_KEY_BYTES as u64, len as u64)),
    }
}

/// Returns the smallest key above all that begin with `prefix`, or `None` if there is none.
fn after_prefix(prefix: &[u8]) -> Option<Vec<u8>> {
    let last = prefix.iter().rposition(|byte| *byte < u8::MAX)?;
    let mut end = prefix.get(..=last)?.to_vec();
    *end.last_mut()? += 1;
    Some(end)
}
