//! An editable git tree. Folders are read on demand, and only changed ones are written.
//!
//! The cost of a change is proportional to the folders on its path. The trees of several commits
//! share a folder until one of them changes it.

use std::collections::BTreeMap;
use std::sync::Arc;

use gix::ObjectId as GitId;
use gix::objs::tree::{Entry, EntryKind};
use turntree::error::Result;

use super::names::FOLDER_FILE;
use super::pack::PackWriter;

/// Reads the entries of a folder.
pub(super) type LoadEntries<'a> = dyn Fn(&GitId) -> Result<Entries> + 'a;

/// The entries of a folder, by name.
pub(super) type Entries = BTreeMap<String, Node>;

/// A file or link.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Leaf {
    pub(super) kind: EntryKind,
    pub(super) id: GitId,
}

#[derive(Debug, Clone)]
pub(super) enum Node {
    Leaf(Leaf),
    Folder(Folder),
}

/// A folder: stored, loaded, or both.
#[derive(Debug, Clone, Default)]
pub(super) struct Folder {
    /// The id of the stored folder. `None` after a change.
    written: Option<GitId>,
    /// The entries, once loaded.
    entries: Option<Arc<Entries>>,
}

impl Folder {
    /// Returns the folder that is stored as `id`.
    pub(super) fn at(id: GitId) -> Self {
        Self { written: Some(id), entries: None }
    }

    /// Adds a file. If `path` is already a folder, the file goes inside of it as [`FOLDER_FILE`], and
    /// likewise if a file has the name of a folder that is needed. The tree thus depends only on
    /// the added files, not on their order.
    pub(super) fn put(
        &mut self,
        load: &LoadEntries<'_>,
        path: &[String],
        leaf: Leaf,
    ) -> Result<()> {
        let Some((name, rest)) = path.split_first() else { return Ok(()) };
        let entries = self.open(load)?;
        let inside = [FOLDER_FILE.to_owned()];
        let (folder, rest) = match (entries.get_mut(name), rest.is_empty()) {
            (Some(Node::Folder(folder)), true) => (folder, &inside[..]),
            (_, true) => {
                entries.insert(name.clone(), Node::Leaf(leaf));
                return Ok(());
            }
            (Some(Node::Folder(folder)), false) => (folder, rest),
            (found, false) => {
                let mut folder = Self::default();
                if let Some(Node::Leaf(leaf)) = found {
                    folder.put(load, &inside, *leaf)?;
                }
                entries.insert(name.clone(), Node::Folder(folder));
                return self.put(load, path, leaf);
            }
        };
        folder.put(load, rest, leaf)
    }

    /// Removes a file, and the folders that become empty.
    pub(super) fn remove(&mut self, load: &LoadEntries<'_>, path: &[String]) -> Result<()> {
        let Some((name, rest)) = path.split_first() else { return Ok(()) };
        let entries = self.open(load)?;
        let Some(Node::Folder(folder)) = entries.get_mut(name) else {
            if rest.is_empty() {
                entries.remove(name);
            }
            return Ok(());
        };
        let inside = [FOLDER_FILE.to_owned()];
        folder.remove(load, if rest.is_empty() { &inside } else { rest })?;
        let left = folder.open(load)?;
        match (left.len(), left.get(FOLDER_FILE)) {
            (0, _) => drop(entries.remove(name)),
            (1, Some(Node::Leaf(leaf))) => {
                let leaf = Node::Leaf(*leaf);
                entries.insert(name.clone(), leaf);
            }
            _ => {}
        }
        Ok(())
    }

    /// Writes the folder and its changed subfolders.
    pub(super) fn write(&mut self, pack: &mut PackWriter) -> Result<GitId> {
        if let Some(id) = self.written {
            return Ok(id);
        }
        let mut tree = gix::objs::Tree::empty();
        for (name, node) in Arc::make_mut(self.entries.get_or_insert_default()) {
            let (kind, oid) = match node {
                Node::Leaf(leaf) => (leaf.kind, leaf.id),
                Node::Folder(folder) => (EntryKind::Tree, folder.write(pack)?),
            };
            tree.entries.push(Entry { mode: kind.into(), filename: name.as_str().into(), oid });
        }
        tree.entries.sort();
        let id = pack.write_object(&tree)?;
        self.written = Some(id);
        Ok(id)
    }

    /// Returns the entries for modification.
    fn open(&mut self, load: &LoadEntries<'_>) -> Result<&mut Entries> {
        if let (None, Some(id)) = (&self.entries, &self.written) {
            self.entries = Some(Arc::new(load(id)?));
        }
        self.written = None;
        Ok(Arc::make_mut(self.entries.get_or_insert_default()))
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn leaf(byte: u8) -> Leaf {
        Leaf { kind: EntryKind::Blob, id: GitId::from_bytes_or_panic(&[byte; 20]) }
    }

    fn nothing(_: &GitId) -> Result<Entries> {
        Ok(Entries::new())
    }

    fn flat(folder: &Folder, below: &str, files: &mut Vec<(String, u8)>) {
        for (name, node) in folder.entries.iter().flat_map(|entries| entries.iter()) {
            let path = format!("{below}{name}");
            match node {
                Node::Leaf(leaf) => files.push((path, leaf.id.as_slice()[0])),
                Node::Folder(folder) => flat(folder, &format!("{path}/"), files),
            }
        }
    }

    turntree_properties::properties! {
        #[test]
        fn trees_depend_only_on_their_content(
            edits in prop::collection::vec(("[ab](/[ab]){0,2}", prop::option::weighted(0.7, 1..9_u8)), 0..30),
        ) {
            let (mut edited, mut model) = (Folder::default(), BTreeMap::new());
            for (path, value) in &edits {
                let parts: Vec<String> = path.split('/').map(str::to_owned).collect();
                match value {
                    Some(byte) => {
                        edited.put(&nothing, &parts, leaf(*byte)).unwrap();
                        model.insert(parts, *byte);
                    }
                    None => {
                        edited.remove(&nothing, &parts).unwrap();
                        model.remove(&parts);
                    }
                }
            }
            let mut fresh = Folder::default();
            for (path, byte) in model.iter().rev() {
                fresh.put(&nothing, path, leaf(*byte)).unwrap();
            }
            let (mut a, mut b) = (Vec::new(), Vec::new());
            flat(&edited, "", &mut a);
            flat(&fresh, "", &mut b);
            prop_assert_eq!(&a, &b);
            prop_assert_eq!(a.len(), model.len());
        }
    }
}
