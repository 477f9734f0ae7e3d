//! Entries of a context: the entries below a path, a single entry, the overview of a snapshot.

use std::collections::BTreeMap;

use bytes::Bytes;
use turntree::context::sections::{FILES, MEMORY, SCRATCHPAD, VFS, is_conversation};
use turntree::context::{
    Context, FileEntry, FileMode, MessageEntry, PathTarget, Section, Shape, open_conflicts, split,
};
use turntree::object::{Commit, Kind, ObjectId, ObjectSource};
use turntree::tree::{Item, List, Map};

use crate::view::clock;
use crate::view::error::Result;
use crate::view::json::{self, ListedEntry};
use crate::view::render::message;

/// The overview of a snapshot.
pub(crate) fn overview(
    id: &ObjectId,
    commit: &Commit,
    context: &Context,
    source: &dyn ObjectSource,
) -> Result<json::Overview> {
    let mut agents = BTreeMap::new();
    for agent in context.agents(source)? {
        let messages = context.messages(source, &agent)?.len();
        agents.insert(agent, json::AgentRecord { messages });
    }
    Ok(json::Overview {
        id: id.to_string(),
        session: commit.session.clone(),
        turn: commit.turn,
        time: clock::rfc3339(commit.time),
        agents,
        files: context.count(source, FILES)?,
        scratchpad: context.count(source, SCRATCHPAD)?,
        memory: context.count(source, MEMORY)?,
        vfs: context.count(source, VFS)?,
        conflicts: open_conflicts(source, context)?.len() as u64,
    })
}

/// Reads the entry at a path; `None` for a folder, or a section with entries.
pub(crate) fn entry_at(
    source: &dyn ObjectSource,
    commit: &ObjectId,
    context: &Context,
    path: &str,
) -> Result<Option<json::EntryRecord>> {
    let (section, _) = split(path);
    let item = match context.lookup(source, path)? {
        PathTarget::Entry(item) => item,
        PathTarget::Section(found) if found.shape == Shape::Blob => Item::new(Kind::Blob, found.id),
        PathTarget::Section(_) | PathTarget::Folder => return Ok(None),
    };
    let bytes = source.read_as(Kind::Blob, &item.link.id)?;
    let mut record = json::EntryRecord {
        at: json::CommitId::new(commit.to_string()),
        path: path.to_owned(),
        blob: item.link.id.to_string(),
        size: bytes.len() as u64,
        role: None,
        format: None,
        origin: None,
        text: std::str::from_utf8(&bytes).ok().map(str::to_owned),
    };
    if is_conversation(section) {
        let entry = MessageEntry::from_item(&item)?;
        record.text = Some(message::full(&message::read(source, &entry)?));
        record.role = Some(entry.role.name());
        record.format = Some(entry.media);
        record.origin = entry.origin;
    }
    Ok(Some(record))
}

/// Lists the entries directly below `path`.
///
/// # Errors
/// `NotFound`, naming the path, if it does not exist.
pub(crate) fn list(
    source: &dyn ObjectSource,
    context: &Context,
    path: &str,
) -> Result<Vec<ListedEntry>> {
    list_part(source, context, path, 0, usize::MAX)
}

/// Lists up to `limit` entries from `offset` on. Reads only their contents.
pub(crate) fn list_part(
    source: &dyn ObjectSource,
    context: &Context,
    path: &str,
    offset: u64,
    limit: usize,
) -> Result<Vec<ListedEntry>> {
    let (section, _) = split(path);
    let offset = usize::try_from(offset).unwrap_or(usize::MAX);
    let found = below(source, context, path)?.into_iter().skip(offset).take(limit);
    let listed = found.map(|(listed, item)| match item {
        Some(item) => entry(source, section, listed, &item),
        None => Ok(listed),
    });
    listed.collect()
}

/// Entries directly below a path, with the tree item of each entry that has content.
type Below = Vec<(ListedEntry, Option<Item>)>;

fn below(source: &dyn ObjectSource, context: &Context, path: &str) -> Result<Below> {
    let (name, rest) = split(path);
    match context.lookup(source, path)? {
        PathTarget::Entry(item) => {
            let shown = rest.rsplit('/').next().unwrap_or(rest);
            Ok(vec![found(shown.to_owned(), item)])
        }
        PathTarget::Section(section) => section_entries(source, name, &section, ""),
        PathTarget::Folder if rest.is_empty() => sections_below(source, context, name),
        PathTarget::Folder => match context.section(source, name)? {
            Some(section) => section_entries(source, name, &section, &format!("{rest}/")),
            None => Ok(Vec::new()),
        },
    }
}

/// The sections, and folders of sections, below a folder.
fn sections_below(source: &dyn ObjectSource, context: &Context, folder: &str) -> Result<Below> {
    let prefix = if folder.is_empty() { String::new() } else { format!("{folder}/") };
    let mut entries = Below::new();
    for (name, section) in context.sections(source)? {
        let Some(below) = name.strip_prefix(&prefix) else { continue };
        match below.split_once('/') {
            Some((first, _)) => push_folder(&mut entries, first),
            None => {
                let listed = ListedEntry {
                    root: Some(section.id.to_string()),
                    count: Some(section.len(source)?),
                    ..ListedEntry::new(below.to_owned(), "section")
                };
                entries.push((listed, None));
            }
        }
    }
    Ok(entries)
}

/// The entries of a section, and folders of entries, whose keys begin with `prefix`.
fn section_entries(
    source: &dyn ObjectSource,
    name: &str,
    section: &Section,
    prefix: &str,
) -> Result<Below> {
    let mut entries = Below::new();
    match section.shape {
        Shape::Blob => {
            let item = Item::new(Kind::Blob, section.id);
            let shown = name.rsplit('/').next().unwrap_or(name);
            entries.push(found(shown.to_owned(), item));
        }
        Shape::List => {
            let list = List::open(source, &section.id)?;
            for (index, item) in list.iter(source, 0..list.len()).enumerate() {
                entries.push(found(index.to_string(), item?));
            }
        }
        Shape::Map => {
            for entry in Map::open(source, &section.id)?.prefix(source, prefix.as_bytes()) {
                let (key, item) = entry?;
                let below = String::from_utf8_lossy(key.get(prefix.len()..).unwrap_or_default());
                match below.split_once('/') {
                    Some((first, _)) => push_folder(&mut entries, first),
                    None => entries.push(found(below.into_owned(), item)),
                }
            }
        }
    }
    Ok(entries)
}

/// Adds a folder, unless it is the last one: entries below a folder are adjacent.
fn push_folder(entries: &mut Below, name: &str) {
    let name = format!("{name}/");
    if entries.last().is_none_or(|(last, _)| last.name != name) {
        entries.push((ListedEntry::new(name, "folder"), None));
    }
}

fn found(name: String, item: Item) -> (ListedEntry, Option<Item>) {
    let blob = Some(item.link.id.to_string());
    (ListedEntry { blob, ..ListedEntry::new(name, "entry") }, Some(item))
}

/// Adds the facts about the entry's content.
fn entry(
    source: &dyn ObjectSource,
    section: &str,
    mut listed: ListedEntry,
    item: &Item,
) -> Result<ListedEntry> {
    if is_conversation(section) {
        let entry = MessageEntry::from_item(item)?;
        listed.kind = "message";
        listed.role = Some(entry.role.name());
        listed.summary = Some(message::summary(source, &entry)?);
    } else if section == FILES {
        let entry = FileEntry::from_item(item)?;
        listed.kind = if entry.mode == FileMode::Symlink { "link" } else { "file" };
        listed.size = Some(entry.size);
    } else {
        let bytes: Bytes = source.read_as(Kind::Blob, &item.link.id)?;
        listed.size = Some(bytes.len() as u64);
    }
    Ok(listed)
}

impl ListedEntry {
    fn new(name: String, kind: &'static str) -> Self {
        let (blob, root, size, count, role, summary) = (None, None, None, None, None, None);
        Self { name, kind, blob, root, size, count, role, summary }
    }
}
