//! Rewrites turns of a bundle that contain content redacted in the receiving store, during import.
//!
//! The replacement of redacted content takes its place, and every object that references it is
//! rewritten. So a turn that the store already redacted gets the id that it has there. All other
//! turns keep their ids.

use std::collections::{BTreeMap, BTreeSet, HashMap, HashSet};
use std::sync::Arc;

use super::check::{Bundle, BundleContents};
use crate::context::FileEntry;
use crate::context::sections::FILES;
use crate::error::{Error, ErrorKind, Result};
use crate::object::{Commit, Kind, Memory, Object, ObjectId, ObjectSink, ObjectSource, Tag};
use crate::repo::{RESTORED_FROM, ROLLED_BACK_TO, Redactions, Repository, links};
use crate::store::{Store, Tombstone};
use crate::tree::{Item, List, Map};

/// The message of a rewritten turn that the store does not know: the original message may repeat
/// redacted content.
const REDACTED_MESSAGE: &str = "[redacted]";

/// Replacements for objects of a bundle.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct Substitutes {
    /// The redacted blobs in the bundle.
    redacted: HashSet<ObjectId>,
    /// Nodes, commits and tags from which a redacted blob is reachable; the import skips these too.
    tainted: HashSet<ObjectId>,
    /// The rewritten commits and tags, by their original ids.
    new: HashMap<ObjectId, ObjectId>,
    /// The new objects, dependencies first.
    pub(super) written: Vec<(ObjectId, Object)>,
    /// New commits, with turn and parents.
    commits: Vec<(ObjectId, u64, Vec<ObjectId>)>,
    /// New tags, and their targets.
    tags: Vec<(ObjectId, ObjectId)>,
}

impl Substitutes {
    /// Finds content of a bundle that is redacted in this store, and writes replacements in memory.
    /// Reads the bundle only if it has such content. `find_own_turn` has the commits of the store.
    ///
    /// # Errors
    /// `Redacted` if an object has no replacement: a name or the message of a turn was redacted,
    /// not a blob.
    pub(super) fn find(
        repo: &Repository,
        bundle: &Bundle,
        contents: &BundleContents,
        own: &HashMap<ObjectId, ObjectId>,
    ) -> Result<Self> {
        let store = repo.store();
        let redactions = repo.redactions()?;
        let mut redacted = HashSet::new();
        let mut is_touched = false;
        for id in contents.ids() {
            let is_gone = store.tombstone(id) == Some(Tombstone::Redacted);
            is_touched |= is_gone && !store.contains(id)?;
            if redactions.contains(id) {
                redacted.insert(*id);
            }
        }
        if redacted.is_empty() && !is_touched {
            return Ok(Self::default());
        }
        let places = TreeSources { store, found: Memory::new(), written: Memory::new() };
        let found = Self { redacted, ..Self::default() };
        let mut own_by_tree: HashMap<ObjectId, Vec<ObjectId>> = HashMap::new();
        for (commit, tree) in own {
            own_by_tree.entry(*tree).or_default().push(*commit);
        }
        let (reached, trees) = (HashMap::new(), HashMap::new());
        let mut writer = Writer { repo, redactions, places, own_by_tree, reached, trees, found };
        bundle.visit(&mut |id, object| writer.object(id, object))?;
        let Writer { places, mut found, .. } = writer;
        found.written = places.written.into_objects();
        Ok(found)
    }

    /// Returns true if the import skips the object.
    pub(super) fn is_skipped(&self, id: &ObjectId) -> bool {
        self.redacted.contains(id) || self.tainted.contains(id)
    }

    /// Returns the replacement of a commit or tag, or `id` itself if it does not change.
    pub(super) fn get(&self, id: &ObjectId) -> ObjectId {
        self.new.get(id).copied().unwrap_or(*id)
    }

    /// Returns the number of redacted blobs.
    pub(super) fn redacted(&self) -> u64 {
        self.redacted.len() as u64
    }

    /// Updates the contents to the rewritten objects.
    pub(super) fn apply(&self, contents: &mut BundleContents) {
        for (_, parents) in contents.commits.values_mut() {
            parents.iter_mut().for_each(|parent| *parent = self.get(parent));
        }
        contents.commits.retain(|id, _| !self.tainted.contains(id));
        for (id, turn, parents) in &self.commits {
            contents.commits.insert(*id, (*turn, parents.clone()));
        }
        contents.tags.retain(|id, _| !self.tainted.contains(id));
        contents.tags.extend(self.tags.iter().copied());
    }
}

/// Sources of trees while they are rewritten.
struct TreeSources<'a> {
    store: &'a Store,
    /// The nodes of the bundle.
    found: Memory,
    written: Memory,
}

impl ObjectSource for TreeSources<'_> {
    fn read(&self, id: &ObjectId) -> Result<Option<Object>> {
        match self.written.read(id)? {
            Some(object) => Ok(Some(object)),
            None => match self.found.read(id)? {
                Some(object) => Ok(Some(object)),
                None => self.store.read(id),
            },
        }
    }

    fn contains(&self, id: &ObjectId) -> Result<bool> {
        Ok(self.written.contains(id)? || self.store.contains(id)?)
    }
}

impl ObjectSink for TreeSources<'_> {
    fn write(&mut self, kind: Kind, bytes: bytes::Bytes) -> Result<ObjectId> {
        self.written.write(kind, bytes)
    }
}

/// Redacted blobs reachable from an object.
type RedactedBlobs = Arc<BTreeSet<ObjectId>>;

struct Writer<'a> {
    repo: &'a Repository,
    redactions: Arc<Redactions>,
    places: TreeSources<'a>,
    /// Commits of the store by their contexts.
    own_by_tree: HashMap<ObjectId, Vec<ObjectId>>,
    /// Redacted blobs reachable from tainted nodes and from contexts of commits.
    reached: HashMap<ObjectId, RedactedBlobs>,
    /// Rewritten trees; the key's flag marks trees of files, whose entries record sizes.
    trees: HashMap<(ObjectId, bool), ObjectId>,
    found: Substitutes,
}

impl Writer<'_> {
    fn object(&mut self, id: ObjectId, object: Object) -> Result<()> {
        match object.kind {
            Kind::Blob | Kind::Operation => {
                if !self.found.redacted.contains(&id) {
                    self.check(&id)?;
                }
            }
            Kind::Node => {
                let mut reached = BTreeSet::new();
                for link in links(&object)? {
                    if self.found.redacted.contains(&link.id) {
                        reached.insert(link.id);
                    } else if let Some(below) = self.reached.get(&link.id) {
                        reached.extend(below.iter().copied());
                    }
                }
                self.places.found.write(Kind::Node, object.bytes)?;
                match reached.is_empty() {
                    true => self.check(&id)?,
                    false => {
                        self.reached.insert(id, Arc::new(reached));
                        self.found.tainted.insert(id);
                    }
                }
            }
            Kind::Commit => self.commit(id, Commit::decode(&object.bytes)?)?,
            Kind::Tag => {
                let mut tag = Tag::decode(&object.bytes)?;
                let target = self.found.get(&tag.target);
                if target == tag.target {
                    return self.check(&id);
                }
                tag.target = target;
                let new = self.places.write(Kind::Tag, tag.encode().into())?;
                self.replace(id, new);
                self.found.tags.push((new, target));
            }
        }
        Ok(())
    }

    /// Refuses a redacted object that has no replacement.
    fn check(&self, id: &ObjectId) -> Result<()> {
        let store = self.repo.store();
        if store.tombstone(id) != Some(Tombstone::Redacted) || store.contains(id)? {
            return Ok(());
        }
        let message = format!(
            "the bundle has {id}, which was redacted in this store without a replacement: redact it also where the bundle was made"
        );
        Err(Error::new(ErrorKind::Redacted, message))
    }

    fn replace(&mut self, old: ObjectId, new: ObjectId) {
        self.found.tainted.insert(old);
        self.found.new.insert(old, new);
    }

    fn commit(&mut self, id: ObjectId, mut commit: Commit) -> Result<()> {
        let reached = self.reached.get(&commit.tree).cloned().unwrap_or_default();
        let mut brought: BTreeSet<ObjectId> = reached.iter().copied().collect();
        let mut moves = !reached.is_empty();
        for parent in &mut commit.parents {
            for known in self.reached.get(parent).into_iter().flat_map(|known| known.iter()) {
                brought.remove(known);
            }
            let new = self.found.get(parent);
            moves |= std::mem::replace(parent, new) != new;
        }
        self.reached.insert(id, reached);
        if !moves {
            return self.check(&id);
        }
        let (tree, turn) = (commit.tree, commit.turn);
        if self.found.tainted.contains(&tree) {
            commit.tree = self.tree(&tree, true, false)?;
        }
        let new = match self.find_own_turn(&commit)? {
            Some(known) => known,
            None => {
                if !brought.is_empty() {
                    REDACTED_MESSAGE.clone_into(&mut commit.message);
                }
                self.map_metadata(&mut commit.metadata);
                self.places.write(Kind::Commit, commit.encode().into())?
            }
        };
        self.replace(id, new);
        self.found.commits.push((new, turn, commit.parents));
        Ok(())
    }

    /// Returns the store's turn that differs from this one only in its message.
    fn find_own_turn(&self, commit: &Commit) -> Result<Option<ObjectId>> {
        for id in self.own_by_tree.get(&commit.tree).into_iter().flatten() {
            let known = self.repo.commit(id)?;
            if known.session == commit.session
                && known.turn == commit.turn
                && known.time == commit.time
                && known.parents == commit.parents
            {
                return Ok(Some(*id));
            }
        }
        Ok(None)
    }

    /// Replaces commit ids in metadata by their replacements.
    fn map_metadata(&self, metadata: &mut BTreeMap<String, String>) {
        for name in [ROLLED_BACK_TO, RESTORED_FROM] {
            if let Some(value) = metadata.get_mut(name)
                && let Ok(id) = value.parse()
            {
                *value = self.found.get(&id).to_string();
            }
        }
    }

    /// Rewrites a tree: a context, or a section of one.
    fn tree(&mut self, root: &ObjectId, is_context: bool, is_files: bool) -> Result<ObjectId> {
        if let Some(new) = self.trees.get(&(*root, is_files)) {
            return Ok(*new);
        }
        let new = match List::open(&self.places, root) {
            Ok(mut list) => {
                let mut changes = Vec::new();
                for (index, item) in (0..).zip(list.iter(&self.places, 0..list.len())) {
                    let item = item?;
                    if self.found.is_skipped(&item.link.id) {
                        changes.push((index, item));
                    }
                }
                for (index, item) in changes {
                    let item = self.item(item, false, is_files)?;
                    list.splice(&mut self.places, index..index + 1, vec![item])?;
                }
                list.write(&mut self.places)?
            }
            Err(_) => {
                let mut map = Map::open(&self.places, root)?;
                let mut changes = Vec::new();
                for entry in map.iter(&self.places) {
                    let (key, item) = entry?;
                    if self.found.is_skipped(&item.link.id) {
                        changes.push((key, item));
                    }
                }
                let mut edits = BTreeMap::new();
                for (key, item) in changes {
                    let item = self.item(item, is_context && key == FILES.as_bytes(), is_files)?;
                    edits.insert(key, Some(item));
                }
                map.apply(&mut self.places, edits)?;
                map.write(&mut self.places)?
            }
        };
        self.trees.insert((*root, is_files), new);
        Ok(new)
    }

    /// Rewrites an item. `opens_files`: the item is the files section. `is_file`: the item is an
    /// entry of it.
    fn item(&mut self, mut item: Item, opens_files: bool, is_file: bool) -> Result<Item> {
        if item.link.kind == Kind::Node {
            item.link.id = self.tree(&item.link.id, false, opens_files)?;
            return Ok(item);
        }
        let stands = self.redactions.get(&item.link.id);
        item.link.id = stands.ok_or_else(|| self.places.missing(Kind::Blob, &item.link.id))?;
        if !is_file {
            return Ok(item);
        }
        let size = self.places.read_as(Kind::Blob, &item.link.id)?.len() as u64;
        Ok(FileEntry { size, ..FileEntry::from_item(&item)? }.to_item())
    }
}
