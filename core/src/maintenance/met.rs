//! What a mark has met, and how one step of a collection leaves it to the next: a large store is walked once.
//!
//! ```text
//! step     mark ──> replace files ──> ids of all that was met
//! next     positions of these ids ──> mark again: only what was not met is walked
//! ```
//!
//! The next step asks refs, operations, policies and known losses anew and marks from all of them, so
//! that whatever a mark from nothing would meet is met. It stops at what is known, because a mark meets
//! with a node everything below it. What was reached at the first step and is not any more stays until
//! the next collection. Positions do not outlive a step, so each id is looked up again; where one is
//! nowhere, somebody else took it away, and the store is marked from nothing.

use rayon::prelude::*;

use super::sections::Sections;
use super::walk::short;
use crate::object::{Kind, ObjectId};
use crate::store::Inventory;

/// An object that was met.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Met {
    /// In the inventory.
    pub(super) position: u32,
    /// The round, from 0.
    pub(super) round: u32,
    /// The section it was first met in, by the number that the mark gives it.
    pub(super) section: u32,
    /// Its kind.
    pub(super) kind: Kind,
    /// Equal for versions of the same thing: nodes of a section, values of a key.
    pub(super) group: u64,
    /// True if there are versions of it, as opposed to items of a list.
    pub(super) versioned: bool,
}

/// Everything that a mark has met, in order, and the sections that it names.
#[derive(Debug)]
pub(super) struct KnownMark {
    /// One for each of those that were met.
    ids: Vec<ObjectId>,
    met: Vec<Met>,
    sections: Sections,
}

impl KnownMark {
    /// What was met in an inventory; nothing where a position has no id.
    pub(super) fn new(
        inventory: &Inventory<'_>,
        met: Vec<Met>,
        sections: Sections,
    ) -> Option<Self> {
        let id = |met: &Met| inventory.id_at(met.position as usize);
        let ids = met.par_iter().map(id).collect::<Option<Vec<ObjectId>>>()?;
        inventory.let_pages_go();
        Some(Self { ids, met, sections })
    }

    /// The same in a later inventory, which has all of it; nothing where it has not.
    pub(super) fn found_in(mut self, inventory: &Inventory<'_>) -> Option<(Vec<Met>, Sections)> {
        let position = |id: &ObjectId| short(inventory.find(id)?).ok();
        let found = self.met.par_iter_mut().zip(&self.ids).try_for_each(|(met, id)| {
            met.position = position(id)?;
            Some(())
        });
        inventory.let_pages_go();
        found.map(|()| (self.met, self.sections))
    }
}
