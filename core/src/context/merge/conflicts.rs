//! Conflicts as values: each side's version is in the context itself, until the conflict is
//! resolved.
//!
//! ```text
//! conflicts/base/files/src/a.rs      the entries of base, ours and theirs, as they are there;
//! conflicts/ours/files/src/a.rs      a version that has none has no key
//! conflicts/theirs/files/src/a.rs
//! ```
//!
//! So a conflict is copied, shown, compared, retained and exported like any other content. A
//! section that conflicts as a whole is stored by entry, a list under six-digit numbers.

use std::collections::BTreeMap;
use std::fmt;

use bytes::Bytes;

use super::files;
use crate::context::entry::{FileEntry, FileMode, blob_item};
use crate::context::sections::{CONFLICTS, FILES};
use crate::context::{Builder, Context, Section, Shape, split, text_key};
use crate::error::{Error, Result};
use crate::object::{Kind, ObjectSink, ObjectSource};
use crate::tree::{Item, List, Map, merge_maps};

/// One of the three versions in a merge.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum MergeSide {
    /// The merge base.
    Base,
    /// The side that is merged into.
    Ours,
    /// The side that is merged.
    Theirs,
}

impl MergeSide {
    /// All versions.
    pub const ALL: [Self; 3] = [Self::Base, Self::Ours, Self::Theirs];

    /// Returns the name in paths and for display.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Base => "base",
            Self::Ours => "ours",
            Self::Theirs => "theirs",
        }
    }
}

impl fmt::Display for MergeSide {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

/// The kind of a conflict between two sides.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ConflictKind {
    /// Both sides changed the entry.
    BothChanged,
    /// Both sides added the entry.
    BothAdded,
    /// Ours removed an entry that theirs changed.
    RemovedInOurs,
    /// Theirs removed an entry that ours changed.
    RemovedInTheirs,
    /// Theirs added a file where ours has a folder, or the reverse.
    InTheWay,
}

impl ConflictKind {
    /// Returns the kind of a conflict from the versions that have an entry.
    pub(super) const fn of(base: bool, ours: bool, theirs: bool) -> Self {
        match (base, ours, theirs) {
            (true, true, true) => Self::BothChanged,
            (false, true, true) => Self::BothAdded,
            (true, false, _) => Self::RemovedInOurs,
            (_, true, false) => Self::RemovedInTheirs,
            (false, false, _) => Self::InTheWay,
        }
    }

    /// Returns the name in JSON.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::BothChanged => "both-changed",
            Self::BothAdded => "both-added",
            Self::RemovedInOurs => "removed-in-ours",
            Self::RemovedInTheirs => "removed-in-theirs",
            Self::InTheWay => "in-the-way",
        }
    }
}

/// An open conflict of a context.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct OpenConflict {
    /// The conflicting path: `files/src/a.rs`, or a section.
    pub path: String,
    /// The kind of the conflict.
    pub kind: ConflictKind,
    /// The values of each side, by the path below `path`, which is empty for an entry.
    versions: BTreeMap<MergeSide, BTreeMap<String, Item>>,
}

impl OpenConflict {
    /// Returns the entry in a version; `None` if it is missing there, or a whole section conflicts.
    #[must_use]
    pub fn item(&self, version: MergeSide) -> Option<&Item> {
        self.versions.get(&version)?.get("")
    }
}

/// A resolution of a conflict.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Take {
    /// As in a version; an entry that the version lacks is removed.
    Version(MergeSide),
    /// As in the context now.
    Current,
    /// These bytes.
    Content(Bytes),
}

/// Returns the open conflicts of a context, ordered by path. Reads the section `CONFLICTS`.
///
/// # Errors
/// Errors of reading; `InvalidInput` if the section is not a map.
pub fn open_conflicts(source: &dyn ObjectSource, context: &Context) -> Result<Vec<OpenConflict>> {
    let mut found: BTreeMap<String, OpenConflict> = BTreeMap::new();
    let mut whole: BTreeMap<String, bool> = BTreeMap::new();
    for entry in context.map(source, CONFLICTS)?.iter(source) {
        let (key, item) = entry?;
        let key = text_key(&key)?;
        // Skip entries that other programs wrote into the section.
        let Some((version, place)) = version_of(&key) else { continue };
        let (section, below) = split(place);
        let is_whole = match whole.get(section) {
            Some(is_whole) => *is_whole,
            None => {
                let shape = context.section(source, section)?.map(|section| section.shape);
                let is_whole = shape.is_some_and(|shape| shape != Shape::Map);
                *whole.entry(section.to_owned()).or_insert(is_whole)
            }
        };
        let (path, below) = if is_whole { (section, below) } else { (place, "") };
        let conflict = found.entry(path.to_owned()).or_insert_with(|| OpenConflict {
            path: path.to_owned(),
            kind: ConflictKind::InTheWay,
            versions: BTreeMap::new(),
        });
        conflict.versions.entry(version).or_default().insert(below.to_owned(), item);
    }
    let mut conflicts: Vec<OpenConflict> = found.into_values().collect();
    for conflict in &mut conflicts {
        let has = |version| conflict.versions.contains_key(&version);
        conflict.kind =
            ConflictKind::of(has(MergeSide::Base), has(MergeSide::Ours), has(MergeSide::Theirs));
    }
    Ok(conflicts)
}

/// Resolves a conflict in `builder`, which continues `context`, and closes it. Returns the paths of
/// files that were removed because they blocked the chosen version.
///
/// # Errors
/// `InvalidInput` for content that is invalid there; errors of reading and writing.
pub fn resolve(
    sink: &mut dyn ObjectSink,
    builder: &mut Builder,
    context: &Context,
    conflict: &OpenConflict,
    take: &Take,
) -> Result<Vec<String>> {
    let path = conflict.path.as_str();
    let (section, key) = split(path);
    let mut removed = Vec::new();
    match take {
        Take::Current => {}
        Take::Version(version) if key.is_empty() => {
            let items = conflict.versions.get(version).cloned().unwrap_or_default();
            set_version(sink, builder, section, items)?;
        }
        Take::Content(content) if key.is_empty() => {
            let shape = context.section(sink, section)?.map(|section| section.shape);
            if shape != Some(Shape::Blob) {
                let message =
                    format!("{section} is in conflict as a whole: take one of its versions");
                return Err(Error::invalid(message));
            }
            let blob = sink.write(Kind::Blob, content.clone())?;
            builder.set_blob(sink, section, blob)?;
        }
        Take::Version(_) | Take::Content(_) => {
            let item = match take {
                Take::Content(content) => Some(content_item(sink, context, conflict, content)?),
                Take::Version(version) => match conflict.item(*version) {
                    Some(item) if section == FILES => Some(file_item(sink, item)?),
                    item => item.cloned(),
                },
                Take::Current => None,
            };
            if section == FILES && item.is_some() {
                removed = files::clashing_files(sink, &context.map(sink, FILES)?, key)?;
                for path in &removed {
                    builder.set(sink, FILES, path, None)?;
                }
            }
            if item.is_some() || context.section(sink, section)?.is_some() {
                builder.set(sink, section, key, item)?;
            }
        }
    }
    close(sink, builder, conflict)?;
    Ok(removed)
}

/// Returns an entry of `files` from a conflict. Recomputes the size, because a redaction may have
/// changed the content. An entry that another program wrote becomes a regular file.
fn file_item(source: &dyn ObjectSource, item: &Item) -> Result<Item> {
    let size = source.read_as(Kind::Blob, &item.link.id)?.len() as u64;
    let mode = FileEntry::from_item(item).map_or(FileMode::Regular, |file| file.mode);
    Ok(FileEntry { blob: item.link.id, mode, size }.to_item())
}

/// Returns an entry with new content, of the same kind as before.
fn content_item(
    sink: &mut dyn ObjectSink,
    context: &Context,
    conflict: &OpenConflict,
    content: &Bytes,
) -> Result<Item> {
    let (section, key) = split(&conflict.path);
    let now = context.map(sink, section)?.get(sink, key.as_bytes())?;
    let like = [MergeSide::Ours, MergeSide::Theirs, MergeSide::Base];
    let like = now.as_ref().or_else(|| like.into_iter().find_map(|v| conflict.item(v)));
    let size = content.len() as u64;
    let blob = sink.write(Kind::Blob, content.clone())?;
    if section == FILES {
        let mode = like.and_then(|item| FileEntry::from_item(item).ok()).map(|file| file.mode);
        let mode = mode.filter(|mode| *mode != FileMode::Symlink).unwrap_or(FileMode::Regular);
        return Ok(FileEntry { blob, mode, size }.to_item());
    }
    let meta = like.map(|item| item.meta.clone()).unwrap_or_default();
    if meta == super::value::JSON
        && serde_json::from_slice::<serde::de::IgnoredAny>(content).is_err()
    {
        let message = format!("{} is JSON, but the new content is not", conflict.path);
        return Err(Error::invalid(message));
    }
    Ok(blob_item(blob, meta))
}

/// Sets a section to one version.
fn set_version(
    sink: &mut dyn ObjectSink,
    builder: &mut Builder,
    section: &str,
    items: BTreeMap<String, Item>,
) -> Result<()> {
    if let Some(item) = items.get("") {
        return builder.set_blob(sink, section, item.link.id);
    }
    builder.clear(sink, section)?;
    let is_list = (0..).zip(items.keys()).all(|(at, key)| *key == list_key(at));
    if is_list && !items.is_empty() {
        return builder.set_list(sink, section, items.into_values().collect());
    }
    for (key, item) in items {
        builder.set(sink, section, &key, Some(item))?;
    }
    Ok(())
}

/// Returns the key of an item of a list.
fn list_key(index: u64) -> String {
    format!("{index:06}")
}

/// Removes a conflict from the section; `write` drops the section with the last one.
fn close(sink: &mut dyn ObjectSink, builder: &mut Builder, conflict: &OpenConflict) -> Result<()> {
    for (version, items) in &conflict.versions {
        for below in items.keys() {
            builder.set(sink, CONFLICTS, &key_of(*version, &conflict.path, below), None)?;
        }
    }
    Ok(())
}

/// Writes `builder`, and removes the conflicts section if it is empty.
///
/// # Errors
/// Errors of the sink.
pub(crate) fn write(
    sink: &mut dyn ObjectSink,
    builder: &mut Builder,
) -> Result<crate::object::ObjectId> {
    let tree = builder.write(sink)?;
    let context = Context::open(sink, &tree)?;
    let section = context.section(sink, CONFLICTS)?;
    match section {
        Some(section) if section.shape == Shape::Map && section.len(sink)? == 0 => {
            builder.clear(sink, CONFLICTS)?;
            builder.write(sink)
        }
        _ => Ok(tree),
    }
}

fn key_of(version: MergeSide, path: &str, below: &str) -> String {
    let slash = if below.is_empty() { "" } else { "/" };
    format!("{version}/{path}{slash}{below}")
}

fn version_of(key: &str) -> Option<(MergeSide, &str)> {
    let (name, path) = key.split_once('/')?;
    let version = MergeSide::ALL.into_iter().find(|version| version.name() == name)?;
    (!path.is_empty()).then_some((version, path))
}

/// Opens a conflict about an entry, replacing one about the same path.
pub(super) fn open(
    sink: &mut dyn ObjectSink,
    builder: &mut Builder,
    path: &str,
    versions: [Option<Item>; 3],
) -> Result<()> {
    for (version, item) in MergeSide::ALL.into_iter().zip(versions) {
        builder.set(sink, CONFLICTS, &key_of(version, path, ""), item)?;
    }
    Ok(())
}

/// Opens a conflict about a whole section, replacing a previous one.
pub(super) fn open_section(
    sink: &mut dyn ObjectSink,
    builder: &mut Builder,
    ours: &Context,
    name: &str,
    versions: [Option<Section>; 3],
) -> Result<()> {
    let before = ours.map(sink, CONFLICTS)?;
    for (version, section) in MergeSide::ALL.into_iter().zip(versions) {
        let folder = key_of(version, name, "");
        let old = before.prefix(sink, folder.as_bytes()).collect::<Result<Vec<_>>>()?;
        for (key, _) in old {
            let key = text_key(&key)?;
            if key
                .strip_prefix(&folder)
                .is_some_and(|rest| rest.is_empty() || rest.starts_with('/'))
            {
                builder.set(sink, CONFLICTS, &key, None)?;
            }
        }
        for (below, item) in entries(sink, section)? {
            builder.set(sink, CONFLICTS, &key_of(version, name, &below), Some(item))?;
        }
    }
    Ok(())
}

/// Returns the entries of a section under their names in a conflict.
fn entries(source: &dyn ObjectSource, section: Option<Section>) -> Result<Vec<(String, Item)>> {
    match section {
        None => Ok(Vec::new()),
        Some(Section { shape: Shape::Blob, id }) => {
            Ok(vec![(String::new(), blob_item(id, Bytes::new()))])
        }
        Some(Section { shape: Shape::List, id }) => {
            let list = List::open(source, &id)?;
            let items = (0..).zip(list.iter(source, 0..list.len()));
            items.map(|(at, item)| Ok((list_key(at), item?))).collect()
        }
        Some(Section { shape: Shape::Map, id }) => {
            let entries = Map::open(source, &id)?.iter(source);
            entries.map(|entry| entry.and_then(|(key, item)| Ok((text_key(&key)?, item)))).collect()
        }
    }
}

/// Copies open conflicts of theirs. A conflict of ours about the same path stays instead.
pub(super) fn copy_open_conflicts(
    sink: &mut dyn ObjectSink,
    builder: &mut Builder,
    [base, ours, theirs]: [&Context; 3],
) -> Result<()> {
    let open = |context: &Context, sink: &dyn ObjectSource| context.map(sink, CONFLICTS);
    let (base, ours, theirs) = (open(base, sink)?, open(ours, sink)?, open(theirs, sink)?);
    let merge = merge_maps(&base, &ours, &theirs, sink)?;
    let mut changed: BTreeMap<String, Vec<(String, Option<Item>)>> = BTreeMap::new();
    for (key, item) in merge.edits {
        let key = text_key(&key)?;
        let path = version_of(&key).map_or(key.as_str(), |(_, path)| path).to_owned();
        changed.entry(path).or_default().push((key, item));
    }
    for conflict in merge.conflicts {
        let key = text_key(&conflict.key)?;
        changed.remove(version_of(&key).map_or(key.as_str(), |(_, path)| path));
    }
    for (path, entries) in changed {
        // A conflict is closed or changed as a whole: ours wins if it changed any part of it.
        let mut is_ours = false;
        for version in MergeSide::ALL {
            let key = key_of(version, &path, "");
            is_ours |= ours.get(sink, key.as_bytes())? != base.get(sink, key.as_bytes())?;
        }
        for (key, item) in entries.into_iter().filter(|_| !is_ours) {
            builder.set(sink, CONFLICTS, &key, item)?;
        }
    }
    Ok(())
}
