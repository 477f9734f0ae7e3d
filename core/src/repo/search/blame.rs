//! Blame: finds the turn that wrote each part of the current content at a path.
//!
//! The content at a path is split into parts: the lines of a text, the entries of a map or list,
//! the fields of a JSON object. Parts that a parent turn has too are passed on to the parent, and
//! so on; a part that no parent has was written in this turn. A turn in which the path has the same
//! object as in its parent is skipped without reading the object.

use std::collections::{BinaryHeap, HashMap, HashSet};

use bytes::Bytes;
use serde_json::{Map as Fields, Value};

use super::changes::{Lineage, ReadableTurn};
use super::gaps::Gaps;
use super::history_index::HistoryIndex;
use super::line_matching;
use super::turn_changes::SectionDelta;
use crate::context::{
    Context, PathTarget, Section, SectionChange, Shape, equal_positions, has_equal_value, split,
    text_key,
};
use crate::error::{Error, Result};
use crate::object::{Kind, ObjectId, ObjectSource, Time};
use crate::repo::{LogEntry, Repository};
use crate::tree::{Item, List, Map, diff_lists, diff_maps};

/// The authors of the content at a path.
#[derive(Debug, Clone)]
pub struct Blame {
    /// The kind of the parts.
    pub kind: BlameKind,
    /// The parts, in order.
    pub parts: Vec<BlamedPart>,
    /// The turns that could not be searched because they expired.
    pub gaps: Gaps,
}

/// The kinds of parts.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum BlameKind {
    /// Lines of a text.
    Lines,
    /// Fields of a JSON object.
    Fields,
    /// Entries of a map, or sections.
    Entries,
    /// Items of a list.
    Items,
}

/// One part, and the turn that wrote it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct BlamedPart {
    /// The line number from 1, the index of an item of a list, or the name of a field or entry.
    pub name: String,
    /// The content: a line with its end, a value as JSON; empty for an item.
    pub text: Bytes,
    /// The entry; `None` for lines and fields.
    pub item: Option<Item>,
    /// The number of the turn.
    pub turn: u64,
    /// The commit of the turn.
    pub commit: ObjectId,
    /// True if the turns just before it expired: one of them may be the author.
    pub gap: bool,
}

/// The content of a path in one turn.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct BlameVersion {
    shape: Shape,
    id: ObjectId,
}

impl BlameVersion {
    /// Returns the version for an entry of a map.
    fn of_entry(item: &Item) -> Self {
        Self { shape: Shape::Blob, id: item.link.id }
    }
}

/// The content of a path in a turn and in its parent, as far as a history index records it.
enum IndexedVersions {
    /// Both versions are equal.
    Same,
    /// The version of the parent and the version of the turn; `None` if the path does not exist.
    Changed(Option<BlameVersion>, Option<BlameVersion>),
    /// The index does not record it.
    NotIndexed,
}

/// The way to find parts in another version.
enum BlameSubject {
    Lines,
    Fields(Vec<String>),
    /// Names of sections, or keys of a map.
    NameTable(Vec<String>),
    Items,
}

/// Parts without a known writer: the number of each, and its position in the turn's version.
type UnclaimedParts = Vec<(usize, usize)>;

struct BlameWalk<'r, 'p> {
    lineage: Lineage<'r>,
    index: HistoryIndex,
    path: &'p str,
    subject: BlameSubject,
    waiting: BinaryHeap<(u64, Time, ObjectId)>,
    open: HashMap<ObjectId, (LogEntry, UnclaimedParts)>,
}

impl Repository {
    /// Finds the authors of the content at `path` in the turn `id`: line by line for a text, or
    /// with `fields` field by field for a JSON object; entry by entry for a section or folder; as a
    /// whole for a message.
    ///
    /// Among several parents, the first that has a part gets it. Looks up the path in every turn
    /// whose changes no index records, and reads more only of turns in which the path changed.
    ///
    /// # Errors
    /// `NotFound` when the path does not exist, `Expired` when the context of the turn expired,
    /// `InvalidInput` when the content has no fields.
    pub fn blame(&self, id: &ObjectId, path: &str, fields: bool) -> Result<Blame> {
        let context = self.context(id)?;
        let source = self.store();
        let (name, rest) = split(path);
        let place = context.lookup(source, path)?;
        let is_item = matches!(place, PathTarget::Entry(_))
            && context.section(source, name)?.is_some_and(|section| section.shape == Shape::List);
        let (mut parts, subject, path, only) = match place {
            PathTarget::Entry(item) if !is_item => {
                text_parts(source, &item.link.id, fields)?.at(path)
            }
            PathTarget::Section(Section { shape: Shape::Blob, id }) => {
                text_parts(source, &id, fields)?.at(path)
            }
            _ if fields => return Err(no_fields()),
            PathTarget::Section(Section { shape: Shape::List, id }) => {
                item_parts(source, &id)?.at(path)
            }
            PathTarget::Entry(_) => {
                let section = context.section(source, name)?.map(|section| section.id);
                let taken = item_parts(source, &section.unwrap_or(*id))?.at(name);
                (taken.0, taken.1, taken.2, rest.parse::<usize>().ok())
            }
            PathTarget::Section(section) => entry_parts(source, &section.id, "")?.at(path),
            PathTarget::Folder => match context.section(source, name)? {
                Some(section) => entry_parts(source, &section.id, rest)?.at(name),
                None => section_parts(source, &context, path)?.at(""),
            },
        };
        let (lineage, index) = (Lineage::new(self), HistoryIndex::open(source));
        let (waiting, open) = (BinaryHeap::new(), HashMap::new());
        let kind = subject.kind();
        let mut blaming = BlameWalk { lineage, index, path, subject, waiting, open };
        let wanted = (0..parts.len()).filter(|at| only.is_none_or(|only| only == *at));
        blaming.assign_parts(id, wanted.map(|at| (at, at)).collect())?;
        blaming.run(&mut parts)?;
        let at = |(at, part): (usize, BlamedPart)| only.is_none_or(|o| o == at).then_some(part);
        let parts = parts.into_iter().enumerate().filter_map(at).collect();
        Ok(Blame { kind, parts, gaps: blaming.lineage.gaps })
    }
}

/// The parts of the content at a path.
struct PathParts {
    parts: Vec<BlamedPart>,
    subject: BlameSubject,
}

impl PathParts {
    fn at(self, path: &str) -> (Vec<BlamedPart>, BlameSubject, &str, Option<usize>) {
        (self.parts, self.subject, path, None)
    }
}

impl BlameSubject {
    fn kind(&self) -> BlameKind {
        match self {
            Self::Lines => BlameKind::Lines,
            Self::Fields(_) => BlameKind::Fields,
            Self::NameTable(_) => BlameKind::Entries,
            Self::Items => BlameKind::Items,
        }
    }
}

fn part(name: String, text: Bytes, item: Option<Item>) -> BlamedPart {
    let commit = ObjectId::from_bytes([0; 32]);
    BlamedPart { name, text, item, turn: 0, commit, gap: false }
}

fn text_parts(source: &dyn ObjectSource, id: &ObjectId, fields: bool) -> Result<PathParts> {
    let bytes = source.read_as(Kind::Blob, id)?;
    if fields {
        let fields = fields_of(&bytes).ok_or_else(no_fields)?;
        let names = fields.keys().cloned().collect();
        let part = |(name, value): (String, Value)| part(name, value.to_string().into(), None);
        let parts = fields.into_iter().map(part).collect();
        return Ok(PathParts { parts, subject: BlameSubject::Fields(names) });
    }
    let part =
        |(number, line): (u64, &[u8])| part(number.to_string(), Bytes::copy_from_slice(line), None);
    let parts = (1..).zip(line_matching::split(&bytes)).map(part).collect();
    Ok(PathParts { parts, subject: BlameSubject::Lines })
}

fn item_parts(source: &dyn ObjectSource, id: &ObjectId) -> Result<PathParts> {
    let list = List::open(source, id)?;
    let part =
        |(index, item): (u64, Result<Item>)| Ok(part(index.to_string(), Bytes::new(), Some(item?)));
    let parts = (0..).zip(list.iter(source, 0..list.len())).map(part).collect::<Result<_>>()?;
    Ok(PathParts { parts, subject: BlameSubject::Items })
}

/// Returns the entries of a map below a folder.
fn entry_parts(source: &dyn ObjectSource, id: &ObjectId, folder: &str) -> Result<PathParts> {
    let prefix = if folder.is_empty() { String::new() } else { format!("{folder}/") };
    let (mut parts, mut names) = (Vec::new(), Vec::new());
    for entry in Map::open(source, id)?.prefix(source, prefix.as_bytes()) {
        let (key, item) = entry?;
        let key = text_key(&key)?;
        names.push(key.clone());
        parts.push(part(key, Bytes::new(), Some(item)));
    }
    Ok(PathParts { parts, subject: BlameSubject::NameTable(names) })
}

/// Returns the sections below a folder.
fn section_parts(source: &dyn ObjectSource, context: &Context, folder: &str) -> Result<PathParts> {
    let folder = folder.trim_matches('/');
    let prefix = if folder.is_empty() { String::new() } else { format!("{folder}/") };
    let names = context.sections(source)?.into_keys().filter(|name| name.starts_with(&prefix));
    let names: Vec<String> = names.collect();
    let parts = names.iter().map(|name| part(name.clone(), Bytes::new(), None)).collect();
    Ok(PathParts { parts, subject: BlameSubject::NameTable(names) })
}

fn no_fields() -> Error {
    Error::invalid("expected a JSON object with fields")
}

fn fields_of(bytes: &[u8]) -> Option<Fields<String, Value>> {
    serde_json::from_slice(bytes).ok()
}

impl BlameWalk<'_, '_> {
    /// Finds the writers of parts, newest turns first, so that each turn is visited once for all
    /// parts.
    fn run(&mut self, parts: &mut [BlamedPart]) -> Result<()> {
        while let Some((_, _, id)) = self.waiting.pop() {
            let Some((entry, mut open)) = self.open.remove(&id) else { continue };
            let before = self.lineage.before(&entry)?;
            let mut now = None;
            for kept in before.kept {
                if open.is_empty() {
                    break;
                }
                let passed = match self.indexed_versions(&kept, &entry.commit.tree) {
                    IndexedVersions::Same => std::mem::take(&mut open),
                    IndexedVersions::Changed(old, new) => {
                        self.pass_to_parent(old, new, &mut open)?
                    }
                    IndexedVersions::NotIndexed => {
                        let new = match now {
                            Some(known) => known,
                            None => *now.insert(self.version(&entry.commit.tree)?),
                        };
                        match new {
                            Some(_) => {
                                self.pass_to_parent(self.version(&kept.tree)?, new, &mut open)?
                            }
                            None => Vec::new(),
                        }
                    }
                };
                self.assign_parts(&kept.id, passed)?;
            }
            for (number, _) in open {
                if let Some(part) = parts.get_mut(number) {
                    (part.turn, part.commit, part.gap) = (entry.commit.turn, id, before.gap);
                }
            }
        }
        Ok(())
    }

    fn assign_parts(&mut self, id: &ObjectId, more: UnclaimedParts) -> Result<()> {
        if more.is_empty() {
            return Ok(());
        }
        if let Some((_, open)) = self.open.get_mut(id) {
            open.extend(more);
            return Ok(());
        }
        let commit = self.lineage.commit(id)?;
        let parents = self.lineage.repo.grafts()?.parents(&commit);
        self.waiting.push((commit.turn, commit.time, *id));
        self.open.insert(*id, (LogEntry { id: *id, commit, parents }, more));
        Ok(())
    }

    /// Returns the content of the path in a turn and in its parent, according to an index.
    fn indexed_versions(&self, kept: &ReadableTurn, tree: &ObjectId) -> IndexedVersions {
        if kept.tree == *tree {
            return IndexedVersions::Same;
        }
        if self.path.is_empty() {
            return IndexedVersions::NotIndexed;
        }
        let indexed = self.index.find(Some(&kept.tree), tree);
        let Some(changes) = indexed else { return IndexedVersions::NotIndexed };
        let (name, rest) = split(self.path);
        match changes.into_iter().find(|(section, _)| section == name) {
            None => IndexedVersions::Same,
            Some((_, SectionDelta::Entries(Shape::Map, changes))) if !rest.is_empty() => {
                match changes.into_iter().find(|change| change.key == rest) {
                    None => IndexedVersions::Same,
                    Some(SectionChange { old, new, .. }) => {
                        let version = |item: Item| BlameVersion::of_entry(&item);
                        IndexedVersions::Changed(old.map(version), new.map(version))
                    }
                }
            }
            Some(_) => IndexedVersions::NotIndexed,
        }
    }

    /// Reads the content of the path in a context.
    fn version(&self, tree: &ObjectId) -> Result<Option<BlameVersion>> {
        let source = self.lineage.repo.store();
        if self.path.is_empty() {
            return Ok(Some(BlameVersion { shape: Shape::Map, id: *tree }));
        }
        match Context::open(source, tree)?.lookup(source, self.path) {
            Ok(PathTarget::Section(Section { shape, id })) => Ok(Some(BlameVersion { shape, id })),
            Ok(PathTarget::Entry(item)) => Ok(Some(BlameVersion::of_entry(&item))),
            Ok(PathTarget::Folder) => Ok(None),
            Err(error) if error.kind() == crate::ErrorKind::NotFound => Ok(None),
            Err(error) => Err(error),
        }
    }

    /// Removes from `open` the parts that an earlier turn has too, and returns them with their
    /// positions there.
    fn pass_to_parent(
        &self,
        old: Option<BlameVersion>,
        new: Option<BlameVersion>,
        open: &mut UnclaimedParts,
    ) -> Result<UnclaimedParts> {
        let (Some(old), Some(new)) = (old, new) else { return Ok(Vec::new()) };
        if old == new {
            return Ok(std::mem::take(open));
        }
        if old.shape != new.shape {
            return Ok(Vec::new());
        }
        let found = self.position_map(&old.id, &new.id)?;
        let mut passed = Vec::new();
        open.retain(|(number, at)| match found(*at) {
            Some(before) => {
                passed.push((*number, before));
                false
            }
            None => true,
        });
        Ok(passed)
    }

    /// Returns a function from the position of a part in the new version to its position in the old
    /// one.
    fn position_map(
        &self,
        old: &ObjectId,
        new: &ObjectId,
    ) -> Result<Box<dyn Fn(usize) -> Option<usize>>> {
        let source = self.lineage.repo.store();
        let read = |id| source.read_as(Kind::Blob, id);
        match &self.subject {
            BlameSubject::Lines => {
                let shared = line_matching::match_lines(&read(old)?, &read(new)?);
                Ok(Box::new(move |at| shared.get(at).copied().flatten()))
            }
            BlameSubject::Fields(names) => {
                let (old, new) = (fields_of(&read(old)?), fields_of(&read(new)?));
                let (old, new) = (old.unwrap_or_default(), new.unwrap_or_default());
                let same = |name: &String| old.get(name) == new.get(name);
                let same: Vec<bool> = names.iter().map(same).collect();
                Ok(Box::new(move |at| same.get(at).copied().unwrap_or(false).then_some(at)))
            }
            BlameSubject::NameTable(names) => {
                let mut changed = HashSet::new();
                for change in diff_maps(&Map::open(source, old)?, &Map::open(source, new)?, source)
                {
                    let change = change?;
                    let both = change.old.as_ref().zip(change.new.as_ref());
                    if !both.is_some_and(|(old, new)| {
                        has_equal_value(source, old, new).unwrap_or(false)
                    }) {
                        changed.insert(text_key(&change.key)?);
                    }
                }
                let same: Vec<bool> = names.iter().map(|name| !changed.contains(name)).collect();
                Ok(Box::new(move |at| same.get(at).copied().unwrap_or(false).then_some(at)))
            }
            BlameSubject::Items => {
                let (old, new) = (List::open(source, old)?, List::open(source, new)?);
                let changes = diff_lists(&old, &new, source)?;
                let same = equal_positions(source, &old, &new)?;
                let same: HashMap<u64, u64> =
                    same.into_iter().map(|(old, new)| (new, old)).collect();
                Ok(Box::new(move |at| {
                    let at = at as u64;
                    if let Some(before) = same.get(&at) {
                        return usize::try_from(*before).ok();
                    }
                    let next = changes.partition_point(|change| change.new.end <= at);
                    let inside = changes.get(next).is_some_and(|change| change.new.contains(&at));
                    let before = next.checked_sub(1).and_then(|last| changes.get(last));
                    let (old, new) = before.map_or((0, 0), |last| (last.old.end, last.new.end));
                    (!inside).then(|| usize::try_from(at - new + old).ok()).flatten()
                }))
            }
        }
    }
}
