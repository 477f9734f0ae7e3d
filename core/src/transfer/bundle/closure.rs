//! Every object of some contexts, in an order in which each lies behind all that it names.
//!
//! Contents come first, in the order in which the turns first have them; then nodes, what a node
//! refers to in front of it; then commits, parents first; then tags. Older versions lie in front of
//! newer ones, so they are what these are compressed against.

use std::collections::{HashMap, HashSet};
use std::vec::IntoIter;

use crate::error::Result;
use crate::object::{Kind, ObjectId, ObjectSource};
use crate::store::{Outside, PackItem};
use crate::tree::{self, Link};

/// Collects objects.
pub(super) struct Closure<'a> {
    source: &'a dyn ObjectSource,
    /// By kind.
    taken: [Vec<ObjectId>; 4],
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
            taken: <[Vec<ObjectId>; 4]>::default(),
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
        if let Some(taken) = self.taken.get_mut(usize::from(kind.code())) {
            taken.push(id);
        }
    }

    /// Notes an object that is named and not taken.
    pub(super) fn name(&mut self, id: ObjectId, kind: Kind, why: Outside) {
        if self.named.insert(id, why).is_none() {
            self.outside.push((id, kind, why));
        }
    }

    pub(super) fn finish(self) -> ClosureItems {
        let kinds = Kind::ALL.into_iter().zip(self.taken);
        let items = kinds.flat_map(|(kind, ids)| {
            ids.into_iter().map(move |id| PackItem { id, kind, placement: 0, cohort: 0 })
        });
        ClosureItems { items: items.collect(), outside: self.outside }
    }
}
