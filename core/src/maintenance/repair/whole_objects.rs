//! Finds whole objects of a damaged store: objects whose own content is complete.
//!
//! A repair queries one commit after another, which share most of their content, and an archive
//! decompresses a large block for any object. So every object with links is read once, front to
//! back, and missing objects are propagated backwards to the objects that reference them.

use std::collections::HashSet;

use super::reachability::ReachabilityWalk;
use crate::error::Result;
use crate::maintenance::mark::marker::Bits;
use crate::object::{Commit, Kind, ObjectId, Tag};
use crate::repo::links;
use crate::store::{Inventory, Tombstone};
use crate::tree::Link;

/// The maximum number of commits tried on one line for a ref.
const MAX_TRIED: usize = 10_000;

/// The set of whole objects at the moment of a [`ReachabilityWalk`].
#[derive(Debug)]
pub(in crate::maintenance) struct WholeObjects<'a> {
    inventory: &'a Inventory<'a>,
    /// The positions of objects that are not whole.
    broken: Bits,
}

impl<'a> WholeObjects<'a> {
    /// Reads every object with links. Takes eight bytes of memory per link.
    pub(in crate::maintenance) fn find(reach: &ReachabilityWalk<'a>) -> Self {
        let inventory = reach.inventory();
        let mut whole = Self { inventory, broken: Bits::new(inventory.positions()) };
        let (mut needs, mut open) = (Vec::new(), Vec::new());
        for position in 0..inventory.positions() {
            let Some(entry) = inventory.entry(position) else { continue };
            if inventory.find(&entry.id) != Some(position) {
                continue;
            }
            let linked = match entry.kind {
                _ if reach.is_unreadable(&entry.id) => None,
                Kind::Blob | Kind::Operation => Some(Vec::new()),
                kind => whole.content(kind, &entry.id, reach.now()).ok(),
            };
            let targets = linked.and_then(|links| whole.targets(&links));
            match (targets, u32::try_from(position)) {
                (Some(targets), Ok(position)) => {
                    needs.extend(targets.into_iter().map(|target| (target, position)));
                }
                _ => open.push(position),
            }
        }
        needs.sort_unstable();
        while let Some(position) = open.pop() {
            if !whole.broken.insert(position) {
                continue;
            }
            let from = needs.partition_point(|(target, _)| (*target as usize) < position);
            let needing = needs.get(from..).unwrap_or_default().iter();
            let needing = needing.take_while(|(target, _)| *target as usize == position);
            open.extend(needing.map(|(_, at)| *at as usize));
        }
        whole
    }

    /// Returns true if an object may become the value of a ref. Its ancestors may be lost.
    pub(in crate::maintenance) fn contains(&self, id: &ObjectId) -> bool {
        match self.inventory.find(id) {
            Some(position) => !self.broken.contains(position),
            None => self.inventory.tombstone(id) == Some(Tombstone::Redacted),
        }
    }

    /// Returns the links to the own content of an object: the context of a commit, nothing for an
    /// expired tag.
    fn content(&self, kind: Kind, id: &ObjectId, now: i64) -> Result<Vec<Link>> {
        let Some(object) = self.inventory.read_any(id)? else { return Ok(Vec::new()) };
        let mut links = links(&object)?;
        match kind {
            Kind::Commit => links.truncate(1),
            Kind::Tag if Tag::decode(&object.bytes)?.has_expired(now) => links.clear(),
            _ => {}
        }
        Ok(links)
    }

    /// Returns the positions of the targets; `None` if one is missing without being redacted.
    fn targets(&self, links: &[Link]) -> Option<Vec<u32>> {
        let is_redacted = |id| self.inventory.tombstone(id) == Some(Tombstone::Redacted);
        let links = links.iter().map(|link| &link.id);
        let links = links.map(|id| (id, self.inventory.find(id)));
        let wanted = links.filter(|(id, found)| found.is_some() || !is_redacted(id));
        wanted.map(|(_, found)| found.and_then(|at| u32::try_from(at).ok())).collect()
    }
}

/// Returns the first whole commit on the first-parent line of `start`, or `start` itself if it is a
/// whole object of another kind.
pub(super) fn newest_whole(
    reach: &ReachabilityWalk<'_>,
    whole: &WholeObjects<'_>,
    start: ObjectId,
) -> Option<ObjectId> {
    let mut tried = HashSet::new();
    let mut at = start;
    while tried.len() < MAX_TRIED && tried.insert(at) {
        if whole.contains(&at) {
            return Some(at);
        }
        let object = reach.inventory().read_any(&at).ok()??;
        let commit = Commit::decode(&object.bytes).ok().filter(|_| object.kind == Kind::Commit)?;
        at = *reach.grafts().parents(&commit).first()?;
    }
    None
}
