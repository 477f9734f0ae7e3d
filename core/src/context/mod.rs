//! The whole state that an agent would receive next: sections under one root.
//!
//! A context is a map from section names to roots, and this map is a tree too. So equal contexts
//! have equal ids, and a diff skips every unchanged section.
//!
//! [`sections`] has the facts about each section. [`Builder`] creates contexts, [`Context`] reads
//! them.
//!
//! ```
//! use turntree::context::{Builder, Context, MessageEntry, Role};
//! use turntree::object::{Kind, Memory, ObjectSink};
//!
//! let mut objects = Memory::new();
//! let mut builder = Builder::new();
//! let blob = objects.write(Kind::Blob, r#"{"role":"user","content":"hi"}"#.into())?;
//! let entry = MessageEntry::new(blob, Role::User, "json");
//! builder.push_message(&mut objects, "main", &entry)?;
//! builder.set_entry(&mut objects, "scratchpad", "plan", Some("say hello".into()))?;
//! let tree = builder.write(&mut objects)?;
//!
//! let context = Context::open(&objects, &tree)?;
//! assert_eq!(context.messages(&objects, "main")?.len(), 1);
//! assert_eq!(context.agents(&objects)?, ["main"]);
//! # Ok::<(), turntree::Error>(())
//! ```

mod builder;
mod by_value;
mod diff;
mod entry;
mod export;
mod merge;
mod path;
mod salvage;
pub mod sections;
mod selection;
mod transcript;

use std::collections::BTreeMap;
use std::fmt;

use bytes::Bytes;

pub use builder::Builder;
pub use by_value::{diff_by_value, diff_by_value_but};
pub(crate) use by_value::{equal_positions, has_equal_value};
pub use diff::{ContextDiff, SectionChange, SectionDiff, changed_sections, diff, diff_section};
pub use entry::{
    FileEntry, FileMode, MAX_SUFFIX_BYTES, MessageEntry, Role, SourceEntry, SourceKind,
};
pub use export::{compact_json, export_messages, export_source};
pub use merge::{
    Added, Conflict, ConflictKind, ContextMerge, MergeSide, MessagePolicy, OpenConflict,
    SectionMerge, Take, ToolUse, open_conflicts, resolve,
};
pub(crate) use merge::{
    Labels, MergeOptions, ReadToolUse, continues_transcript, merge, write as write_resolved,
};
pub use path::{MAX_PATH_BYTES, agent_section, split};
pub use salvage::{SalvagedRecords, salvage_messages, salvage_source};
pub use selection::Selection;
pub use transcript::{CopyWriter, Transcript, TranscriptPiece, without_values};

use self::sections::{AGENTS_PREFIX, MESSAGES, is_conversation};
use crate::error::{Error, Result};
use crate::object::{Kind, ObjectId, ObjectSink, ObjectSource};
use crate::tree::{Item, Link, List, Map};

/// The media type of JSON values.
pub const JSON_MEDIA: &str = "json";

/// The agent with the session's main conversation.
pub const MAIN_AGENT: &str = "main";

/// The shape of a section. The codes are part of the format.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[repr(u8)]
pub enum Shape {
    /// One blob.
    Blob = 0,
    /// A list of blobs.
    List = 1,
    /// A map from keys to blobs.
    Map = 2,
}

impl Shape {
    /// Returns the name in JSON and for display.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Blob => "blob",
            Self::List => "list",
            Self::Map => "map",
        }
    }
}

impl fmt::Display for Shape {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

/// A section: its shape, and the blob or the root of its tree.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Section {
    /// The shape of the section.
    pub shape: Shape,
    /// The blob, or the root of the list or map.
    pub id: ObjectId,
}

/// The target of a path into a context.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum PathTarget {
    /// A folder with sections or entries below the path.
    Folder,
    /// A whole section.
    Section(Section),
    /// One entry of a section.
    Entry(Item),
}

/// A context for reading.
#[derive(Debug, Clone, Default)]
pub struct Context {
    root: Map,
}

impl Context {
    /// Opens the context whose root is `tree`. Reads one object.
    ///
    /// # Errors
    /// `NotFound` or `Corrupt`, naming the root.
    pub fn open(source: &dyn ObjectSource, tree: &ObjectId) -> Result<Self> {
        Ok(Self { root: Map::open(source, tree)? })
    }

    /// Returns every section, ordered by name.
    ///
    /// # Errors
    /// Errors of reading the root's nodes.
    pub fn sections(&self, source: &dyn ObjectSource) -> Result<BTreeMap<String, Section>> {
        self.root
            .iter(source)
            .map(|entry| {
                let (key, item) = entry?;
                Ok((text_key(&key)?, section_of(&item)?))
            })
            .collect()
    }

    /// Returns a section, if it exists.
    ///
    /// # Errors
    /// Errors of reading the root's nodes.
    pub fn section(&self, source: &dyn ObjectSource, name: &str) -> Result<Option<Section>> {
        self.root.get(source, name.as_bytes())?.map(|item| section_of(&item)).transpose()
    }

    /// Returns a list section; empty if it is missing.
    ///
    /// # Errors
    /// `InvalidInput` if the section has another shape.
    pub fn list(&self, source: &dyn ObjectSource, name: &str) -> Result<List> {
        match self.section(source, name)? {
            None => Ok(List::new()),
            Some(Section { shape: Shape::List, id }) => List::open(source, &id),
            Some(section) => Err(shape_error(name, section.shape, Shape::List)),
        }
    }

    /// Returns a map section; empty if it is missing.
    ///
    /// # Errors
    /// `InvalidInput` if the section has another shape.
    pub fn map(&self, source: &dyn ObjectSource, name: &str) -> Result<Map> {
        match self.section(source, name)? {
            None => Ok(Map::new()),
            Some(Section { shape: Shape::Map, id }) => Map::open(source, &id),
            Some(section) => Err(shape_error(name, section.shape, Shape::Map)),
        }
    }

    /// Returns the conversation of an agent; empty if it has none.
    ///
    /// # Errors
    /// `InvalidInput` for a bad name; errors of reading.
    pub fn messages(&self, source: &dyn ObjectSource, agent: &str) -> Result<List> {
        self.list(source, &agent_section(agent, MESSAGES)?)
    }

    /// Returns the agents that have any section, ordered by name.
    ///
    /// # Errors
    /// Errors of reading the root's nodes.
    pub fn agents(&self, source: &dyn ObjectSource) -> Result<Vec<String>> {
        let mut agents: Vec<String> = Vec::new();
        for entry in self.root.prefix(source, AGENTS_PREFIX.as_bytes()) {
            let key = text_key(&entry?.0)?;
            if let Some(name) = key.split('/').nth(1)
                && agents.last().is_none_or(|last| last != name)
            {
                agents.push(name.to_owned());
            }
        }
        Ok(agents)
    }

    /// Returns the number of entries: items of a list, keys of a map, 1 for a blob, 0 for a missing
    /// section.
    ///
    /// # Errors
    /// Errors of reading.
    pub fn count(&self, source: &dyn ObjectSource, name: &str) -> Result<u64> {
        match self.section(source, name)? {
            None => Ok(0),
            Some(section) => section.len(source),
        }
    }

    /// Returns the number of messages of all agents.
    ///
    /// # Errors
    /// Errors of reading.
    pub fn message_count(&self, source: &dyn ObjectSource) -> Result<u64> {
        let mut count = 0;
        for entry in self.root.prefix(source, AGENTS_PREFIX.as_bytes()) {
            let (key, item) = entry?;
            if is_conversation(&text_key(&key)?) {
                count += section_of(&item)?.len(source)?;
            }
        }
        Ok(count)
    }

    /// Returns the target of `path`: a folder of sections, a section, or one entry.
    ///
    /// List entries are named by their index.
    ///
    /// # Errors
    /// `NotFound`, naming the path, if it does not exist.
    pub fn lookup(&self, source: &dyn ObjectSource, path: &str) -> Result<PathTarget> {
        let (name, rest) = split(path);
        let missing = || Error::not_found(format!("'{path}' is not in this context"));
        let Some(section) = self.section(source, name)? else {
            let folder = format!("{}/", name.trim_end_matches('/'));
            let is_folder = rest.is_empty()
                && (name.is_empty()
                    || self.root.prefix(source, folder.as_bytes()).next().transpose()?.is_some());
            return if is_folder { Ok(PathTarget::Folder) } else { Err(missing()) };
        };
        if rest.is_empty() {
            return Ok(PathTarget::Section(section));
        }
        let entry = match section.shape {
            Shape::Blob => None,
            Shape::List => match rest.parse() {
                Ok(index) => List::open(source, &section.id)?.get(source, index)?,
                Err(_) => None,
            },
            Shape::Map => {
                let map = Map::open(source, &section.id)?;
                match map.get(source, rest.as_bytes())? {
                    Some(item) => Some(item),
                    None => {
                        let folder = format!("{rest}/");
                        let below = map.prefix(source, folder.as_bytes()).next().transpose()?;
                        return below.map(|_| PathTarget::Folder).ok_or_else(missing);
                    }
                }
            }
        };
        entry.map(PathTarget::Entry).ok_or_else(missing)
    }

    /// Sets or removes sections in one pass.
    fn set_sections(
        &mut self,
        sink: &mut dyn ObjectSink,
        sections: impl IntoIterator<Item = (String, Option<Section>)>,
    ) -> Result<()> {
        let edits = sections
            .into_iter()
            .map(|(name, section)| (Bytes::from(name), section.map(section_item)))
            .collect();
        self.root.apply(sink, edits)
    }

    /// Stores the root.
    fn write(&self, sink: &mut dyn ObjectSink) -> Result<ObjectId> {
        self.root.write(sink)
    }
}

impl Section {
    /// Returns the number of items of a list or keys of a map, or 1 for a blob. Reads the root.
    ///
    /// # Errors
    /// Errors of reading.
    pub fn len(&self, source: &dyn ObjectSource) -> Result<u64> {
        match self.shape {
            Shape::Blob => Ok(1),
            Shape::List => Ok(List::open(source, &self.id)?.len()),
            Shape::Map => Ok(Map::open(source, &self.id)?.len()),
        }
    }
}

fn section_item(section: Section) -> Item {
    let kind = if section.shape == Shape::Blob { Kind::Blob } else { Kind::Node };
    Item {
        link: Link { kind, id: section.id },
        meta: Bytes::copy_from_slice(&[section.shape as u8]),
    }
}

fn section_of(item: &Item) -> Result<Section> {
    let shapes = [Shape::Blob, Shape::List, Shape::Map];
    let [code] = item.meta[..] else {
        return Err(Error::malformed(item.link.id, "a section"));
    };
    let shape = shapes.into_iter().find(|shape| *shape as u8 == code);
    let shape =
        shape.ok_or_else(|| Error::corrupt(item.link.id, "the shape of a section", code))?;
    Ok(Section { shape, id: item.link.id })
}

/// Decodes a key as text: keys of a context's own sections are UTF-8.
pub(crate) fn text_key(key: &[u8]) -> Result<String> {
    String::from_utf8(key.to_vec())
        .map_err(|source| Error::corrupt("key of a section", "UTF-8", "bytes").with_source(source))
}

fn shape_error(name: &str, found: Shape, expected: Shape) -> Error {
    Error::invalid(format!("section {name} is a {found}, not a {expected}"))
}
