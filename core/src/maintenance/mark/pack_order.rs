//! Defines the order of objects in a pack.
//!
//! ```text
//! commits | operations | tags | nodes now, then | values now | lists now | payloads of before
//! ```
//!
//! In an archive, the objects of a kind are sorted by cohort first.
//!
//! Objects of the newest contexts are next to each other in the order of the contexts, so that
//! restoring a context reads one stretch of the file front to back. Older versions follow, grouped
//! by key, newest first.

use std::collections::HashMap;

use super::cohorts::Cohorts;
use super::last_mark::MarkedObject;
use super::marker::Marker;
use crate::object::Kind;
use crate::store::{Inventory, PackItem, Tier};

/// The part of a pack that an object belongs to, in the order of the pack.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
enum Lane {
    Commits,
    Operations,
    Tags,
    NodesNow,
    NodesBefore,
    ValuesNow,
    ListsNow,
    Before,
}

impl Lane {
    /// Returns the first lane with objects of the same kind.
    fn of_kind(self) -> Self {
        match self {
            Self::NodesNow | Self::NodesBefore => Self::NodesNow,
            Self::ValuesNow | Self::ListsNow | Self::Before => Self::ValuesNow,
            other => other,
        }
    }
}

/// Returns the pack items of the marked objects that are in `files` of the inventory.
///
/// The rounds of the marker up to `now` are those of the newest contexts.
pub(in crate::maintenance) fn arrange(
    inventory: &Inventory<'_>,
    marker: &Marker<'_>,
    files: &[usize],
    now: u32,
    tier: Tier,
    cohorts: &Cohorts,
) -> Vec<PackItem> {
    let mut first_of_group: HashMap<u64, u32> = HashMap::new();
    // Cohort, lane, order of the first object of its group if it has versions, own order.
    let mut chosen: Vec<(u32, Lane, u32, u32)> = Vec::new();
    for (order, marked) in (0..).zip(marker.marked()) {
        let first = *first_of_group.entry(marked.group).or_insert(order);
        let placement = placement(marked, now, first == order);
        let file = inventory.file_of(marked.position as usize);
        if file.is_some_and(|file| files.contains(&file)) {
            let cohort = cohorts.of(marked.position);
            chosen.push((cohort, placement, if marked.versioned { first } else { order }, order));
        }
    }
    chosen.sort_unstable_by_key(|(cohort, placement, first, order)| {
        (placement.of_kind(), *cohort, *placement, *first, *order)
    });
    let item = |(cohort, placement, _, order): (u32, Lane, u32, u32)| {
        let marked = marker.marked().get(order as usize)?;
        let entry = inventory.entry(marked.position as usize)?;
        // In an archive, current and older values share the large blocks.
        let placement = if tier == Tier::Archive { 0 } else { placement as u32 };
        Some(PackItem { id: entry.id, kind: entry.kind, placement, cohort })
    };
    chosen.into_iter().filter_map(item).collect()
}

fn placement(marked: &MarkedObject, now: u32, newest: bool) -> Lane {
    match marked.kind {
        Kind::Commit => Lane::Commits,
        Kind::Operation => Lane::Operations,
        Kind::Tag => Lane::Tags,
        Kind::Node if marked.round <= now => Lane::NodesNow,
        Kind::Node => Lane::NodesBefore,
        Kind::Blob if marked.round > now => Lane::Before,
        Kind::Blob if !marked.versioned => Lane::ListsNow,
        // Branches may have different values for a key.
        Kind::Blob if newest => Lane::ValuesNow,
        Kind::Blob => Lane::Before,
    }
}

#[cfg(test)]
mod tests {
    use std::collections::HashMap;
    use std::sync::Arc;

    use super::*;
    use crate::context::Builder;
    use crate::maintenance::{Purpose, collect};
    use crate::object::{ObjectId, Time};
    use crate::repo::{BranchName, Repository, Signature, SnapshotDraft};
    use crate::store::{NewStore, OpenOptions, RealIo};

    #[test]
    fn the_session_with_the_newest_turn_comes_first_and_its_newest_turn() {
        let dir = tempfile::tempdir().unwrap();
        let (io, new) = (Arc::new(RealIo), NewStore { id: [1; 16] });
        let options = OpenOptions::new([2; 16]);
        let repo = Repository::init(io, &dir.path().join("store"), &new, options).unwrap();
        let stamp =
            |micros| Signature { time: Time { micros, offset_minutes: 0 }, actor: "agent".into() };
        // The order differs from the orders of names, ids and first turns.
        let turns =
            [("b", 1), ("f", 2), ("d", 3), ("a", 4), ("e", 5), ("c", 6), ("b", 7), ("d", 8)];
        let mut commits: HashMap<(&str, i64), (ObjectId, ObjectId)> = HashMap::new();
        for (session, micros) in turns {
            let (stamp, branch) = (stamp(micros), BranchName::main(session).unwrap());
            let (mut change, mut builder) = (repo.begin(), Builder::new());
            let note = format!("{session} at {micros}");
            builder.set_entry(&mut change, "scratchpad", "note", Some(note.into())).unwrap();
            let tree = builder.write(&mut change).unwrap();
            change.snapshot(&branch, SnapshotDraft::new(tree, "", &stamp)).unwrap();
            change.commit(&stamp, "snapshot").unwrap();
            commits.insert((session, micros), (repo.tip(&branch).unwrap(), tree));
        }
        let purpose = Purpose::Repack(Tier::Compacted);
        collect(&repo, purpose, &stamp(9), &mut |_| ()).unwrap();
        let packs = repo.store().packs();
        let in_pack = |kind| packs.iter().flat_map(move |pack| pack.of_kind(kind));

        let expected =
            [("d", 8), ("d", 3), ("b", 7), ("b", 1), ("c", 6), ("e", 5), ("a", 4), ("f", 2)];
        let ids: Vec<ObjectId> = in_pack(Kind::Commit).collect();
        assert_eq!(ids, expected.map(|turn| commits[&turn].0));

        let newest = [("d", 8), ("b", 7), ("c", 6), ("e", 5), ("a", 4), ("f", 2)];
        let before = [("d", 3), ("b", 1)];
        let trees: Vec<ObjectId> = commits.values().map(|(_, tree)| *tree).collect();
        let ids: Vec<ObjectId> = in_pack(Kind::Node).filter(|id| trees.contains(id)).collect();
        let expected: Vec<_> = newest.iter().chain(&before).map(|it| commits[it].1).collect();
        assert_eq!(ids, expected);
    }
}
