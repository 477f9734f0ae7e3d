//! Every object of some contexts, in an order in which each lies behind all that it names.
//!
//! Turns lie in portions, the oldest in front: half of the objects, half of the rest, and so on. So a
//! file that loses a part of its end still has the turns of the portions in front. In a portion contents
//! come first, in the order in which its turns first have them; then nodes, what a node refers to in
//! front of it; then commits, parents first; tags end the last one. Older versions lie in front of
//! newer ones, so they are what these are compressed against.

use std::collections::{HashMap, HashSet};
use std::vec::IntoIter;

use crate::error::Result;
use crate::object::{Kind, ObjectId, ObjectSource};
use crate::store::{Outside, PackItem};
use crate::tree::{self, Link};

/// A bundle of fewer than twice as many objects is one portion: each costs some bytes of compression.
const LEAST_OBJECTS: usize = 256;

/// The order of the objects in a bundle.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum ObjectOrder {
    /// Turns in portions: a torn end leaves those in front.
    Portions,
    /// One portion: the history lies together, behind all contents.
    ContentsFirst,
}

/// Collects objects.
pub(super) struct Closure<'a> {
    source: &'a dyn ObjectSource,
    /// Each behind what it names.
    taken: Vec<(ObjectId, Kind)>,
    seen: HashSet<ObjectId>,
    left_out: HashSet<ObjectId>,
    outside: Vec<(ObjectId, Kind, Outside)>,
    named: HashMap<ObjectId, Outside>,
}

/// The items of a closure.
pub(super) struct ClosureItems {
    pub(super) items: Vec<PackItem>,
    pub(super) outside: Vec<(ObjectId, Kind, Outside)>,
}

/// A node whose children are followed.
struct Open {
    id: ObjectId,
    left: IntoIter<Link>,
}

impl<'a> Closure<'a> {
    pub(super) fn new(source: &'a dyn ObjectSource) -> Self {
        Self {
            source,
            taken: Vec::new(),
            seen: HashSet::new(),
            left_out: HashSet::new(),
            outside: Vec::new(),
            named: HashMap::new(),
        }
    }

    /// Notes everything of a context as something that whoever reads the bundle has.
    pub(super) fn leave_out(&mut self, tree: &ObjectId) -> Result<()> {
        let mut waiting = vec![Link { kind: Kind::Node, id: *tree }];
        while let Some(link) = waiting.pop() {
            if self.left_out.insert(link.id) && link.kind == Kind::Node {
                waiting.extend(self.children(&link.id)?);
            }
        }
        Ok(())
    }

    /// Takes everything of a context that is not taken or left out.
    pub(super) fn take(&mut self, tree: &ObjectId) -> Result<()> {
        let mut open: Vec<Open> = Vec::new();
        self.enter(Link { kind: Kind::Node, id: *tree }, &mut open)?;
        while let Some(node) = open.last_mut() {
            match node.left.next() {
                Some(link) => self.enter(link, &mut open)?,
                None => {
                    let id = node.id;
                    open.pop();
                    self.push(id, Kind::Node);
                }
            }
        }
        Ok(())
    }

    fn enter(&mut self, link: Link, open: &mut Vec<Open>) -> Result<()> {
        if self.left_out.contains(&link.id) {
            self.name(link.id, link.kind, Outside::Required);
        } else if self.seen.insert(link.id) {
            match link.kind {
                Kind::Node => {
                    let left = self.children(&link.id)?.into_iter();
                    open.push(Open { id: link.id, left });
                }
                kind => self.push(link.id, kind),
            }
        }
        Ok(())
    }

    fn children(&self, node: &ObjectId) -> Result<Vec<Link>> {
        let bytes = self.source.read_as(Kind::Node, node)?;
        tree::links(&bytes).map_err(|error| error.at(node))
    }

    /// Takes one object.
    pub(super) fn push(&mut self, id: ObjectId, kind: Kind) {
        self.taken.push((id, kind));
    }

    /// Notes an object that is named and not taken.
    pub(super) fn name(&mut self, id: ObjectId, kind: Kind, why: Outside) {
        if self.named.insert(id, why).is_none() {
            self.outside.push((id, kind, why));
        }
    }

    pub(super) fn finish(self, order: ObjectOrder) -> ClosureItems {
        let mut items = Vec::with_capacity(self.taken.len());
        let portions = match order {
            ObjectOrder::Portions => portions(&self.taken),
            ObjectOrder::ContentsFirst => vec![&*self.taken],
        };
        for portion in portions {
            for kind in Kind::ALL {
                let of_kind = portion.iter().filter(|(_, found)| *found == kind);
                items.extend(of_kind.map(|(id, kind)| PackItem {
                    id: *id,
                    kind: *kind,
                    placement: 0,
                    cohort: 0,
                }));
            }
        }
        ClosureItems { items, outside: self.outside }
    }
}

/// Cuts objects behind commits: half of them, half of the rest, and so on.
fn portions(taken: &[(ObjectId, Kind)]) -> Vec<&[(ObjectId, Kind)]> {
    let (mut portions, mut rest) = (Vec::new(), taken);
    while rest.len() >= 2 * LEAST_OBJECTS {
        let (_, second) = rest.split_at(rest.len() / 2);
        let Some(end) = second.iter().position(|(_, kind)| *kind == Kind::Commit) else { break };
        let (portion, left) = rest.split_at(rest.len() / 2 + end + 1);
        portions.push(portion);
        rest = left;
    }
    portions.push(rest);
    portions
}
