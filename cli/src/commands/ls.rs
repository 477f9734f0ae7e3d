//! `ls`: what a context holds, level by level.

use std::io::Write;

use bytes::Bytes;
use clap::Args;
use clap_complete::ArgValueCandidates;
use turntree::context::{Context, FileEntry, FileMode, MessageEntry, Place, Section, Shape, split};
use turntree::object::{Kind, ObjectId, ObjectSource};
use turntree::tree::{Item, List, Map};

use super::Verb;
use crate::complete::revisions;
use crate::error::{Answer, Result};
use crate::invocation::Invocation;
use crate::json;
use crate::json::Listed;
use crate::output::{FAINT, NAME, Output};
use crate::render::{count, message, size};
use crate::revision::resolve;

/// List what a context holds
///
/// Without a path these are the sections; a path leads into one: agents/main/messages, files/src,
/// scratchpad.
#[derive(Debug, Args)]
#[command(after_long_help = "Examples:
  turntree ls
  turntree ls HEAD:files/src
  turntree ls nightly~3:agents/main/messages")]
pub(crate) struct Ls {
    /// A revision, with a path into it
    #[arg(value_name = "REV[:PATH]", default_value = "HEAD", add = ArgValueCandidates::new(revisions))]
    revision: String,
}

impl Verb for Ls {
    fn reads_only(&self) -> bool {
        true
    }

    fn run(&self, run: &mut Invocation) -> Result<Answer> {
        let repo = run.open()?;
        let revision = resolve(&repo, &self.revision)?;
        let context = repo.context(&revision.commit)?;
        let path = revision.path.unwrap_or_default();
        let entries = list(repo.store(), &context, &path)?;
        print(&mut run.out, revision.commit, path, entries)?;
        Ok(Answer::Yes)
    }
}

/// Prints a listing.
pub(crate) fn print(
    out: &mut Output,
    commit: ObjectId,
    path: String,
    entries: Vec<Listed>,
) -> Result<()> {
    if out.json {
        out.record(&json::Listing { commit: commit.to_string(), path, entries })?;
        return Ok(());
    }
    let paint = out.paint;
    let width = entries.iter().map(|entry| entry.name.chars().count()).max().unwrap_or(0).min(48);
    for entry in &entries {
        let about = match entry {
            Listed { summary: Some(summary), role, .. } => {
                format!("{:<9}  {summary}", role.unwrap_or_default())
            }
            Listed { size: Some(bytes), .. } => size(*bytes),
            Listed { count: Some(n), .. } => count(*n, entries_of(&entry.name)),
            _ => String::new(),
        };
        let style = if matches!(entry.kind, "folder" | "section") { NAME } else { FAINT };
        let name = paint.paint(style, format!("{:<width$}", entry.name));
        writeln!(out, "{}", format!("{name}  {about}").trim_end())?;
    }
    Ok(())
}

/// What the entries of a section are called.
pub(crate) fn entries_of(section: &str) -> &'static str {
    match section.rsplit('/').next().unwrap_or(section) {
        "messages" => "message",
        "files" => "file",
        "source" => "piece",
        _ => "entry",
    }
}

/// What is directly below `path`.
///
/// # Errors
/// `NotFound`, naming the path, when nothing is there.
pub(crate) fn list(
    source: &dyn ObjectSource,
    context: &Context,
    path: &str,
) -> Result<Vec<Listed>> {
    list_part(source, context, path, 0, usize::MAX)
}

/// The same, `limit` of it from the place `offset` on. Only their contents are read.
pub(crate) fn list_part(
    source: &dyn ObjectSource,
    context: &Context,
    path: &str,
    offset: u64,
    limit: usize,
) -> Result<Vec<Listed>> {
    let (section, _) = split(path);
    let offset = usize::try_from(offset).unwrap_or(usize::MAX);
    let found = below(source, context, path)?.into_iter().skip(offset).take(limit);
    let listed = found.map(|(listed, item)| match item {
        Some(item) => entry(source, section, listed, &item),
        None => Ok(listed),
    });
    listed.collect()
}

/// What is directly below a path, with the item of each that has a content to look at.
type Below = Vec<(Listed, Option<Item>)>;

fn below(source: &dyn ObjectSource, context: &Context, path: &str) -> Result<Below> {
    let (name, rest) = split(path);
    match context.lookup(source, path)? {
        Place::Entry(item) => {
            let shown = rest.rsplit('/').next().unwrap_or(rest);
            Ok(vec![found(shown.to_owned(), item)])
        }
        Place::Section(section) => section_entries(source, name, &section, ""),
        Place::Folder if rest.is_empty() => sections_below(source, context, name),
        Place::Folder => match context.section(source, name)? {
            Some(section) => section_entries(source, name, &section, &format!("{rest}/")),
            None => Ok(Vec::new()),
        },
    }
}

/// Sections and folders of sections below a folder.
fn sections_below(source: &dyn ObjectSource, context: &Context, folder: &str) -> Result<Below> {
    let prefix = if folder.is_empty() { String::new() } else { format!("{folder}/") };
    let mut entries = Below::new();
    for (name, section) in context.sections(source)? {
        let Some(below) = name.strip_prefix(&prefix) else { continue };
        match below.split_once('/') {
            Some((first, _)) => push_folder(&mut entries, first),
            None => {
                let listed = Listed {
                    id: Some(section.id.to_string()),
                    count: Some(section.len(source)?),
                    ..Listed::new(below.to_owned(), "section")
                };
                entries.push((listed, None));
            }
        }
    }
    Ok(entries)
}

/// Entries of a section, and folders of entries, whose keys begin with `prefix`.
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

/// Adds a folder, unless it was just added: what is below it comes in a row.
fn push_folder(entries: &mut Below, name: &str) {
    let name = format!("{name}/");
    if entries.last().is_none_or(|(last, _)| last.name != name) {
        entries.push((Listed::new(name, "folder"), None));
    }
}

fn found(name: String, item: Item) -> (Listed, Option<Item>) {
    let id = Some(item.link.id.to_string());
    (Listed { id, ..Listed::new(name, "entry") }, Some(item))
}

/// With what its content says.
fn entry(
    source: &dyn ObjectSource,
    section: &str,
    mut listed: Listed,
    item: &Item,
) -> Result<Listed> {
    if section.ends_with("/messages") {
        let entry = MessageEntry::from_item(item)?;
        listed.kind = "message";
        listed.role = Some(entry.role.name());
        listed.summary = Some(message::summary(source, &entry)?);
    } else if section == "files" {
        let entry = FileEntry::from_item(item)?;
        listed.kind = if entry.mode == FileMode::Symlink { "link" } else { "file" };
        listed.size = Some(entry.size);
    } else {
        let bytes: Bytes = source.read_as(Kind::Blob, &item.link.id)?;
        listed.size = Some(bytes.len() as u64);
    }
    Ok(listed)
}

impl Listed {
    fn new(name: String, kind: &'static str) -> Self {
        Self { name, kind, id: None, size: None, count: None, role: None, summary: None }
    }
}
