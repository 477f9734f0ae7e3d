//! Replaces every file of the store with one pack without the redacted content.

use std::collections::HashMap;
use std::sync::Arc;

use super::pattern::Pattern;
use super::search::{Search, hits_in};
use crate::error::{Error, ErrorKind, Result};
use crate::maintenance::collect::collection::{mark, tombstones};
use crate::maintenance::expire::plan_turns::is_dropped;
use crate::maintenance::mark::cohorts::Cohorts;
use crate::maintenance::mark::marker::Marker;
use crate::maintenance::mark::pack_order::arrange;
use crate::maintenance::{Policies, RetentionPlan, Roots, plan_retention};
use crate::object::{Kind, ObjectId, ObjectSource, Time};
use crate::store::{
    Collection, FileReplacement, Inventory, PackItem, Replaced, Store, Tier, Tombstone,
};

/// The content of a store after a redaction.
pub(super) struct Removal<'a> {
    search: &'a Search<'a>,
    marker: Marker<'a>,
    roots: Roots,
    retention: RetentionPlan,
    now_round: u32,
}

impl<'a> Removal<'a> {
    /// Marks everything reachable from refs and from the operations since `first`.
    ///
    /// # Errors
    /// `Corrupt` when a required object is missing.
    pub(super) fn new(search: &'a Search<'a>, first: ObjectId, now: Time) -> Result<Self> {
        let inventory = search.inventory;
        let roots = Roots::find_since(inventory, inventory.refs(), now.micros, Some(first))?;
        let is_gone = |tree: &ObjectId| is_dropped(inventory, tree);
        let retention = plan_retention(&roots, &Policies::default(), now.micros, &is_gone, None)?;
        let mut marker = Marker::new(inventory, Arc::clone(&roots.holes));
        let now_round = mark(&mut marker, inventory, &roots, &retention)?;
        // Objects that reference a match are dropped, even if they may have belonged to a lost
        // object.
        marker.begin_round();
        marker.mark_possible_children(&|position| !search.is_tainted_at(position))?;
        Ok(Self { search, marker, roots, retention, now_round })
    }

    /// Returns true if no kept object has to be removed.
    pub(super) fn is_clean(&self) -> bool {
        let mut marked = self.marker.marked().iter().map(|marked| marked.position as usize);
        marked.all(|at| !self.search.is_tainted_at(at) && !self.search.hits.contains_key(&at))
    }

    /// Writes the pack and replaces all files with it.
    ///
    /// # Errors
    /// `Conflict` when another process committed a reference to a removed object, and errors of
    /// [`Collection::replace`]. After an error the store is unchanged.
    pub(super) fn apply(
        self,
        collection: &Collection<'_>,
        store: &Store,
        pattern: &Pattern,
    ) -> Result<Replaced> {
        let gone = self.tombstones()?;
        store.drop_distant_frames();
        let Self { search, mut marker, now_round, roots, retention } = self;
        let inventory = search.inventory;
        let files = replaceable_files(inventory);
        let tiers = inventory.files().iter().filter_map(|file| file.tier);
        let tier = tiers.max().unwrap_or(Tier::Compacted).max(Tier::Compacted);
        let cohorts = Cohorts::find(inventory, &roots, retention.kept, tier)?;
        let items = arrange(inventory, &marker, &files, now_round, tier, &cohorts);
        let replacement = FileReplacement { files, items, gone, tier };
        let mut arrived = |ids: &[ObjectId]| {
            check_arrivals(store, ids, pattern)?;
            marker.begin_round();
            let needed = marker.mark_arrivals(store, ids)?;
            if needed.iter().any(|(id, _)| search.is_tainted(id)) {
                return Err(concurrent_write());
            }
            let item = |(id, kind)| PackItem { id, kind, placement: 0, cohort: 0 };
            Ok(needed.into_iter().map(item).collect())
        };
        collection.replace(&replacement, &mut arrived)
    }

    /// Returns the tombstones of the pack: for all redacted objects, old and new, and for
    /// operations that are not kept.
    fn tombstones(&self) -> Result<Vec<(ObjectId, Kind, Tombstone)>> {
        let inventory = self.search.inventory;
        let files = replaceable_files(inventory);
        let earlier = tombstones(inventory, &self.marker, &self.roots, &self.retention, &files)?;
        let mut gone: HashMap<ObjectId, (Kind, Tombstone)> =
            earlier.into_iter().map(|(id, kind, why)| (id, (kind, why))).collect();
        for (id, kind) in self.search.tainted() {
            if kind != Kind::Operation {
                gone.insert(id, (kind, Tombstone::Redacted));
            }
        }
        for position in 0..inventory.positions() {
            let Some(entry) = inventory.entry(position) else { continue };
            let kept = inventory.find(&entry.id).is_some_and(|at| self.marker.is_marked(at));
            if entry.kind == Kind::Operation && !kept {
                gone.insert(entry.id, (entry.kind, Tombstone::Elided));
            }
        }
        let mut gone: Vec<_> = gone.into_iter().map(|(id, (kind, why))| (id, kind, why)).collect();
        gone.sort_unstable_by_key(|(id, ..)| *id);
        Ok(gone)
    }
}

/// Returns every file except blank ones in use, the only files in use at this point.
fn replaceable_files(inventory: &Inventory<'_>) -> Vec<usize> {
    let files = inventory.files().iter().enumerate();
    files.filter(|(_, file)| file.replaceable).map(|(number, _)| number).collect()
}

/// Fails if concurrently committed objects have matches of their own.
fn check_arrivals(store: &Store, ids: &[ObjectId], pattern: &Pattern) -> Result<()> {
    for id in ids {
        if let Some(object) = store.read(id)?
            && !hits_in(&object, pattern)?.is_empty()
        {
            return Err(concurrent_write());
        }
    }
    Ok(())
}

fn concurrent_write() -> Error {
    let message = "another process committed content to be removed: run the redaction again";
    Error::new(ErrorKind::Conflict, message)
}
