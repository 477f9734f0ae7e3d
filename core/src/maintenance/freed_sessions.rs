//! Whether a collection frees turns of a session that is gone, and with them its names and prompts.

use std::collections::HashSet;

use super::mark::Marker;
use crate::object::{Commit, Kind, ObjectSource};
use crate::store::Inventory;

/// Returns whether a commit in the files `chosen` goes whose session has no branch any more.
///
/// Reads the commits that go until one of them is such a turn. One that cannot be read counts as one: damage
/// in garbage stops no collection.
pub(super) fn frees_session(
    inventory: &Inventory<'_>,
    marker: &Marker<'_>,
    chosen: &[usize],
) -> bool {
    let heads = inventory.refs().values.keys().filter_map(|name| name.strip_prefix("refs/heads/"));
    let present: HashSet<&str> = heads.filter_map(|rest| rest.split('/').next()).collect();
    for file in chosen.iter().filter_map(|number| inventory.files().get(*number)) {
        for position in file.first..file.first + file.objects {
            let entry = inventory.entry(position).filter(|_| !marker.is_met(position));
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
