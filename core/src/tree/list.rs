//! The list: items by position.

use std::ops::Range;

use super::Item;
use super::boundary::TreeShape;
use super::cursor::Cursor;
use super::entry::NodeEntry;
use super::node::Root;
use super::splice::{Splice, apply};
use crate::error::{Error, Result};
use crate::object::{ObjectId, ObjectSink, ObjectSource};

/// A persistent sequence of items. Holds only its root; a clone is another version.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct List {
    pub(super) root: Root,
}

impl List {
    /// Creates an empty list.
    #[must_use]
    pub fn new() -> Self {
        Self { root: Root::empty(TreeShape::List) }
    }

    /// Opens the list with the root `root`. Reads one object.
    ///
    /// # Errors
    /// `NotFound` if it is missing, `Corrupt` if it is not the root of a list.
    pub fn open(source: &dyn ObjectSource, root: &ObjectId) -> Result<Self> {
        Ok(Self { root: Root::read(source, TreeShape::List, root)? })
    }

    /// Stores the root and returns its id, which identifies the content: equal lists have equal
    /// ids.
    ///
    /// # Errors
    /// Errors of the sink.
    pub fn write(&self, sink: &mut dyn ObjectSink) -> Result<ObjectId> {
        self.root.write(sink)
    }

    /// Returns the number of items.
    #[must_use]
    pub fn len(&self) -> u64 {
        self.root.len()
    }

    /// Returns true if the list has no items.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Returns the item at `index`, or `None` past the end. Reads O(log n) nodes.
    ///
    /// # Errors
    /// `NotFound` or `Corrupt` if a node is missing or damaged.
    pub fn get(&self, source: &dyn ObjectSource, index: u64) -> Result<Option<Item>> {
        let mut cursor = Cursor::new(&self.root, 0);
        cursor.seek(source, index)?;
        Ok(cursor.next(source)?.map(|entry| entry.item))
    }

    /// Iterates over the existing items of `range`. Reads nodes on demand and keeps one per level;
    /// ends after the first error.
    pub fn iter<'a>(
        &self,
        source: &'a dyn ObjectSource,
        range: Range<u64>,
    ) -> impl Iterator<Item = Result<Item>> + use<'a> {
        let mut cursor = Cursor::new(&self.root, 0);
        let mut left = Some(range);
        std::iter::from_fn(move || {
            let range = left.take()?;
            let start = cursor.position().max(range.start);
            if start >= range.end {
                return None;
            }
            let entry =
                cursor.seek(source, start).and_then(|()| cursor.next(source)).transpose()?;
            left = entry.is_ok().then_some(range);
            Some(entry.map(|entry| entry.item))
        })
    }

    /// Appends an item. Reads nothing, and writes a node only when one ends.
    ///
    /// # Errors
    /// `LimitExceeded` if the meta is too long, and errors of the sink.
    pub fn push(&mut self, sink: &mut dyn ObjectSink, item: Item) -> Result<()> {
        self.extend(sink, vec![item])
    }

    /// Appends items. Reads nothing, and writes each finished node once.
    ///
    /// # Errors
    /// `LimitExceeded` if a meta is too long, and errors of the sink.
    pub fn extend(&mut self, sink: &mut dyn ObjectSink, items: Vec<Item>) -> Result<()> {
        let end = self.len();
        self.splice(sink, end..end, items)
    }

    /// Replaces the items of `range` by `items`. Reads and writes O(log n) nodes, plus the items.
    ///
    /// The list is unchanged after an error.
    ///
    /// # Errors
    /// `InvalidInput` if the range is not within the list, `LimitExceeded` if a meta is too long,
    /// `NotFound` or `Corrupt` if a node is missing or damaged, and errors of the sink.
    pub fn splice(
        &mut self,
        sink: &mut dyn ObjectSink,
        range: Range<u64>,
        items: Vec<Item>,
    ) -> Result<()> {
        let Range { start, end } = range;
        if start > end || end > self.len() {
            let len = self.len();
            return Err(Error::invalid(format!("range {start}..{end} of a list of {len} items")));
        }
        items.iter().try_for_each(Item::check)?;
        let entries = items.into_iter().map(|item| NodeEntry::leaf(bytes::Bytes::new(), item));
        let splice = Splice { range, entries: entries.collect() };
        self.root = apply(&self.root, sink, vec![splice])?;
        Ok(())
    }
}

impl Default for List {
    fn default() -> Self {
        Self::new()
    }
}
