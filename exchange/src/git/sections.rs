//! Writes the sections of a context as files of a git tree, from their changes since the previous
//! context.

use std::collections::{BTreeMap, HashMap};

use gix::objs::Kind as GitKind;
use gix::objs::tree::EntryKind;
use turntree::context::sections::{FILES, is_conversation, is_transcript_section};
use turntree::context::{
    Context, FileEntry, FileMode, MessageEntry, Section, SectionChange, Shape, changed_sections,
    diff_section,
};
use turntree::error::Result;
use turntree::object::{Kind, ObjectId, ObjectSource};
use turntree::tree::{Item, List, diff_lists};

use super::GitNote;
use super::names::{entry_path, item_path, message_path, section_path};
use super::pack::PackWriter;
use super::tree::{Folder, Leaf, LoadEntries};
use crate::model::report::MAX_NOTES;
use crate::render::message_markdown;

/// Writes successive contexts as git trees.
pub(super) struct TreeWriter<'a> {
    pub(super) store: &'a dyn ObjectSource,
    pub(super) load: &'a LoadEntries<'a>,
    pub(super) pack: &'a mut PackWriter,
    /// True to write the section `source`, too.
    pub(super) with_source: bool,
    /// The content that this run wrote, so that repeated content is not read again.
    pub(super) known: HashMap<(Form, Item), Leaf>,
    pub(super) notes: Vec<GitNote>,
}

/// The form in which the content of an item is written.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(super) enum Form {
    /// Unchanged, as an ordinary file.
    Plain,
    /// Unchanged, with the mode of its entry: an ordinary file, an executable file, or a link.
    File,
    /// As Markdown.
    Message,
}

impl TreeWriter<'_> {
    /// Updates `tree` from the context `old` to the context `new`.
    pub(super) fn update(
        &mut self,
        tree: &mut Folder,
        old: &BTreeMap<String, Section>,
        new: &BTreeMap<String, Section>,
    ) -> Result<()> {
        for (name, old, new) in changed_sections(old, new) {
            if is_transcript_section(name) && !self.with_source {
                continue;
            }
            match (old, new) {
                (Some(a), Some(b)) if a.shape != b.shape => {
                    self.section(tree, name, old, None)?;
                    self.section(tree, name, None, new)?;
                }
                _ => self.section(tree, name, old, new)?,
            }
        }
        Ok(())
    }

    /// Writes the changes of a section with the same shape on both sides.
    fn section(
        &mut self,
        tree: &mut Folder,
        name: &str,
        old: Option<Section>,
        new: Option<Section>,
    ) -> Result<()> {
        match old.or(new).map(|section| section.shape) {
            Some(Shape::List) => self.list(tree, name, old, new),
            Some(Shape::Map) => {
                for change in diff_section(self.store, old, new)? {
                    self.entry(tree, name, &change)?;
                }
                Ok(())
            }
            Some(Shape::Blob) => {
                let path = section_path(name);
                for change in diff_section(self.store, old, new)? {
                    match change.new {
                        Some(item) => self.put(tree, &path, Form::Plain, &item)?,
                        None => tree.remove(self.load, &path)?,
                    }
                }
                Ok(())
            }
            None => Ok(()),
        }
    }

    /// Writes the change of a key of a map.
    fn entry(&mut self, tree: &mut Folder, name: &str, change: &SectionChange) -> Result<()> {
        let form = if name == FILES { Form::File } else { Form::Plain };
        let path = |item: &Option<Item>| match item {
            Some(item) => {
                let is_link =
                    form == Form::File && FileEntry::from_item(item)?.mode == FileMode::Symlink;
                let blob = (!is_link).then_some(&item.link.id);
                entry_path(self.store, name, &change.key, blob)
            }
            None => Ok(None),
        };
        let (old, new) = (path(&change.old)?, path(&change.new)?);
        if let Some(path) = old.filter(|old| Some(old) != new.as_ref()) {
            tree.remove(self.load, &path)?;
        }
        match (&change.new, new) {
            (Some(item), Some(path)) => self.put(tree, &path, form, item),
            (Some(_), None) => {
                let shown: String = change.key.chars().take(40).collect();
                self.note(
                    format!("{name}/{shown}..."),
                    "left out: it is not a valid path of a file",
                );
                Ok(())
            }
            (None, _) => Ok(()),
        }
    }

    /// Writes the changes of a list. After an insertion or removal, all later items have new
    /// numbers and names.
    fn list(
        &mut self,
        tree: &mut Folder,
        name: &str,
        old: Option<Section>,
        new: Option<Section>,
    ) -> Result<()> {
        let open = |section: Option<Section>| match section {
            Some(section) => List::open(self.store, &section.id),
            None => Ok(List::new()),
        };
        let (old, new) = (open(old)?, open(new)?);
        for change in diff_lists(&old, &new, self.store)? {
            let (mut before, mut after) = (change.old, change.new);
            let moves =
                before.start != after.start || before.end - before.start != after.end - after.start;
            if moves {
                (before.end, after.end) = (old.len(), new.len());
            }
            for (index, item) in before.clone().zip(old.iter(self.store, before)) {
                tree.remove(self.load, &path_of(name, index, &item?)?)?;
            }
            for (index, item) in after.clone().zip(new.iter(self.store, after)) {
                let item = item?;
                let path = path_of(name, index, &item)?;
                let form = if is_conversation(name) { Form::Message } else { Form::Plain };
                self.put(tree, &path, form, &item)?;
            }
            if moves {
                break;
            }
        }
        Ok(())
    }

    fn put(&mut self, tree: &mut Folder, path: &[String], form: Form, item: &Item) -> Result<()> {
        let key = (form, item.clone());
        let leaf = match self.known.get(&key) {
            Some(leaf) => *leaf,
            None => {
                let leaf = self.write(form, item)?;
                self.known.insert(key, leaf);
                leaf
            }
        };
        tree.put(self.load, path, leaf)
    }

    fn write(&mut self, form: Form, item: &Item) -> Result<Leaf> {
        let blob = |id: &ObjectId| self.store.read_as(Kind::Blob, id);
        let mut kind = EntryKind::Blob;
        let id = match form {
            Form::Plain => self.pack.write(GitKind::Blob, &blob(&item.link.id)?)?,
            Form::File => {
                let file = FileEntry::from_item(item)?;
                kind = match file.mode {
                    FileMode::Regular => EntryKind::Blob,
                    FileMode::Executable => EntryKind::BlobExecutable,
                    FileMode::Symlink => EntryKind::Link,
                };
                self.pack.write(GitKind::Blob, &blob(&file.blob)?)?
            }
            Form::Message => {
                let entry = MessageEntry::from_item(item)?;
                let text = message_markdown(&entry, &blob(&entry.blob)?);
                self.pack.write(GitKind::Blob, text.as_bytes())?
            }
        };
        Ok(Leaf { kind, id })
    }

    pub(super) fn note(&mut self, place: String, what: &str) {
        if self.notes.len() < MAX_NOTES {
            self.notes.push(GitNote { place, what: what.to_owned() });
        }
    }
}

/// Returns the path of an item of a list.
fn path_of(name: &str, index: u64, item: &Item) -> Result<Vec<String>> {
    if is_conversation(name) {
        Ok(message_path(name, index, &MessageEntry::from_item(item)?))
    } else {
        Ok(item_path(name, index))
    }
}

/// Returns the sections of a context. Empty without a context.
pub(super) fn sections(
    store: &dyn ObjectSource,
    context: Option<&Context>,
) -> Result<BTreeMap<String, Section>> {
    context.map_or_else(|| Ok(BTreeMap::new()), |context| context.sections(store))
}
