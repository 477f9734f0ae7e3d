//! Cohorts: separates the objects that the older half of the turns of each session needs.
//!
//! ```text
//! session a   turn 1  2  3 | 4  5  6        older: all that turns 1 to 3 of a and 1 to 2 of b need
//! session b   turn 1  2    | 3  4           newer: everything else
//! ```
//!
//! In an archive the cohorts share no block. A bad block among the newer objects costs a session
//! only its newer turns. A bad block among the older objects leaves the content that only newer
//! turns have. Both cohorts hold many sessions, so blocks are as large as usual.

use std::collections::HashMap;
use std::sync::Arc;

use super::marker::{Bits, Marker};
use crate::error::Result;
use crate::maintenance::keep::roots::Roots;
use crate::object::ObjectId;
use crate::store::{Inventory, Tier};

/// The cohort of objects that an older half needs, and of all other objects.
const OLDER: u32 = 0;
const NEWER: u32 = 1;

/// The cohort of each object.
#[derive(Debug)]
pub(in crate::maintenance) struct Cohorts {
    /// The positions of objects in older halves; `None` if there is only one cohort.
    older: Option<Bits>,
}

impl Cohorts {
    /// Returns one cohort for all objects.
    pub(in crate::maintenance) fn undivided() -> Self {
        Self { older: None }
    }

    /// Divides the objects of a pack of this tier by the turns that keep their content. Only
    /// archives are divided: other packs are rewritten soon. Reads every node of the older halves.
    ///
    /// # Errors
    /// `Corrupt` when an object of a turn is missing or does not verify.
    pub(in crate::maintenance) fn find(
        inventory: &Inventory<'_>,
        roots: &Roots,
        kept: impl IntoIterator<Item = ObjectId>,
        tier: Tier,
    ) -> Result<Self> {
        if tier != Tier::Archive {
            return Ok(Self::undivided());
        }
        let (commits, trees) = older_half(roots, kept);
        let mut marker = Marker::new(inventory, Arc::clone(&roots.holes));
        marker.begin_round();
        marker.mark(commits)?;
        marker.mark_contexts(&trees)?;
        Ok(Self { older: Some(marker.into_live()) })
    }

    /// Returns the cohort of the object at a position.
    pub(in crate::maintenance) fn of(&self, position: u32) -> u32 {
        match &self.older {
            Some(older) if !older.contains(position as usize) => NEWER,
            _ => OLDER,
        }
    }
}

/// Returns the commits and contexts of the older half of the turns of each session, including the
/// middle one.
fn older_half(
    roots: &Roots,
    kept: impl IntoIterator<Item = ObjectId>,
) -> (Vec<ObjectId>, Vec<ObjectId>) {
    let graph = &roots.graph;
    let mut sessions: HashMap<usize, Vec<(u64, ObjectId, ObjectId)>> = HashMap::new();
    for id in kept {
        if let Some(commit) = graph.find(&id).and_then(|at| graph.commits().get(at)) {
            let turns = sessions.entry(commit.session).or_default();
            turns.push((commit.turn, commit.id, commit.tree));
        }
    }
    let older = sessions.into_values().flat_map(|mut turns| {
        turns.sort_unstable();
        turns.truncate(turns.len().div_ceil(2));
        turns
    });
    older.map(|(_, commit, tree)| (commit, tree)).unzip()
}
