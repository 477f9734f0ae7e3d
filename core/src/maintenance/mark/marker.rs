//! Marks reachable objects, each once, and records the order in which the walk marks them.
//!
//! Contexts are marked in rounds, newest first. Within a round the walk goes level by level, and
//! all processors read the nodes of a level. The order of the marked objects is fixed, which makes
//! packs reproducible. An object is identified by its position in the inventory, so the set of
//! marked objects is a bitmap, and the record of an object takes 24 bytes.
//!
//! The walk records the section, and in maps the key, under which it first marked an object. An
//! object marked later under the same key is an older version of it. The layout of packs uses this.

use std::hash::{DefaultHasher, Hash, Hasher};
use std::ops::Range;
use std::sync::Arc;

use super::last_mark::{MarkedObject, PreviousMark};
use super::node_versions::NodeVersions;
use super::sections::{CONTEXT, Sections};
use super::walk::{ContextWalk, OpenNode, read_nodes, to_number};
use crate::error::{Error, Result};
use crate::object::{Kind, Object, ObjectId, ObjectSource, Operation, RefValue, Tag};
use crate::repo::links;
use crate::store::{Inventory, KnownLosses};
use crate::tree::Children;
use bytes::Bytes;

/// The set of marked objects.
#[derive(Debug)]
pub(in crate::maintenance) struct Marker<'a> {
    inventory: &'a Inventory<'a>,
    holes: Arc<KnownLosses>,
    live: Bits,
    marked: Vec<MarkedObject>,
    rounds: u32,
    /// The objects that were marked only because of known losses.
    spared: Range<usize>,
    sections: Sections,
    skips_missing: bool,
}

/// A child of a node that was not marked before its level.
pub(in crate::maintenance) struct UnmarkedChild {
    position: u32,
    kind: Kind,
    group: u64,
    versioned: bool,
    /// The name of the section that begins here.
    begins: Option<Bytes>,
}

impl<'a> Marker<'a> {
    /// Starts with an empty set. A missing object is skipped if it is one of the holes, and an
    /// error otherwise.
    pub(in crate::maintenance) fn new(
        inventory: &'a Inventory<'a>,
        holes: Arc<KnownLosses>,
    ) -> Self {
        Self {
            inventory,
            holes,
            live: Bits::new(inventory.positions()),
            marked: Vec::with_capacity(inventory.positions()),
            rounds: 0,
            spared: 0..0,
            sections: Sections::new(""),
            skips_missing: false,
        }
    }

    /// Skips every missing object, for a mark that frees nothing.
    pub(in crate::maintenance) fn skip_missing(&mut self) {
        self.skips_missing = true;
    }

    /// Treats the objects that another walk visited as marked, with everything reachable from them.
    /// They do not become part of [`Marker::marked`], so this mark cannot lay out a pack.
    pub(in crate::maintenance) fn assume_marked(&mut self, walked: &Bits) {
        self.live.add(walked);
    }

    /// Returns everything that was marked, in order.
    pub(in crate::maintenance) fn marked(&self) -> &[MarkedObject] {
        &self.marked
    }

    /// Returns the positions of everything that was marked.
    pub(in crate::maintenance) fn into_live(self) -> Bits {
        self.live
    }

    /// Returns the marked objects for a later mark of the same store; `None` if some were marked
    /// only because of known losses, since each mark must decide again whether these stay.
    pub(in crate::maintenance) fn into_previous(self) -> Option<PreviousMark> {
        let is_reached = self.spared().is_empty();
        is_reached.then(|| PreviousMark::new(self.inventory, self.marked, self.sections)).flatten()
    }

    /// Marks the objects of an earlier mark, if all of them still exist.
    pub(in crate::maintenance) fn reuse(&mut self, known: PreviousMark) {
        if let Some((marked, sections)) = known.found_in(self.inventory) {
            self.live = Bits::new(self.inventory.positions());
            for marked in &marked {
                self.live.insert(marked.position as usize);
            }
            (self.marked, self.sections) = (marked, sections);
        }
    }

    /// Returns the name of a section; empty outside of sections.
    pub(in crate::maintenance) fn section(&self, number: u32) -> &str {
        self.sections.name(number)
    }

    /// Returns true if the object at a position was marked.
    pub(in crate::maintenance) fn is_marked(&self, position: usize) -> bool {
        self.live.contains(position)
    }

    /// Begins a new round and returns its number.
    pub(in crate::maintenance) fn begin_round(&mut self) -> u32 {
        self.rounds += 1;
        self.rounds - 1
    }

    /// Marks single objects without the objects that they reference.
    ///
    /// # Errors
    /// `Corrupt` when an object is missing.
    pub(in crate::maintenance) fn mark(
        &mut self,
        ids: impl IntoIterator<Item = ObjectId>,
    ) -> Result<()> {
        for id in ids {
            let Some(position) = self.position(&id, || "a root".to_owned())? else { continue };
            let kind = self.inventory.entry(position as usize).map(|entry| entry.kind);
            let kind = kind.unwrap_or(Kind::Blob);
            self.add(MarkedObject {
                position,
                round: self.round(),
                section: CONTEXT,
                kind,
                group: 0,
                versioned: false,
            });
        }
        Ok(())
    }

    /// Marks contexts and everything in them.
    ///
    /// # Errors
    /// `Corrupt` when an object is missing or does not verify.
    pub(in crate::maintenance) fn mark_contexts(&mut self, trees: &[ObjectId]) -> Result<()> {
        let mut open = Vec::new();
        for tree in trees {
            let position = self.position(tree, || "a commit".to_owned())?;
            let Some(position) = position else { continue };
            let group = group_of("", None);
            let (kind, section, round) = (Kind::Node, CONTEXT, self.round());
            if self.add(MarkedObject { position, round, section, kind, group, versioned: true }) {
                open.push(OpenNode { position, section });
            }
        }
        self.walk(open)
    }

    /// Marks objects that were committed since the inventory was made, with everything that they
    /// reference, and the targets of their refs, tags and pins. Returns the older objects among
    /// these that were not marked before.
    ///
    /// # Errors
    /// `Corrupt` when an object is missing or does not verify.
    pub(in crate::maintenance) fn mark_arrivals(
        &mut self,
        source: &dyn ObjectSource,
        ids: &[ObjectId],
    ) -> Result<Vec<(ObjectId, Kind)>> {
        let mut open = ids.to_vec();
        for id in ids {
            let object =
                source.read(id)?.ok_or_else(|| missing(id, "an object of a concurrent commit"))?;
            open.extend(referenced_ids(&object)?);
        }
        let mut added = Vec::new();
        for id in open.iter().skip(ids.len()) {
            if let Some(position) = self.inventory.find(id) {
                added.extend(self.mark_object(position, *id)?);
            }
        }
        // A turn that is now referenced stays whole: the mark may have marked its commit without
        // its content.
        added.extend(self.mark_closure(source, &open)?);
        Ok(added)
    }

    /// Marks objects of any kind and everything that they reference.
    ///
    /// # Errors
    /// `Corrupt` when an object is missing or does not verify.
    pub(in crate::maintenance) fn mark_closure(
        &mut self,
        source: &dyn ObjectSource,
        ids: &[ObjectId],
    ) -> Result<Vec<(ObjectId, Kind)>> {
        let mut added = Vec::new();
        let mut open: Vec<ObjectId> = ids.to_vec();
        while let Some(id) = open.pop() {
            let object = match source.read(&id)? {
                Some(object) => object,
                None if self.holes.is_lost(&id) => continue,
                None => return Err(missing(&id, "an object of a concurrent commit")),
            };
            for link in links(&object)? {
                let Some(position) = self.inventory.find(&link.id) else {
                    // The object is newer than the inventory, and is one of `ids` itself.
                    continue;
                };
                if let Some(new) = self.mark_object(position, link.id)? {
                    added.push(new);
                    open.push(link.id);
                }
            }
        }
        Ok(added)
    }

    /// Marks objects that may have belonged to a lost object, and everything that they reference,
    /// since they may still be needed. Skips positions that `may_stay` rejects.
    ///
    /// # Errors
    /// `Corrupt` when an object does not verify.
    pub(in crate::maintenance) fn mark_possible_children(
        &mut self,
        may_stay: &dyn Fn(usize) -> bool,
    ) -> Result<()> {
        let (inventory, before) = (self.inventory, self.marked.len());
        let kept = self.holes.kept.keys().copied();
        let kept: Vec<ObjectId> =
            kept.filter(|id| inventory.find(id).is_some_and(may_stay)).collect();
        self.mark(kept.iter().copied())?;
        self.mark_closure(inventory, &kept)?;
        self.spared = before..self.marked.len();
        Ok(())
    }

    /// Returns the objects that were marked only because of known losses.
    pub(in crate::maintenance) fn spared(&self) -> &[MarkedObject] {
        self.marked.get(self.spared.clone()).unwrap_or_default()
    }

    /// Marks one object; returns it if it was not marked before.
    fn mark_object(&mut self, position: usize, id: ObjectId) -> Result<Option<(ObjectId, Kind)>> {
        let kind = self.inventory.entry(position).map_or(Kind::Blob, |entry| entry.kind);
        let (position, section, round) = (to_number(position)?, CONTEXT, self.round());
        let marked = MarkedObject { position, round, section, kind, group: 0, versioned: false };
        Ok(self.add(marked).then_some((id, kind)))
    }

    fn add(&mut self, marked: MarkedObject) -> bool {
        let new = self.live.insert(marked.position as usize);
        if new {
            self.marked.push(marked);
        }
        new
    }

    fn round(&self) -> u32 {
        self.rounds.saturating_sub(1)
    }

    /// Returns the position of an object; `None` for a hole.
    fn position(&self, id: &ObjectId, from: impl Fn() -> String) -> Result<Option<u32>> {
        match self.inventory.find(id) {
            Some(position) => to_number(position).map(Some),
            None if self.skips_missing || self.holes.is_lost(id) => Ok(None),
            None => Err(missing(id, &from())),
        }
    }

    /// Returns the children of a node that were not marked before.
    fn unmarked_children(
        &self,
        node_versions: &mut NodeVersions<'_>,
        section: u32,
        (id, children): (ObjectId, &Children),
    ) -> Result<Vec<UnmarkedChild>> {
        let mut unmarked_children = Vec::new();
        let found = node_versions.find(section, children.links())?;
        for ((key, link), found) in children.iter().zip(found) {
            let Some(position) = found.position else {
                self.position(&link.id, || id.to_string())?;
                continue;
            };
            // Children of an earlier node are marked by then.
            if found.is_repeated || self.is_marked(position as usize) {
                continue;
            }
            let in_context = section == CONTEXT;
            let group = match key {
                Some(key) if in_context => group_of(&String::from_utf8_lossy(key), None),
                key => group_of(self.section(section), key.filter(|_| !in_context)),
            };
            // A section that is one blob has versions too.
            let versioned = link.kind == Kind::Node || key.is_some();
            let begins = key.filter(|_| in_context).map(Bytes::copy_from_slice);
            unmarked_children.push(UnmarkedChild {
                position,
                kind: link.kind,
                group,
                versioned,
                begins,
            });
        }
        Ok(unmarked_children)
    }
}

impl ContextWalk for Marker<'_> {
    type Node = OpenNode;
    type Links = Vec<UnmarkedChild>;

    fn links(&self, nodes: &[OpenNode]) -> Vec<Result<Vec<UnmarkedChild>>> {
        let mut node_versions = NodeVersions::new(self.inventory);
        read_nodes(self.inventory, nodes, |node, id, children| {
            self.unmarked_children(&mut node_versions, node.section, (id, children))
        })
    }

    fn visit_links(
        &mut self,
        node: OpenNode,
        links: Result<Vec<UnmarkedChild>>,
        open: &mut Vec<OpenNode>,
    ) -> Result<()> {
        for UnmarkedChild { position, kind, group, versioned, begins } in links? {
            let section = begins.map_or(node.section, |name| self.sections.number(name));
            let round = self.round();
            // Two nodes of a level may reference the same child: the first of them opens it.
            let new = self.add(MarkedObject { position, round, section, kind, group, versioned });
            if new && kind == Kind::Node {
                open.push(OpenNode { position, section });
            }
        }
        Ok(())
    }
}

/// Returns the objects that another object names: the new values of refs of an operation, the
/// target of a tag.
fn referenced_ids(object: &Object) -> Result<Vec<ObjectId>> {
    Ok(match object.kind {
        Kind::Operation => {
            let changes = Operation::decode(&object.bytes)?.changes.into_iter();
            let values = changes.filter_map(|change| match change.new {
                Some(RefValue::Object(id)) => Some(id),
                _ => None,
            });
            values.collect()
        }
        Kind::Tag => vec![Tag::decode(&object.bytes)?.target],
        _ => Vec::new(),
    })
}

/// Hashes the identity that all versions of an entry share: the section and, if there is one, the
/// key.
fn group_of(section: &str, key: Option<&[u8]>) -> u64 {
    let mut hasher = DefaultHasher::new();
    (section, key).hash(&mut hasher);
    hasher.finish()
}

fn missing(id: &ObjectId, from: &str) -> Error {
    Error::corrupt(from, format_args!("the object {id} it refers to"), "nothing")
}

/// A set of positions.
#[derive(Debug)]
pub(in crate::maintenance) struct Bits(Vec<u64>);

impl Bits {
    pub(in crate::maintenance) fn new(len: usize) -> Self {
        Self(vec![0; len.div_ceil(64)])
    }

    pub(in crate::maintenance) fn contains(&self, at: usize) -> bool {
        self.0.get(at / 64).is_some_and(|word| word & (1 << (at % 64)) != 0)
    }

    /// Adds another set over the same number of positions.
    fn add(&mut self, other: &Self) {
        self.0.iter_mut().zip(&other.0).for_each(|(word, more)| *word |= more);
    }

    /// Adds a position; returns true if it was not in the set before.
    pub(in crate::maintenance) fn insert(&mut self, at: usize) -> bool {
        let Some(word) = self.0.get_mut(at / 64) else { return false };
        let new = *word & (1 << (at % 64)) == 0;
        *word |= 1 << (at % 64);
        new
    }
}
