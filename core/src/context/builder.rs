//! Builds contexts, from nothing or from a previous one, section by section.

use std::collections::BTreeMap;

use bytes::Bytes;

use super::entry::{FileEntry, FileMode, MessageEntry, blob_item};
use super::sections::{FILES, MESSAGES, VFS};
use super::{Context, Section, Shape, agent_section};
use crate::error::{Error, Result};
use crate::object::{Kind, ObjectId, ObjectSink, ObjectSource};
use crate::tree::{Item, List};

/// A context under construction.
///
/// Opening a builder on an existing context reads only its root. Lists stay open between turns, so
/// a message costs its blob and occasionally a node. Changes of maps are collected and applied in
/// one pass by [`Builder::write`].
///
/// Nodes written by a builder belong to one transaction. If the transaction fails, start again with
/// [`Builder::from`] the current context of the branch.
#[derive(Debug, Clone, Default)]
pub struct Builder {
    pub(super) context: Context,
    lists: BTreeMap<String, OpenList>,
    maps: BTreeMap<String, BTreeMap<Bytes, Option<Item>>>,
}

#[derive(Debug, Clone)]
struct OpenList {
    list: List,
    changed: bool,
}

impl Builder {
    /// Creates an empty context.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// Continues `context`.
    #[must_use]
    pub fn from(context: Context) -> Self {
        Self { context, ..Self::default() }
    }

    /// Appends a message to an agent's conversation.
    ///
    /// # Errors
    /// `InvalidInput` for a bad agent name, `LimitExceeded` for a bad media type, and errors of the
    /// sink.
    pub fn push_message(
        &mut self,
        sink: &mut dyn ObjectSink,
        agent: &str,
        entry: &MessageEntry,
    ) -> Result<()> {
        let section = agent_section(agent, MESSAGES)?;
        self.push(sink, &section, entry.to_item()?)
    }

    /// Sets a file from its content, or removes it.
    ///
    /// # Errors
    /// `InvalidInput` for a bad path, and errors of the sink.
    pub fn set_file(
        &mut self,
        sink: &mut dyn ObjectSink,
        path: &str,
        file: Option<(FileMode, Bytes)>,
    ) -> Result<()> {
        let value = match file {
            None => None,
            Some((mode, content)) => {
                let size = content.len() as u64;
                let blob = sink.write(Kind::Blob, content)?;
                Some(FileEntry { blob, mode, size }.to_item())
            }
        };
        self.set(sink, FILES, path, value)
    }

    /// Sets an entry of a map section from its bytes, or removes it.
    ///
    /// # Errors
    /// `InvalidInput` for a bad key or a section that is not a map, and errors of the sink.
    pub fn set_entry(
        &mut self,
        sink: &mut dyn ObjectSink,
        section: &str,
        key: &str,
        value: Option<Bytes>,
    ) -> Result<()> {
        let value = match value {
            None => None,
            Some(bytes) => Some(blob_item(sink.write(Kind::Blob, bytes)?, Bytes::new())),
        };
        self.set(sink, section, key, value)
    }

    /// Sets or removes one entry of a map section. Takes effect with [`Builder::write`].
    ///
    /// # Errors
    /// `InvalidInput` for an empty or overlong key, or a section that is not a map.
    pub fn set(
        &mut self,
        source: &dyn ObjectSource,
        section: &str,
        key: &str,
        value: Option<Item>,
    ) -> Result<()> {
        if key.is_empty() || key.len() > crate::tree::MAX_KEY_BYTES {
            return Err(Error::invalid(format!(
                "a key of {section} has {} bytes: expected 1 to {}",
                key.len(),
                crate::tree::MAX_KEY_BYTES
            )));
        }
        self.expect_shape(source, section, Shape::Map)?;
        let edits = self.maps.entry(section.to_owned()).or_default();
        edits.insert(Bytes::copy_from_slice(key.as_bytes()), value);
        Ok(())
    }

    /// Returns true if a map section has this entry, including pending changes.
    ///
    /// # Errors
    /// `InvalidInput` for a section that is not a map, and errors of the source.
    pub fn has_entry(&self, source: &dyn ObjectSource, section: &str, key: &str) -> Result<bool> {
        self.expect_shape(source, section, Shape::Map)?;
        match self.maps.get(section).and_then(|edits| edits.get(key.as_bytes())) {
            Some(edit) => Ok(edit.is_some()),
            None => Ok(self.context.map(source, section)?.get(source, key.as_bytes())?.is_some()),
        }
    }

    /// Appends to a list section.
    ///
    /// # Errors
    /// `InvalidInput` for a section that is not a list, and errors of the sink.
    pub fn push(&mut self, sink: &mut dyn ObjectSink, section: &str, item: Item) -> Result<()> {
        let open = self.open_list(sink, section)?;
        open.changed = true;
        open.list.push(sink, item)
    }

    /// Returns the number of items of a list section, including pending changes.
    ///
    /// # Errors
    /// `InvalidInput` for a section that is not a list, and errors of the source.
    pub fn list_len(&mut self, source: &dyn ObjectSource, section: &str) -> Result<u64> {
        Ok(self.open_list(source, section)?.list.len())
    }

    /// Replaces a range of a list section.
    ///
    /// # Errors
    /// `InvalidInput` for a section that is not a list or a range outside it, and errors of the
    /// sink.
    pub fn splice(
        &mut self,
        sink: &mut dyn ObjectSink,
        section: &str,
        range: std::ops::Range<u64>,
        items: Vec<Item>,
    ) -> Result<()> {
        let open = self.open_list(sink, section)?;
        open.changed = true;
        open.list.splice(sink, range, items)
    }

    /// Sets a list section to exactly `items`. The common prefix stays untouched, so a list that
    /// grew costs only its growth.
    ///
    /// # Errors
    /// As [`Builder::splice`]. A section of another shape is replaced.
    pub fn set_list(
        &mut self,
        sink: &mut dyn ObjectSink,
        section: &str,
        mut items: Vec<Item>,
    ) -> Result<()> {
        if self.shape(sink, section)?.is_some_and(|shape| shape != Shape::List) {
            self.clear(sink, section)?;
        }
        let list = self.open_list(sink, section)?.list.clone();
        let mut common = 0;
        for (old, new) in list.iter(sink, 0..list.len()).zip(&items) {
            if old? != *new {
                break;
            }
            common += 1;
        }
        items.drain(..common);
        self.splice(sink, section, common as u64..list.len(), items)
    }

    /// Replaces a section of any shape with this list.
    pub(super) fn set_list_root(&mut self, section: &str, list: List) {
        self.maps.remove(section);
        self.lists.insert(section.to_owned(), OpenList { list, changed: true });
    }

    /// Removes a section, so that it can be refilled, also with another shape.
    ///
    /// # Errors
    /// Errors of the sink.
    pub fn clear(&mut self, sink: &mut dyn ObjectSink, section: &str) -> Result<()> {
        self.lists.remove(section);
        self.maps.remove(section);
        self.context.set_sections(sink, [(section.to_owned(), None)])
    }

    /// Sets a section as in `other`, discarding pending changes.
    ///
    /// # Errors
    /// Errors of reading `other` and of the sink.
    pub fn set_as_in(
        &mut self,
        sink: &mut dyn ObjectSink,
        section: &str,
        other: &Context,
    ) -> Result<()> {
        self.lists.remove(section);
        self.maps.remove(section);
        let found = other.section(sink, section)?;
        self.context.set_sections(sink, [(section.to_owned(), found)])
    }

    /// Sets a section to a single blob.
    ///
    /// # Errors
    /// Errors of the sink.
    pub fn set_blob(
        &mut self,
        sink: &mut dyn ObjectSink,
        section: &str,
        blob: ObjectId,
    ) -> Result<()> {
        self.clear(sink, section)?;
        let section_value = Section { shape: Shape::Blob, id: blob };
        self.context.set_sections(sink, [(section.to_owned(), Some(section_value))])
    }

    /// Sets a section to one of another context, or removes it.
    ///
    /// # Errors
    /// Errors of the sink.
    pub(super) fn set_section(
        &mut self,
        sink: &mut dyn ObjectSink,
        name: &str,
        section: Option<Section>,
    ) -> Result<()> {
        self.clear(sink, name)?;
        self.context.set_sections(sink, [(name.to_owned(), section)])
    }

    /// Sets a section to an empty list or map, which differs from a missing section.
    ///
    /// # Errors
    /// Errors of the sink.
    pub fn set_empty(
        &mut self,
        sink: &mut dyn ObjectSink,
        section: &str,
        shape: Shape,
    ) -> Result<()> {
        self.clear(sink, section)?;
        match shape {
            Shape::List => {
                let open = OpenList { list: List::new(), changed: true };
                self.lists.insert(section.to_owned(), open);
            }
            Shape::Map => {
                self.maps.insert(section.to_owned(), BTreeMap::new());
            }
            Shape::Blob => {
                return Err(Error::invalid(format!(
                    "{section}: expected a blob of at least 1 byte"
                )));
            }
        }
        Ok(())
    }

    /// Writes the changes and returns the root of the context. The builder continues from there.
    ///
    /// Adds payloads cited by new content to the section [`VFS`], so that they stay
    /// reachable as long as the context.
    ///
    /// Cost: one root per changed section, the nodes that its changes touch, and the context's own
    /// root.
    ///
    /// # Errors
    /// Errors of the sink.
    pub fn write(&mut self, sink: &mut dyn ObjectSink) -> Result<ObjectId> {
        for (name, blob) in sink.take_citations()? {
            self.set(sink, VFS, &name, Some(Item::new(Kind::Blob, blob)))?;
        }
        let mut changed = Vec::new();
        for (section, open) in self.lists.iter_mut().filter(|(_, open)| open.changed) {
            let id = open.list.write(sink)?;
            open.changed = false;
            changed.push((section.clone(), Some(Section { shape: Shape::List, id })));
        }
        for (section, edits) in std::mem::take(&mut self.maps) {
            let mut map = self.context.map(sink, &section)?;
            map.apply(sink, edits)?;
            let id = map.write(sink)?;
            changed.push((section, Some(Section { shape: Shape::Map, id })));
        }
        self.context.set_sections(sink, changed)?;
        self.context.write(sink)
    }

    /// Returns a list section, including pending changes.
    pub(super) fn pending_list(
        &mut self,
        source: &dyn ObjectSource,
        section: &str,
    ) -> Result<List> {
        Ok(self.open_list(source, section)?.list.clone())
    }

    fn open_list(&mut self, source: &dyn ObjectSource, section: &str) -> Result<&mut OpenList> {
        if !self.lists.contains_key(section) {
            self.expect_shape(source, section, Shape::List)?;
            let list = self.context.list(source, section)?;
            self.lists.insert(section.to_owned(), OpenList { list, changed: false });
        }
        self.lists
            .get_mut(section)
            .ok_or_else(|| Error::not_found(format!("section {section} is not open")))
    }

    /// Returns the shape of a section, including pending changes; `None` if it is missing.
    ///
    /// # Errors
    /// Errors of reading the context's root.
    pub fn shape(&self, source: &dyn ObjectSource, section: &str) -> Result<Option<Shape>> {
        if self.lists.contains_key(section) {
            Ok(Some(Shape::List))
        } else if self.maps.contains_key(section) {
            Ok(Some(Shape::Map))
        } else {
            Ok(self.context.section(source, section)?.map(|section| section.shape))
        }
    }

    fn expect_shape(&self, source: &dyn ObjectSource, section: &str, shape: Shape) -> Result<()> {
        match self.shape(source, section)? {
            Some(found) if found != shape => {
                Err(Error::invalid(format!("section {section} is a {found}, not a {shape}")))
            }
            _ => Ok(()),
        }
    }
}
