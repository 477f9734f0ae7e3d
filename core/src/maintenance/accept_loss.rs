//! Giving up: what is written down as lost, and what is kept because of it.
//!
//! The links of a lost object are not known. So of all objects that became unreachable, the tops
//! are written down as well: what belonged to the lost object is among them or below them, beside
//! what was garbage just then. A collection keeps it, until nothing leads to a lost object any more
//! and the next repair lets go of it. What only operations lead to is written down too, because they
//! grow old: what is behind a hole must not depend on them.

use std::collections::{BTreeMap, HashSet};
use std::sync::Arc;

use super::reach::Reach;
use crate::object::{Kind, ObjectId};
use crate::repo::links;
use crate::store::{Examination, KnownLosses};

/// The holes of a store, now that everything that is lost is given up, with `found`: what was lost
/// before refs went back to what is whole, and operations behind which the log begins now.
///
/// An object that lies in a file, which somebody writes to, is not given up.
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
    // What is behind a hole is found once that is known to be one.
    let lost = loop {
        let reach = Reach::find_around(examination, now, Arc::clone(&holes));
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
    let reach = Reach::from_refs(examination, now, Arc::clone(holes));
    let mut tops = BTreeMap::new();
    for position in 0..inventory.positions() {
        let Some(entry) = inventory.entry(position) else { continue };
        // The log begins behind a lost operation: what was before it is no history any more.
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
