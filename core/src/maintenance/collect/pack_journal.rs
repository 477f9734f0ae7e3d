//! Packs the idle journal without marking the store: every object of the replaced files moves, and
//! nothing is freed.
//!
//! A mark of everything that stays costs as much as the store has content, so steps that mark make
//! the life of a store, or an adoption in batches, quadratic. Here only the replaced files are
//! walked, for the order of their objects; objects of other files count as marked. Garbage moves
//! with the rest, and the next collection that marks frees it.

use std::cmp::Reverse;
use std::collections::{HashMap, HashSet};
use std::sync::Arc;

use super::collection::{COMMITS_PER_ROUND, Collected};
use super::file_choice::{FileState, Limits, choose_files};
use crate::error::Result;
use crate::maintenance::collection_plan::{ObjectsSize, Purpose};
use crate::maintenance::keep::store_bound::size_bound;
use crate::maintenance::mark::cohorts::Cohorts;
use crate::maintenance::mark::marker::{Bits, Marker};
use crate::maintenance::mark::pack_order::arrange;
use crate::object::{Commit, Kind, ObjectId, ObjectSource, RefValue};
use crate::repo::{Repository, complete_history_index};
use crate::store::{
    CollectorLock, FileReplacement, Inventory, InventoryEntry, InventoryFile, KnownLosses,
    Tombstone,
};

/// The files that a pack of the journal may replace.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Packed {
    /// The idle journal.
    Journal,
    /// Packs of a crowded size class, too.
    JournalAndPacks,
}

/// Moves the objects of these files into one pack. Returns an empty outcome if there are none.
///
/// # Errors
/// `Corrupt` when an object of a replaced file does not verify, and errors of writing. After an
/// error the store is unchanged.
pub(super) fn pack_journal(
    repo: &Repository,
    lock: &CollectorLock,
    packed: Packed,
) -> Result<Collected> {
    let collection = repo.store().collect_locked(lock)?;
    let inventory = collection.inventory();
    let state = |file: &InventoryFile| {
        let may_go = packed == Packed::JournalAndPacks || file.tier.is_none();
        FileState { replaceable: file.replaceable && may_go, ..all_live(file) }
    };
    let states: Vec<FileState> = inventory.files().iter().map(state).collect();
    let limits = Limits {
        is_budgeted: false,
        bound_bytes: size_bound(inventory, inventory.refs())?,
        room_bytes: Some(inventory.room_for_pack()?),
    };
    let (files, tier, _) = choose_files(&states, Purpose::Step, limits);
    if files.is_empty() {
        return Ok(Collected::default());
    }
    let (marker, now_round) = order(inventory, &files)?;
    let items = arrange(inventory, &marker, &files, now_round, tier, &Cohorts::undivided());
    drop(marker);
    let gone = tombstones(inventory, &files);
    let replacement = FileReplacement { files, items, gone, tier };
    // A concurrent commit loses nothing that it refers to.
    let replaced = collection.replace(&replacement, &mut |_| Ok(Vec::new()))?;
    complete_history_index(repo, &collection);
    Ok(Collected {
        steps: 1,
        written_bytes: replaced.written_bytes,
        replaced_bytes: replaced.freed_bytes,
        ..Collected::default()
    })
}

fn all_live(file: &InventoryFile) -> FileState {
    FileState {
        tier: file.tier,
        bytes: file.bytes,
        replaceable: file.replaceable,
        outdated: false,
        live: ObjectsSize { objects: file.objects as u64, bytes: file.bytes },
        garbage: ObjectsSize::default(),
    }
}

/// Marks every object of these files in the order of a pack: the newest contexts first, then the
/// contexts of older turns, then objects that no commit in these files reaches. Also returns the
/// round of the newest contexts.
fn order<'i>(inventory: &'i Inventory<'i>, files: &[usize]) -> Result<(Marker<'i>, u32)> {
    let losses = KnownLosses::load(inventory, inventory.refs())?;
    let mut marker = Marker::new(inventory, Arc::new(losses));
    marker.skip_missing();
    let mut others = Bits::new(inventory.positions());
    for (_, file) in inventory.files().iter().enumerate().filter(|it| !files.contains(&it.0)) {
        for position in file.first..file.first + file.objects {
            others.insert(position);
        }
    }
    marker.assume_marked(&others);
    let commits = commits_in(inventory, files)?;
    let is_tip = newest_of_branches(inventory);
    let tips: Vec<ObjectId> =
        commits.iter().filter(|it| is_tip.contains(&it.id)).map(|it| it.tree).collect();
    let now_round = marker.begin_round();
    marker.mark_contexts(&tips)?;
    marker.mark(commits.iter().map(|commit| commit.id))?;
    for commits in commits.chunks(COMMITS_PER_ROUND) {
        marker.begin_round();
        let trees: Vec<ObjectId> = commits.iter().map(|commit| commit.tree).collect();
        marker.mark_contexts(&trees)?;
    }
    marker.begin_round();
    for number in files {
        let rest = entries_of(inventory, *number).map(|entry| entry.id);
        marker.mark(rest)?;
    }
    Ok((marker, now_round))
}

/// A commit in a replaced file.
struct FoundCommit {
    id: ObjectId,
    tree: ObjectId,
    session: String,
    time: i64,
    turn: u64,
}

/// Returns the commits in these files: sessions by their newest turn, and the turns of each session
/// newest first.
fn commits_in(inventory: &Inventory<'_>, files: &[usize]) -> Result<Vec<FoundCommit>> {
    let entries = files.iter().flat_map(|file| entries_of(inventory, *file));
    let read = |entry: InventoryEntry| {
        let bytes = inventory.read_as(Kind::Commit, &entry.id)?;
        let commit = Commit::decode(&bytes).map_err(|error| error.at(entry.id))?;
        let Commit { tree, session, time, turn, .. } = commit;
        Ok(FoundCommit { id: entry.id, tree, session, time: time.micros, turn })
    };
    let found = entries.filter(|entry| entry.kind == Kind::Commit).map(read);
    let mut commits = found.collect::<Result<Vec<_>>>()?;
    let mut newest: HashMap<String, i64> = HashMap::new();
    for commit in &commits {
        let time = newest.entry(commit.session.clone()).or_insert(commit.time);
        *time = commit.time.max(*time);
    }
    commits.sort_by_cached_key(|it| {
        Reverse((newest.get(&it.session).copied(), it.session.clone(), it.turn, it.id))
    });
    Ok(commits)
}

fn newest_of_branches(inventory: &Inventory<'_>) -> HashSet<ObjectId> {
    let values =
        inventory.refs().values.starting_with("refs/heads/").map(|(_, value)| value.clone());
    let id = |value| match value {
        RefValue::Object(id) => Some(id),
        RefValue::Symbolic(_) => None,
    };
    values.filter_map(id).collect()
}

/// The objects of a file that no other file has in its place.
fn entries_of<'i>(
    inventory: &'i Inventory<'_>,
    number: usize,
) -> impl Iterator<Item = InventoryEntry> + 'i {
    let range = inventory.files().get(number).map_or(0..0, |it| it.first..it.first + it.objects);
    range.filter_map(|at| inventory.entry(at)).filter(move |entry| entry.file == number)
}

/// Returns the tombstones of these files, unless a file that stays has them.
fn tombstones(inventory: &Inventory<'_>, files: &[usize]) -> Vec<(ObjectId, Kind, Tombstone)> {
    let others = (0..inventory.files().len()).filter(|file| !files.contains(file));
    let answered: HashSet<ObjectId> =
        others.flat_map(|file| inventory.tombstones_in(file)).map(|(id, ..)| id).collect();
    let found = files.iter().flat_map(|file| inventory.tombstones_in(*file));
    let is_needed = |(id, ..): &(ObjectId, Kind, Tombstone)| {
        !answered.contains(id) && inventory.find(id).is_none()
    };
    let mut gone: Vec<_> = found.filter(is_needed).collect();
    // `Redacted` is first in the stable sort and wins over other reasons.
    gone.sort_by_key(|(id, _, why)| (*id, *why != Tombstone::Redacted));
    gone.dedup_by_key(|(id, ..)| *id);
    gone
}
