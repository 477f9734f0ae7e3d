//! Keeps the mark of one collection step for the next step, so that a large store is walked once.
//!
//! ```text
//! step     mark ──> replace files ──> ids of all that was marked
//! next     positions of these ids ──> mark again: only what was not marked is walked
//! ```
//!
//! The next step rereads refs, operations, policies and known losses and marks from all of them, so
//! it marks everything that a new mark would. The walk stops at known objects, because a mark
//! marks everything below a marked node. Objects that became unreachable since the first step stay
//! until the next collection. Positions are valid for one step only, so each id is looked up again.
//! If an id is missing, another process removed the object, and the store is marked from scratch.

use rayon::prelude::*;

use super::sections::Sections;
use super::walk::to_number;
use crate::object::{Kind, ObjectId};
use crate::store::Inventory;

/// A marked object.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(in crate::maintenance) struct MarkedObject {
    /// The position in the inventory.
    pub(in crate::maintenance) position: u32,
    /// The round, starting at 0.
    pub(in crate::maintenance) round: u32,
    /// The section in which it was first marked, as a number of the mark.
    pub(in crate::maintenance) section: u32,
    /// The kind of the object.
    pub(in crate::maintenance) kind: Kind,
    /// Equal for versions of the same entry: nodes of a section, values of a key.
    pub(in crate::maintenance) group: u64,
    /// True for an entry with versions, as opposed to an item of a list.
    pub(super) versioned: bool,
}

/// The marked objects, in order, and the names of its sections.
#[derive(Debug)]
pub(in crate::maintenance) struct PreviousMark {
    /// The id of each marked object.
    ids: Vec<ObjectId>,
    marked: Vec<MarkedObject>,
    sections: Sections,
}

impl PreviousMark {
    /// Returns the mark with ids instead of positions; `None` if a position has no id.
    pub(in crate::maintenance) fn new(
        inventory: &Inventory<'_>,
        marked: Vec<MarkedObject>,
        sections: Sections,
    ) -> Option<Self> {
        let id = |marked: &MarkedObject| inventory.id_at(marked.position as usize);
        let ids = marked.par_iter().map(id).collect::<Option<Vec<ObjectId>>>()?;
        inventory.release_pages();
        Some(Self { ids, marked, sections })
    }

    /// Returns the mark with the positions of a later inventory; `None` if it lacks an object.
    pub(super) fn found_in(
        mut self,
        inventory: &Inventory<'_>,
    ) -> Option<(Vec<MarkedObject>, Sections)> {
        let position = |id: &ObjectId| to_number(inventory.find(id)?).ok();
        let found = self.marked.par_iter_mut().zip(&self.ids).try_for_each(|(marked, id)| {
            marked.position = position(id)?;
            Some(())
        });
        inventory.release_pages();
        found.map(|()| (self.marked, self.sections))
    }
}
