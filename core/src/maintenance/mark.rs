//! Mark: what can be reached, each object once, in the order in which it is met.
//!
//! Contexts are marked in rounds, newest first. Within a round the walk goes level by level, and the
//! nodes of a level are read on all processors; that they are met in a fixed order makes packs
//! reproducible. An object is known by its position in the inventory, so the set of those met is a
//! bit map, and all that is remembered of an object is 24 bytes.
//!
//! On the way it is noted in which section, and for maps under which key, an object was met first:
//! what is met later under the same key is an older version of it. Packs are laid out by this.

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

/// The set of what was met.
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
    /// Nothing is met yet. What is lost is passed over if it is one of the holes, and else an error.
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

    /// Counts as met what another walk has met, with all that it leads to. None of it is among
    /// [`Marker::met`], so no pack can be laid out by this mark.
    pub(super) fn know(&mut self, walked: &Bits) {
        self.live.add(walked);
    }

    /// Everything that was met, in order.
    pub(super) fn met(&self) -> &[Met] {
        &self.met
    }

    /// The positions of everything that was met.
    pub(super) fn into_live(self) -> Bits {
        self.live
    }

    /// What was met, for a mark of the same store later. Nothing where some of it was met only because of
    /// known losses: whether that may stay is asked each time.
    pub(super) fn into_known(self) -> Option<KnownMark> {
        let is_reached = self.spared().is_empty();
        is_reached.then(|| KnownMark::new(self.inventory, self.met, self.sections)).flatten()
    }

    /// Meets what an earlier mark has met, if all of it is there still.
    pub(super) fn recall(&mut self, known: KnownMark) {
        if let Some((met, sections)) = known.found_in(self.inventory) {
            self.live = Bits::new(self.inventory.positions());
            for met in &met {
                self.live.insert(met.position as usize);
            }
            (self.met, self.sections) = (met, sections);
        }
    }

    /// The name of a section; empty for what is in none.
    pub(super) fn section(&self, number: u32) -> &str {
        self.sections.name(number)
    }

    /// Returns true if what lies at a position was met.
    pub(super) fn is_met(&self, position: usize) -> bool {
        self.live.contains(position)
    }

    /// Begins a new round, and says its number.
    pub(super) fn begin_round(&mut self) -> u32 {
        self.rounds += 1;
        self.rounds - 1
    }

    /// Meets single objects, and nothing they refer to.
    ///
    /// # Errors
    /// `Corrupt` when one is missing.
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
    /// `Corrupt` when something is missing or does not verify.
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

    /// Meets what was committed meanwhile, and everything that it refers to or puts a ref, a tag or a
    /// pin on; gives what of it was there before and was not met.
    ///
    /// # Errors
    /// `Corrupt` when something is missing or does not verify.
    pub(super) fn meet_arrived(
        &mut self,
        source: &dyn ObjectSource,
        ids: &[ObjectId],
    ) -> Result<Vec<(ObjectId, Kind)>> {
        let mut open = ids.to_vec();
        for id in ids {
            let object =
                source.read(id)?.ok_or_else(|| missing(id, "what was committed meanwhile"))?;
            open.extend(named(&object)?);
        }
        let mut added = Vec::new();
        for id in open.iter().skip(ids.len()) {
            if let Some(position) = self.inventory.find(id) {
                added.extend(self.meet_object(position, *id)?);
            }
        }
        // A turn that is named so stays whole, though its commit may have been met without its content.
        added.extend(self.meet_closure(source, &open)?);
        Ok(added)
    }

    /// Meets objects and everything that they refer to, whatever they are.
    ///
    /// # Errors
    /// `Corrupt` when something is missing or does not verify.
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
                None => return Err(missing(&id, "an object that was committed meanwhile")),
            };
            for link in links(&object)? {
                let Some(position) = self.inventory.find(&link.id) else {
                    // It came after the inventory, so it is asked about on its own.
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

    /// Meets what may have belonged to something that is lost, and everything it leads to: nothing
    /// is taken away because nobody can say that it is needed. But for what may not stay, by its
    /// position, for another reason.
    ///
    /// # Errors
    /// `Corrupt` when something does not verify.
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

    /// Meets one object; gives it when it was not met before.
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

    /// The position of an object; nothing for one of the holes.
    fn position(&self, id: &ObjectId, from: impl Fn() -> String) -> Result<Option<u32>> {
        match self.inventory.find(id) {
            Some(position) => short(position).map(Some),
            None if self.holes.is_lost(id) => Ok(None),
            None => Err(missing(id, &from())),
        }
    }

    /// The children of a node of a section that were not met before.
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
            // What a node before this one has is met by then.
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
            // Two nodes of a level may refer to the same one: the first that is met opens it.
            let new = self.add(Met { position, round, section, kind, group, versioned });
            if new && kind == Kind::Node {
                open.push(OpenNode { position, section });
            }
        }
        Ok(())
    }
}

/// Returns the objects that another one names: an operation the new values of refs, a tag its
/// target.
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

/// Hashes the identity that versions of one thing share: their section and, if there is one, their
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

    /// Adds all of another set, which is of as many positions.
    fn add(&mut self, other: &Self) {
        self.0.iter_mut().zip(&other.0).for_each(|(word, more)| *word |= more);
    }

    /// Returns true if it was not in the set before.
    pub(super) fn insert(&mut self, at: usize) -> bool {
        let Some(word) = self.0.get_mut(at / 64) else { return false };
        let new = *word & (1 << (at % 64)) == 0;
        *word |= 1 << (at % 64);
        new
    }
}
