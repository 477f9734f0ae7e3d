//! Marks reachable objects, each once, and records the order in which the walk meets them.
//!
//! Contexts are marked in rounds, newest first. Within a round the walk goes level by level, and
//! all processors read the nodes of a level. The order of the met objects is fixed, which makes
//! packs reproducible. An object is identified by its position in the inventory, so the set of met
//! objects is a bitmap, and the record of an object takes 24 bytes.
//!
//! The walk records the section, and in maps the key, under which it first met an object. An object
//! met later under the same key is an older version of it. The layout of packs uses this.

use std::hash::{DefaultHasher, Hash, Hasher};
use std::ops::Range;
use std::sync::Arc;

use super::met::{KnownMark, Met};
use super::sections::{CONTEXT, Sections};
use super::siblings::Siblings;
use super::walk::{ContextWalk, OpenNode, read_nodes, short};
use crate::error::{Error, Result};
use crate::object::{Kind, Object, ObjectId, ObjectSource, Operation, RefValue, Tag};
use crate::repo::links;
use crate::store::{Inventory, KnownLosses};
use crate::tree::Children;
use bytes::Bytes;

/// The set of met objects.
#[derive(Debug)]
pub(super) struct Marker<'a> {
    inventory: &'a Inventory<'a>,
    holes: Arc<KnownLosses>,
    live: Bits,
    met: Vec<Met>,
    rounds: u32,
    /// The objects that were met only because of known losses.
    spared: Range<usize>,
    sections: Sections,
}

/// A child of a node that was not met before its level.
pub(super) struct Arrow {
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
    pub(super) fn new(inventory: &'a Inventory<'a>, holes: Arc<KnownLosses>) -> Self {
        Self {
            inventory,
            holes,
            live: Bits::new(inventory.positions()),
            met: Vec::with_capacity(inventory.positions()),
            rounds: 0,
            spared: 0..0,
            sections: Sections::new(""),
        }
    }

    /// Counts the objects that another walk met as met, with everything reachable from them. They
    /// do not become part of [`Marker::met`], so this mark cannot lay out a pack.
    pub(super) fn know(&mut self, walked: &Bits) {
        self.live.add(walked);
    }

    /// Returns everything that was met, in order.
    pub(super) fn met(&self) -> &[Met] {
        &self.met
    }

    /// Returns the positions of everything that was met.
    pub(super) fn into_live(self) -> Bits {
        self.live
    }

    /// Returns the met objects for a later mark of the same store; `None` if some were met only
    /// because of known losses, since each mark must decide again whether these stay.
    pub(super) fn into_known(self) -> Option<KnownMark> {
        let is_reached = self.spared().is_empty();
        is_reached.then(|| KnownMark::new(self.inventory, self.met, self.sections)).flatten()
    }

    /// Meets the objects of an earlier mark, if all of them still exist.
    pub(super) fn recall(&mut self, known: KnownMark) {
        if let Some((met, sections)) = known.found_in(self.inventory) {
            self.live = Bits::new(self.inventory.positions());
            for met in &met {
                self.live.insert(met.position as usize);
            }
            (self.met, self.sections) = (met, sections);
        }
    }

    /// Returns the name of a section; empty outside of sections.
    pub(super) fn section(&self, number: u32) -> &str {
        self.sections.name(number)
    }

    /// Returns true if the object at a position was met.
    pub(super) fn is_met(&self, position: usize) -> bool {
        self.live.contains(position)
    }

    /// Begins a new round and returns its number.
    pub(super) fn begin_round(&mut self) -> u32 {
        self.rounds += 1;
        self.rounds - 1
    }

    /// Meets single objects without the objects that they reference.
    ///
    /// # Errors
    /// `Corrupt` when an object is missing.
    pub(super) fn meet(&mut self, ids: impl IntoIterator<Item = ObjectId>) -> Result<()> {
        for id in ids {
            let Some(position) = self.position(&id, || "a root".to_owned())? else { continue };
            let kind = self.inventory.entry(position as usize).map(|entry| entry.kind);
            let kind = kind.unwrap_or(Kind::Blob);
            self.add(Met {
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

    /// Meets contexts and everything in them.
    ///
    /// # Errors
    /// `Corrupt` when an object is missing or does not verify.
    pub(super) fn meet_contexts(&mut self, trees: &[ObjectId]) -> Result<()> {
        let mut open = Vec::new();
        for tree in trees {
            let position = self.position(tree, || "a commit".to_owned())?;
            let Some(position) = position else { continue };
            let group = group_of("", None);
            let (kind, section, round) = (Kind::Node, CONTEXT, self.round());
            if self.add(Met { position, round, section, kind, group, versioned: true }) {
                open.push(OpenNode { position, section });
            }
        }
        self.walk(open)
    }

    /// Meets objects that were committed since the inventory was made, with everything that they
    /// reference, and the targets of their refs, tags and pins. Returns the older objects among
    /// these that were not met before.
    ///
    /// # Errors
    /// `Corrupt` when an object is missing or does not verify.
    pub(super) fn meet_arrived(
        &mut self,
        source: &dyn ObjectSource,
        ids: &[ObjectId],
    ) -> Result<Vec<(ObjectId, Kind)>> {
        let mut open = ids.to_vec();
        for id in ids {
            let object =
                source.read(id)?.ok_or_else(|| missing(id, "an object of a concurrent commit"))?;
            open.extend(named(&object)?);
        }
        let mut added = Vec::new();
        for id in open.iter().skip(ids.len()) {
            if let Some(position) = self.inventory.find(id) {
                added.extend(self.meet_object(position, *id)?);
            }
        }
        // A turn that is now referenced stays whole: the mark may have met its commit without its
        // content.
        added.extend(self.meet_closure(source, &open)?);
        Ok(added)
    }

    /// Meets objects of any kind and everything that they reference.
    ///
    /// # Errors
    /// `Corrupt` when an object is missing or does not verify.
    pub(super) fn meet_closure(
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
                if let Some(new) = self.meet_object(position, link.id)? {
                    added.push(new);
                    open.push(link.id);
                }
            }
        }
        Ok(added)
    }

    /// Meets objects that may have belonged to a lost object, and everything that they reference,
    /// since they may still be needed. Skips positions that `may_stay` rejects.
    ///
    /// # Errors
    /// `Corrupt` when an object does not verify.
    pub(super) fn meet_kept(&mut self, may_stay: &dyn Fn(usize) -> bool) -> Result<()> {
        let (inventory, before) = (self.inventory, self.met.len());
        let kept = self.holes.kept.keys().copied();
        let kept: Vec<ObjectId> =
            kept.filter(|id| inventory.find(id).is_some_and(may_stay)).collect();
        self.meet(kept.iter().copied())?;
        self.meet_closure(inventory, &kept)?;
        self.spared = before..self.met.len();
        Ok(())
    }

    /// Returns the objects that were met only because of known losses.
    pub(super) fn spared(&self) -> &[Met] {
        self.met.get(self.spared.clone()).unwrap_or_default()
    }

    /// Meets one object; returns it if it was not met before.
    fn meet_object(&mut self, position: usize, id: ObjectId) -> Result<Option<(ObjectId, Kind)>> {
        let kind = self.inventory.entry(position).map_or(Kind::Blob, |entry| entry.kind);
        let (position, section, round) = (short(position)?, CONTEXT, self.round());
        let met = Met { position, round, section, kind, group: 0, versioned: false };
        Ok(self.add(met).then_some((id, kind)))
    }

    fn add(&mut self, met: Met) -> bool {
        let new = self.live.insert(met.position as usize);
        if new {
            self.met.push(met);
        }
        new
    }

    fn round(&self) -> u32 {
        self.rounds.saturating_sub(1)
    }

    /// Returns the position of an object; `None` for a hole.
    fn position(&self, id: &ObjectId, from: impl Fn() -> String) -> Result<Option<u32>> {
        match self.inventory.find(id) {
            Some(position) => short(position).map(Some),
            None if self.holes.is_lost(id) => Ok(None),
            None => Err(missing(id, &from())),
        }
    }

    /// Returns the children of a node that were not met before.
    fn arrows(
        &self,
        siblings: &mut Siblings<'_>,
        section: u32,
        (id, children): (ObjectId, &Children),
    ) -> Result<Vec<Arrow>> {
        let mut arrows = Vec::new();
        let found = siblings.find(section, children.links())?;
        for ((key, link), found) in children.iter().zip(found) {
            let Some(position) = found.position else {
                self.position(&link.id, || id.to_string())?;
                continue;
            };
            // Children of an earlier node are met by then.
            if found.is_repeated || self.is_met(position as usize) {
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
            arrows.push(Arrow { position, kind: link.kind, group, versioned, begins });
        }
        Ok(arrows)
    }
}

impl ContextWalk for Marker<'_> {
    type Node = OpenNode;
    type Links = Vec<Arrow>;

    fn links(&self, nodes: &[OpenNode]) -> Vec<Result<Vec<Arrow>>> {
        let mut siblings = Siblings::new(self.inventory);
        read_nodes(self.inventory, nodes, |node, id, children| {
            self.arrows(&mut siblings, node.section, (id, children))
        })
    }

    fn meet_links(
        &mut self,
        node: OpenNode,
        links: Result<Vec<Arrow>>,
        open: &mut Vec<OpenNode>,
    ) -> Result<()> {
        for Arrow { position, kind, group, versioned, begins } in links? {
            let section = begins.map_or(node.section, |name| self.sections.number(name));
            let round = self.round();
            // Two nodes of a level may reference the same child: the first of them opens it.
            let new = self.add(Met { position, round, section, kind, group, versioned });
            if new && kind == Kind::Node {
                open.push(OpenNode { position, section });
            }
        }
        Ok(())
    }
}

/// Returns the objects that another object names: the new values of refs of an operation, the
/// target of a tag.
fn named(object: &Object) -> Result<Vec<ObjectId>> {
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
pub(super) struct Bits(Vec<u64>);

impl Bits {
    pub(super) fn new(len: usize) -> Self {
        Self(vec![0; len.div_ceil(64)])
    }

    pub(super) fn contains(&self, at: usize) -> bool {
        self.0.get(at / 64).is_some_and(|word| word & (1 << (at % 64)) != 0)
    }

    /// Adds another set over the same number of positions.
    fn add(&mut self, other: &Self) {
        self.0.iter_mut().zip(&other.0).for_each(|(word, more)| *word |= more);
    }

    /// Adds a position; returns true if it was not in the set before.
    pub(super) fn insert(&mut self, at: usize) -> bool {
        let Some(word) = self.0.get_mut(at / 64) else { return false };
        let new = *word & (1 << (at % 64)) == 0;
        *word |= 1 << (at % 64);
        new
    }
}
