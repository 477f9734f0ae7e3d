//! Collects every object of some contexts, in an order in which dependencies come first.
//!
//! Turns are split into portions, the oldest first: half of the objects, half of the rest, and so
//! on. So a file truncated at the end still has the turns of the earlier portions. In a portion
//! blobs come first, in the order in which its turns introduce them; then nodes, dependencies
//! first; then commits, parents first. Tags end the last portion. Older versions precede newer
//! ones, so newer ones are compressed against them.

use std::collections::{HashMap, HashSet};
use std::vec::IntoIter;

use crate::error::Result;
use crate::object::{Kind, ObjectId, ObjectSource};
use crate::store::{Outside, PackItem};
use crate::tree::{self, Link};

/// A bundle with fewer than twice as many objects is one portion: each portion costs some bytes of
/// compression.
const LEAST_OBJECTS: usize = 256;

/// The order of the objects in a bundle.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum ObjectOrder {
    /// Turns in portions: a torn end keeps the earlier portions.
    Portions,
    /// One portion: all blobs, then the whole history together.
    ContentsFirst,
}

/// Collects objects.
pub(super) struct Closure<'a> {
    source: &'a dyn ObjectSource,
    /// Collected objects, dependencies first.
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

/// A node whose children are being visited.
struct OpenNode {
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

    /// Excludes every object of a context that the recipient has.
    pub(super) fn exclude(&mut self, tree: &ObjectId) -> Result<()> {
        let mut waiting = vec![Link { kind: Kind::Node, id: *tree }];
        while let Some(link) = waiting.pop() {
            if self.left_out.insert(link.id) && link.kind == Kind::Node {
                waiting.extend(self.children(&link.id)?);
            }
        }
        Ok(())
    }

    /// Collects every object of a context that is not yet collected or excluded.
    pub(super) fn take(&mut self, tree: &ObjectId) -> Result<()> {
        let mut open: Vec<OpenNode> = Vec::new();
        self.visit_link(Link { kind: Kind::Node, id: *tree }, &mut open)?;
        while let Some(node) = open.last_mut() {
            match node.left.next() {
                Some(link) => self.visit_link(link, &mut open)?,
                None => {
                    let id = node.id;
                    open.pop();
                    self.push(id, Kind::Node);
                }
            }
        }
        Ok(())
    }

    fn visit_link(&mut self, link: Link, open: &mut Vec<OpenNode>) -> Result<()> {
        if self.left_out.contains(&link.id) {
            self.note_outside(link.id, link.kind, Outside::Required);
        } else if self.seen.insert(link.id) {
            match link.kind {
                Kind::Node => {
                    let left = self.children(&link.id)?.into_iter();
                    open.push(OpenNode { id: link.id, left });
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

    /// Collects one object.
    pub(super) fn push(&mut self, id: ObjectId, kind: Kind) {
        self.taken.push((id, kind));
    }

    /// Records an object that is named but not collected.
    pub(super) fn note_outside(&mut self, id: ObjectId, kind: Kind, why: Outside) {
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

/// Cuts the objects after commits: half of them, half of the rest, and so on.
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
