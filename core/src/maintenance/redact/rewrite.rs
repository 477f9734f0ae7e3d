//! Rewrites everything reachable from refs without the matches, and moves the refs.
//!
//! Only tainted objects are rewritten; links to other objects stay. A tree changes only where its
//! entries change, so its shape still follows from its content. New objects other than blobs go to
//! the store together with the moved refs, or in batches before if there are many. They are
//! unreachable until the refs move.

use std::collections::{BTreeMap, HashMap, HashSet};

use bytes::Bytes;

use super::pattern::{Pattern, into_text};
use super::search::{Search, rename_ref, text_of_meta};
use crate::context::sections::{FILES, SOURCE, SOURCE_COPIED, is_transcript_section};
use crate::context::{Builder, Context, FileEntry, Transcript, TranscriptPiece};
use crate::error::{Error, Result};
use crate::object::{Commit, Kind, Object, ObjectId, ObjectSink, ObjectSource, RefValue, Tag};
use crate::repo::{
    BranchName, GRAFTS_REF, Grafts, REDACTIONS_REF, RESTORED_FROM, ROLLED_BACK_TO, Repository,
    Signature, Transaction, check_full_name,
};
use crate::store::Expected;
use crate::tree::{Item, List, Map};

/// The number of staged bytes after which they are flushed to disk.
const FLUSH_BYTES: usize = 16 << 20;

/// The largest number for equal names, and the separators before the number.
const MAX_NUMBER: u64 = 1 << 20;
const SEPARATORS: [&str; 3] = ["-", "~", "#"];

/// The role of a tree in its context.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
enum TreeRole {
    Context,
    Files,
    Section,
}

/// Rewrites everything reachable from refs and moves the refs, in one operation.
///
/// # Errors
/// `InvalidInput` when a new name is not allowed or taken, `Conflict` when another process moved a
/// ref, and errors of the store. After an error nothing has changed except for unreachable objects.
pub(super) fn rewrite(
    repo: &Repository,
    search: &Search<'_>,
    pattern: &Pattern,
    stamp: &Signature,
) -> Result<()> {
    let mut rewriter = Rewriter {
        change: repo.begin(),
        search,
        pattern,
        new: HashMap::new(),
        expanded: HashMap::new(),
        copies: BTreeMap::new(),
    };
    rewriter.change.skip_filter();
    for id in &search.commits {
        if search.is_reached(id) {
            rewriter.object(id)?;
            if rewriter.change.staged_bytes() >= FLUSH_BYTES {
                rewriter.change.flush()?;
            }
        }
    }
    rewriter.move_refs()?;
    rewriter.record()?;
    rewriter.change.commit(stamp, &pattern.hide("redact: move refs"))?;
    Ok(())
}

struct Rewriter<'r, 's> {
    change: Transaction<'r>,
    search: &'s Search<'s>,
    pattern: &'s Pattern,
    /// The rewritten objects by the original; the result for a tree depends on its role.
    new: HashMap<(ObjectId, TreeRole), ObjectId>,
    /// The pieces of copied prefixes, by their lists of chunks.
    expanded: HashMap<ObjectId, Vec<Item>>,
    /// The replacements of copied pieces, which are not objects of their own.
    copies: BTreeMap<ObjectId, ObjectId>,
}

impl Rewriter<'_, '_> {
    /// Returns the replacement of an object: the object itself if nothing in it changes.
    fn object(&mut self, id: &ObjectId) -> Result<ObjectId> {
        self.rewrite_in(id, TreeRole::Context)
    }

    fn rewrite_in(&mut self, id: &ObjectId, tree: TreeRole) -> Result<ObjectId> {
        if !self.search.is_tainted(id) {
            return Ok(*id);
        }
        if let Some(new) = self.new.get(&(*id, tree)) {
            return Ok(*new);
        }
        let Some(Object { kind, bytes }) = self.change.read(id)? else {
            return Err(Error::not_found(format!("object {id} is not in the store")));
        };
        let new = match kind {
            Kind::Blob => {
                let bytes = self.pattern.replace(&bytes)?;
                // The rest of the content may have been redacted before.
                match self.search.redactions.get(&ObjectId::of(kind, &bytes)) {
                    Some(known) => known,
                    None => self.change.write(kind, bytes.into())?,
                }
            }
            Kind::Node => self.tree(id, tree)?,
            Kind::Commit => self.commit(Commit::decode(&bytes)?)?,
            Kind::Tag => self.tags(Tag::decode(&bytes)?)?,
            Kind::Operation => *id,
        };
        self.new.insert((*id, tree), new);
        Ok(new)
    }

    /// Parents are rewritten before their children, so the recursion is one commit deep.
    fn commit(&mut self, mut commit: Commit) -> Result<ObjectId> {
        if self.search.inventory.find(&commit.tree).is_none() {
            self.change.allow_elided(commit.tree);
        }
        commit.tree = self.object(&commit.tree)?;
        for parent in &mut commit.parents {
            if self.search.inventory.find(parent).is_none() {
                self.change.allow_elided(*parent);
            }
            *parent = self.object(parent)?;
        }
        commit.session = self.pattern.replace_name(&commit.session)?;
        for text in [&mut commit.author.agent, &mut commit.author.model, &mut commit.message] {
            *text = self.pattern.replace_text(text)?;
        }
        let mut metadata = BTreeMap::new();
        for (name, value) in &commit.metadata {
            let new = self.pattern.replace_text(name)?.into_bytes();
            let is_taken = |new: &[u8]| Ok(metadata.contains_key(&into_text(new.to_vec())));
            let new = free_name(new, self.pattern, is_taken)?;
            metadata.insert(into_text(new), self.metadata_value(name, value)?);
        }
        commit.metadata = metadata;
        self.change.write(Kind::Commit, commit.encode().into())
    }

    /// Rewrites a metadata value of a commit. The target of a rollback or restore becomes the id of
    /// its replacement.
    fn metadata_value(&self, name: &str, value: &str) -> Result<String> {
        let names_commit = [ROLLED_BACK_TO, RESTORED_FROM].contains(&name);
        let new = value.parse().ok().filter(|_| names_commit);
        match new.and_then(|id: ObjectId| self.new.get(&(id, TreeRole::Context))) {
            Some(new) => Ok(new.to_string()),
            None => self.pattern.replace_text(value),
        }
    }

    /// Rewrites a tag after the tags that it references, iteratively: the chain may have any
    /// length.
    fn tags(&mut self, outer: Tag) -> Result<ObjectId> {
        let (mut inner, mut target) = (Vec::new(), outer.target);
        while self.search.is_tainted(&target)
            && !self.new.contains_key(&(target, TreeRole::Context))
            && self.search.inventory.find(&target).is_some()
            && let Some(Object { kind: Kind::Tag, bytes }) = self.change.read(&target)?
        {
            let tag = Tag::decode(&bytes)?;
            let next = tag.target;
            inner.push((target, tag));
            target = next;
        }
        for (id, tag) in inner.into_iter().rev() {
            let new = self.tag(tag)?;
            self.new.insert((id, TreeRole::Context), new);
        }
        self.tag(outer)
    }

    fn tag(&mut self, mut tag: Tag) -> Result<ObjectId> {
        if self.search.inventory.find(&tag.target).is_none() {
            self.change.allow_elided(tag.target);
        }
        tag.target = self.object(&tag.target)?;
        tag.name = self.pattern.replace_name(&tag.name)?;
        for text in [&mut tag.tagger, &mut tag.message] {
            *text = self.pattern.replace_text(text)?;
        }
        self.change.write(Kind::Tag, tag.encode().into())
    }

    fn tree(&mut self, root: &ObjectId, tree: TreeRole) -> Result<ObjectId> {
        if tree == TreeRole::Context
            && let Some(expanded) = self.inline_copies(root)?
        {
            return self.map(Map::open(&self.change, &expanded)?, tree);
        }
        match List::open(&self.change, root) {
            Ok(list) => self.list(list, tree),
            Err(_) => self.map(Map::open(&self.change, root)?, tree),
        }
    }

    /// Returns the context `root` with its copied transcript stored as pieces of its own, if the
    /// copies or their sources match: an edit of a rewritten piece would not apply.
    fn inline_copies(&mut self, root: &ObjectId) -> Result<Option<ObjectId>> {
        let Ok(context) = Context::open(&self.change, root) else { return Ok(None) };
        let Ok(sections) = context.sections(&self.change) else { return Ok(None) };
        let is_hit = sections.iter().any(|(name, section)| {
            is_transcript_section(name) && name != SOURCE && self.search.is_tainted(&section.id)
        });
        let Some(copied) = sections.get(SOURCE_COPIED).filter(|_| is_hit).map(|section| section.id)
        else {
            return Ok(None);
        };
        let transcript = Transcript::open(&self.change, &context)?;
        let mut items = match self.expanded.get(&copied) {
            Some(items) => items.clone(),
            None => self.own_pieces(&transcript)?,
        };
        self.expanded.entry(copied).or_insert_with(|| items.clone());
        let own = transcript.own();
        let own = own.iter(&self.change, 0..own.len()).collect::<Result<Vec<Item>>>()?;
        for item in own {
            items.push(self.item(&[], item, TreeRole::Section)?);
        }
        let mut builder = Builder::from(context);
        builder.clear_transcript(&mut self.change)?;
        builder.set_list(&mut self.change, SOURCE, items)?;
        builder.write(&mut self.change).map(Some)
    }

    /// Returns the copies of a transcript as pieces without the matches.
    fn own_pieces(&mut self, transcript: &Transcript) -> Result<Vec<Item>> {
        let mut items = Vec::new();
        for range in Transcript::parts(transcript.copied()) {
            let part = transcript.pieces(&self.change, range).collect::<Result<Vec<_>>>()?;
            for piece in part {
                items.push(self.own_piece(&piece)?);
            }
        }
        Ok(items)
    }

    fn own_piece(&mut self, piece: &TranscriptPiece) -> Result<Item> {
        let bytes = piece.bytes(&self.change)?;
        let mut entry = piece.entry();
        let new = match self.search.redactions.get(&entry.blob) {
            Some(known) => known,
            None if self.pattern.is_in(&bytes) => {
                let replaced = self.pattern.replace(&bytes)?;
                self.change.write(Kind::Blob, replaced.into())?
            }
            None => self.change.write(Kind::Blob, bytes)?,
        };
        if new != entry.blob {
            self.copies.insert(entry.blob, new);
        }
        entry.blob = new;
        self.item(&[], entry.to_item()?, TreeRole::Section)
    }

    /// Replaces the range from the first to the last entry that changes.
    fn list(&mut self, mut list: List, tree: TreeRole) -> Result<ObjectId> {
        let (mut start, mut end, mut items) = (0, 0, Vec::new());
        for (index, item) in (0..).zip(list.iter(&self.change, 0..list.len())) {
            let item = item?;
            if self.changes(&item) {
                if items.is_empty() {
                    start = index;
                }
                end = index + 1;
            } else if items.is_empty() {
                continue;
            }
            items.push(item);
        }
        items.truncate(usize::try_from(end - start).unwrap_or(items.len()));
        let items = items.into_iter().map(|item| self.item(&[], item, tree));
        let items = items.collect::<Result<Vec<_>>>()?;
        list.splice(&mut self.change, start..end, items)?;
        list.write(&mut self.change)
    }

    fn map(&mut self, mut map: Map, tree: TreeRole) -> Result<ObjectId> {
        let mut entries: Vec<(Bytes, Item)> = Vec::new();
        for entry in map.iter(&self.change) {
            let (key, item) = entry?;
            if self.pattern.is_in(&key) || self.changes(&item) {
                entries.push((key, item));
            }
        }
        let mut edits: BTreeMap<Bytes, Option<Item>> = BTreeMap::new();
        for (key, item) in entries {
            let item = self.item(&key, item, tree)?;
            let mut new = key.clone();
            if self.pattern.is_in(&key) {
                edits.entry(key.clone()).or_insert(None);
                let is_taken = |key: &[u8]| {
                    Ok(edits.contains_key(key) || map.get(&self.change, key)?.is_some())
                };
                new = free_name(self.pattern.replace(&key)?, self.pattern, is_taken)?.into();
            }
            edits.insert(new, Some(item));
        }
        map.apply(&mut self.change, edits)?;
        map.write(&mut self.change)
    }

    fn changes(&self, item: &Item) -> bool {
        self.search.is_tainted(&item.link.id) || self.pattern.is_in(text_of_meta(item))
    }

    fn item(&mut self, key: &[u8], mut item: Item, tree: TreeRole) -> Result<Item> {
        let inner = if tree == TreeRole::Context && key == FILES.as_bytes() {
            TreeRole::Files
        } else {
            TreeRole::Section
        };
        let inner = if item.link.kind == Kind::Node { inner } else { TreeRole::Context };
        let new = self.rewrite_in(&item.link.id, inner)?;
        let moved = std::mem::replace(&mut item.link.id, new) != new;
        if tree == TreeRole::Files && moved {
            let size = self.change.read_as(Kind::Blob, &item.link.id)?.len() as u64;
            return Ok(FileEntry { size, ..FileEntry::from_item(&item)? }.to_item());
        }
        let text = text_of_meta(&item);
        if self.pattern.is_in(text) {
            let code = item.meta.get(..1).unwrap_or_default();
            item.meta = [code, &self.pattern.replace(text)?].concat().into();
        }
        Ok(item)
    }

    fn move_refs(&mut self) -> Result<()> {
        let mut taken: HashSet<String> = HashSet::new();
        let refs = self.search.inventory.refs();
        for (name, value) in refs.values.iter() {
            let new_value = match value {
                RefValue::Object(_) if name == GRAFTS_REF => RefValue::Object(self.grafts()?),
                RefValue::Object(_) if name == REDACTIONS_REF => continue,
                RefValue::Object(id) => RefValue::Object(self.object(id)?),
                RefValue::Symbolic(target) => RefValue::Symbolic(self.ref_name(target)?),
            };
            let new_name = self.ref_name(name)?;
            let expected = Expected::Value(value.clone());
            if new_name == *name {
                if new_value != *value {
                    self.change.set_ref(name, expected, Some(new_value));
                }
                continue;
            }
            self.change.set_ref(name, expected, None);
            if !taken.insert(new_name.clone()) || refs.values.contains_key(&new_name) {
                let message = format!(
                    "two refs would be named {new_name}: delete one of them, or choose another replacement"
                );
                return Err(Error::invalid(message));
            }
            self.change.set_ref(&new_name, Expected::Absent, Some(new_value));
        }
        Ok(())
    }

    /// Records the replacement of each matching content, so that an import cannot bring it back.
    /// This includes unreachable content: a deleted session may be imported again.
    fn record(&mut self) -> Result<()> {
        let mut redactions = self.search.redactions.clone();
        for id in self.search.blobs() {
            let new = self.object(&id)?;
            redactions.add(id, new);
        }
        for (id, new) in &self.copies {
            redactions.add(*id, *new);
        }
        if redactions != self.search.redactions {
            let blob = self.change.write(Kind::Blob, redactions.encode().into())?;
            let expected = match self.search.inventory.refs().value(REDACTIONS_REF) {
                Some(value) => Expected::Value(value.clone()),
                None => Expected::Absent,
            };
            self.change.set_ref(REDACTIONS_REF, expected, Some(RefValue::Object(blob)));
        }
        Ok(())
    }

    /// Writes the blob of the grafts with rewritten ids.
    fn grafts(&mut self) -> Result<ObjectId> {
        let mut grafts = Grafts::default();
        for (forgotten, next) in &self.search.grafts.0 {
            let next = next.as_ref().map(|id| self.object(id)).transpose()?;
            grafts.0.insert(self.object(forgotten)?, next);
        }
        self.change.write(Kind::Blob, grafts.encode().into())
    }

    fn ref_name(&self, full: &str) -> Result<String> {
        let new = rename_ref(full, self.pattern)?;
        let is_branch = full.starts_with("refs/heads/");
        let allowed =
            check_full_name(&new).is_ok() && (!is_branch || BranchName::from_full(&new).is_some());
        if allowed || new == full {
            return Ok(new);
        }
        Err(Error::invalid(format!("'{new}' cannot name a ref: choose another replacement")))
    }
}

/// Returns the name, or a numbered one if it is taken. The number must not create a match.
fn free_name(
    name: Vec<u8>,
    pattern: &Pattern,
    mut is_taken: impl FnMut(&[u8]) -> Result<bool>,
) -> Result<Vec<u8>> {
    if !is_taken(&name)? {
        return Ok(name);
    }
    for number in 2..MAX_NUMBER {
        for separator in SEPARATORS {
            let candidate = [&*name, format!("{separator}{number}").as_bytes()].concat();
            if !pattern.is_in(&candidate) && !is_taken(&candidate)? {
                return Ok(candidate);
            }
        }
    }
    Err(Error::invalid("too many names would be equal: choose another replacement"))
}
