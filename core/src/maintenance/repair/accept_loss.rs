//! Records lost objects as known losses, and keeps objects that may have belonged to them.
//!
//! The links of a lost object are unknown. So the tops of all unreachable objects are recorded as
//! well: the descendants of the lost object are among them or below them, together with objects
//! that were garbage already. A collection keeps them as long as a lost object is referenced; the
//! next repair after that drops them. Objects that only operations reference are recorded too:
//! operations expire, and the objects behind a hole must not depend on them.

use std::collections::{BTreeMap, HashSet};
use std::sync::Arc;

use super::reachability::ReachabilityWalk;
use crate::object::{Kind, ObjectId};
use crate::repo::links;
use crate::store::{Examination, KnownLosses};

/// Returns the known losses of a store once all lost objects are accepted. `found` holds objects
/// that were lost before refs moved back to whole values, and lost operations, after which the log
/// begins now.
///
/// An object in a file that a process writes to is not accepted as lost.
pub(super) fn accept_losses(
    examination: &Examination<'_>,
    found: BTreeMap<ObjectId, Kind>,
    now: i64,
) -> KnownLosses {
    let inventory = &examination.inventory;
    let known = KnownLosses::load(inventory, inventory.refs()).unwrap_or_default();
    let is_missing = |id: &ObjectId| inventory.find(id).is_none();
    let mut holes = Arc::new(known.clone());
    Arc::make_mut(&mut holes).lost.extend(found);
    // Objects behind a hole are found only after the hole is known, so this repeats until nothing
    // is new.
    let lost = loop {
        let reach = ReachabilityWalk::find_with_losses(examination, now, Arc::clone(&holes));
        let lost = reach.lost.into_iter().filter(|(id, _)| is_missing(id));
        let lost: BTreeMap<ObjectId, Kind> = lost.collect();
        if lost.keys().all(|id| holes.is_lost(id)) {
            break lost;
        }
        Arc::make_mut(&mut holes).lost.extend(lost);
    };
    let leads_on = |kind: &Kind| *kind != Kind::Blob;
    if !lost.values().any(leads_on) {
        return KnownLosses { lost, ..KnownLosses::default() };
    }
    let mut kept = known.kept;
    kept.retain(|id, _| !is_missing(id));
    let is_new = |(id, kind): (&ObjectId, &Kind)| leads_on(kind) && !known.lost.contains_key(id);
    if lost.iter().any(is_new) {
        kept.extend(unreached_tops(examination, &holes, now));
    }
    KnownLosses { lost, kept, ..KnownLosses::default() }
}

/// Returns the tops of everything unreachable: no other unreachable object links to them.
fn unreached_tops(
    examination: &Examination<'_>,
    holes: &Arc<KnownLosses>,
    now: i64,
) -> BTreeMap<ObjectId, Kind> {
    let inventory = &examination.inventory;
    let reach = ReachabilityWalk::from_refs(examination, now, Arc::clone(holes));
    let mut tops = BTreeMap::new();
    for position in 0..inventory.positions() {
        let Some(entry) = inventory.entry(position) else { continue };
        // The log begins after a lost operation, so operations before it are not history.
        let counts = entry.kind != Kind::Operation && inventory.find(&entry.id) == Some(position);
        if counts && !reach.is_reached(position, &entry.id) {
            tops.insert(entry.id, entry.kind);
        }
    }
    let mut below = HashSet::new();
    for id in tops.keys() {
        if let Ok(Some(object)) = inventory.read_any(id) {
            below.extend(links(&object).unwrap_or_default().into_iter().map(|link| link.id));
        }
    }
    tops.retain(|id, _| !below.contains(id));
    tops
}
