//! Decides whether a collection frees turns of a deleted session, and with them its names and
//! prompts.

use std::collections::HashSet;

use crate::maintenance::mark::marker::Marker;
use crate::object::{Commit, Kind, ObjectSource};
use crate::store::Inventory;

/// Returns true if the files `chosen` hold an unmarked commit of a session without branches.
///
/// Reads unmarked commits until one is such a turn. An unreadable commit counts as one: damaged
/// garbage must not stop a collection.
pub(super) fn may_free_session(
    inventory: &Inventory<'_>,
    marker: &Marker<'_>,
    chosen: &[usize],
) -> bool {
    let heads = inventory.refs().values.keys().filter_map(|name| name.strip_prefix("refs/heads/"));
    let present: HashSet<&str> = heads.filter_map(|rest| rest.split('/').next()).collect();
    for file in chosen.iter().filter_map(|number| inventory.files().get(*number)) {
        for position in file.first..file.first + file.objects {
            let entry = inventory.entry(position).filter(|_| !marker.is_marked(position));
            let Some(entry) = entry.filter(|entry| entry.kind == Kind::Commit) else { continue };
            let bytes = inventory.read_as(Kind::Commit, &entry.id);
            let commit = bytes.and_then(|bytes| Commit::decode(&bytes));
            if !commit.is_ok_and(|commit| present.contains(&*commit.session)) {
                return true;
            }
        }
    }
    false
}
