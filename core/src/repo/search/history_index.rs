//! Indexes the changes of turns. Indexes are built with packs and spare a search the walk through
//! trees.
//!
//! The changes between a pair of trees come from an index that has the pair, and from a walk
//! otherwise: for turns in the journal, for packs without an index, and for pairs that an index
//! lacks. An index is derived data and may be wrong if a process tampered with it, so code that
//! removes content never uses it. `fsck` compares it with the objects.

use std::collections::HashSet;

use rayon::prelude::*;

use super::changes::Lineage;
use super::index_format::{IndexTable, IndexWriter, memory_bytes};
use super::turn_changes::{TurnChanges, TurnComparison};
use crate::error::Result;
use crate::object::{Commit, Kind, ObjectId, ObjectSource};
use crate::repo::{Grafts, LogEntry, Repository};
use crate::store::{Collection, PackHandle, Store};

/// Commits that a pack must have to get an index. A walk of fewer is as fast as reading the index.
const LEAST_COMMITS: usize = 32;

/// Turns that one thread compares in a row: the first of them costs more.
const TURNS_PER_TASK: usize = 64;

/// Tasks per thread before their results are written.
const TASKS_PER_THREAD: usize = 2;

/// The approximate maximum memory for the results of one task, in bytes.
const MAX_TASK_MEMORY: usize = 8 << 20;

/// The history indexes of a store.
#[derive(Debug)]
pub(super) struct HistoryIndex {
    /// The tables of the packs, newest first.
    tables: Vec<IndexTable>,
}

impl HistoryIndex {
    /// Reads the headers of all indexes, and skips incomplete ones.
    pub(super) fn open(store: &Store) -> Self {
        let packs = store.packs().into_iter().rev().filter(is_worth_it);
        let tables = packs.filter_map(|pack| {
            let file = store.derived(&pack)?;
            IndexTable::open(pack, file)
        });
        Self { tables: tables.collect() }
    }

    /// Returns the changes between two trees if an index has them; `old` may be `None`.
    pub(super) fn find(&self, old: Option<&ObjectId>, new: &ObjectId) -> Option<TurnChanges> {
        self.tables.iter().find_map(|table| table.find(old, new))
    }

    /// Returns up to `count` entries next to this one in its index, mostly of the turns before.
    pub(super) fn neighbors(
        &self,
        old: Option<&ObjectId>,
        new: &ObjectId,
        count: usize,
    ) -> Vec<TurnChanges> {
        let found = self.tables.iter().find_map(|table| table.neighbors(old, new, count));
        found.unwrap_or_default()
    }
}

/// Builds the index of every pack, as a collection leaves them. The index is optional: a failure to
/// build it does not fail the collection.
pub(crate) fn complete_history_index(repo: &Repository, collection: &Collection<'_>) {
    let store = repo.store();
    let is_here = |tree: &ObjectId| store.contains(tree).unwrap_or(false);
    // Entries of turns collected since then name deleted objects.
    let is_current = |pack: &PackHandle, file| {
        let table = IndexTable::open(pack.clone(), file);
        table.is_some_and(|table| {
            table.pairs().all(|(old, new)| is_here(&new) && old.as_ref().is_none_or(is_here))
        })
    };
    let make = |pack: &PackHandle| index(repo, pack, MAX_TASK_MEMORY);
    let _ = collection.complete_derived(&is_worth_it, &is_current, &make);
}

fn is_worth_it(pack: &PackHandle) -> bool {
    pack.count(Kind::Commit) >= LEAST_COMMITS
}

/// Returns the parts of the index of a pack. All processors compare turns; results are written in
/// the order of the pack. A task stops once its results take more than `most` bytes, and its
/// remaining turns are compared one at a time.
fn index(repo: &Repository, pack: &PackHandle, most: usize) -> Vec<Vec<u8>> {
    let Ok(grafts) = repo.grafts() else { return Vec::new() };
    let (mut writer, mut indexed) = (IndexWriter::new(pack), HashSet::new());
    let mut tell = |(old, new, changes): ComparedTurn| {
        if indexed.insert((old, new)) {
            writer.add(old.as_ref(), &new, &changes);
        }
    };
    let turns: Vec<ObjectId> = pack.of_kind(Kind::Commit).collect();
    let tasks: Vec<&[ObjectId]> = turns.chunks(TURNS_PER_TASK).collect();
    for tasks in tasks.chunks(TASKS_PER_THREAD * rayon::current_num_threads()) {
        let compare = |turns: &&[ObjectId]| TurnComparer::new(repo, &grafts).compare(turns, most);
        let compared: Vec<_> = tasks.par_iter().map(compare).collect();
        for (turns, (changes, compared)) in tasks.iter().zip(compared) {
            changes.into_iter().for_each(&mut tell);
            let mut teller = TurnComparer::new(repo, &grafts);
            for turn in turns.iter().skip(compared) {
                teller.turn(turn).into_iter().for_each(&mut tell);
            }
        }
    }
    writer.finish()
}

/// The context before a turn, the context of the turn, and the changes.
type ComparedTurn = (Option<ObjectId>, ObjectId, TurnChanges);

/// Compares turns with their parents. Neighbors share most of the nodes that are read.
struct TurnComparer<'r> {
    repo: &'r Repository,
    grafts: &'r Grafts,
    lineage: Lineage<'r>,
    comparison: TurnComparison<'r>,
}

impl<'r> TurnComparer<'r> {
    fn new(repo: &'r Repository, grafts: &'r Grafts) -> Self {
        let comparison = TurnComparison::new(repo.store());
        Self { repo, grafts, lineage: Lineage::new(repo), comparison }
    }

    /// Compares turns one after another until the results take more than `most` bytes of memory.
    /// Returns the number of compared turns.
    fn compare(mut self, turns: &[ObjectId], most: usize) -> (Vec<ComparedTurn>, usize) {
        let (mut all, mut bytes) = (Vec::new(), 0);
        for (compared, turn) in turns.iter().enumerate() {
            if bytes > most {
                return (all, compared);
            }
            let found = self.turn(turn);
            bytes += found.iter().map(|(.., changes)| memory_bytes(changes)).sum::<usize>();
            all.extend(found);
        }
        (all, turns.len())
    }

    /// Returns the changes of a turn, or nothing if an object cannot be read: a search then walks
    /// the trees and reports the damage.
    fn turn(&mut self, id: &ObjectId) -> Vec<ComparedTurn> {
        let mut found = Vec::new();
        let _ = self.repo.commit(id).and_then(|commit| self.add(*id, commit, &mut found));
        found
    }

    fn add(&mut self, id: ObjectId, commit: Commit, found: &mut Vec<ComparedTurn>) -> Result<()> {
        if self.lineage.is_expired(&commit) {
            return Ok(());
        }
        let (parents, tree) = (self.grafts.parents(&commit), commit.tree);
        let before = self.lineage.before(&LogEntry { id, commit, parents })?.kept;
        let mut trees: Vec<_> = before.iter().map(|turn| Some(turn.tree)).collect();
        if trees.is_empty() {
            trees.push(None);
        }
        for old in trees.into_iter().filter(|old| *old != Some(tree)) {
            found.push((old, tree, self.comparison.between(old.as_ref(), &tree)?));
        }
        Ok(())
    }
}

/// Returns the paths in the store of indexes that differ from the objects. Costs a walk through
/// every indexed turn; unreadable objects are skipped.
pub(crate) fn wrong_history_indexes(store: &Store) -> Vec<String> {
    let mut wrong = Vec::new();
    for pack in store.packs().into_iter().filter(is_worth_it) {
        let name = pack.derived_name();
        let Some(file) = store.derived(&pack) else { continue };
        let is_right = IndexTable::open(pack, file).is_some_and(|table| {
            let mut comparison = TurnComparison::new(store);
            table.pairs().all(|(old, new)| {
                let indexed = table.find(old.as_ref(), &new);
                indexed.is_some_and(|indexed| {
                    comparison.confirms(&indexed, old.as_ref(), &new).unwrap_or(true)
                })
            })
        });
        if !is_right {
            wrong.push(name);
        }
    }
    wrong
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::*;
    use crate::context::Builder;
    use crate::object::Time;
    use crate::repo::{BranchName, Signature, SnapshotDraft};
    use crate::store::{FileReplacement, NewStore, OpenOptions, PackItem, RealIo, Tier};

    #[test]
    fn an_index_is_the_same_however_many_threads_make_it_and_however_much_they_find() {
        let dir = tempfile::tempdir().unwrap();
        let (io, new) = (Arc::new(RealIo), NewStore { id: [1; 16] });
        let options = OpenOptions::new([2; 16]);
        let repo = Repository::init(io, &dir.path().join("store"), &new, options).unwrap();
        let stamp = Signature { time: Time::default(), actor: "agent".into() };
        let branch = BranchName::main("session").unwrap();
        let mut change = repo.begin();
        let mut builder = Builder::new();
        let turns = 3 * TURNS_PER_TASK + 5;
        for turn in 0..turns {
            let (key, note) = (format!("note {}", turn % 7), format!("turn {turn}"));
            builder.set_entry(&mut change, "scratchpad", &key, Some(note.into())).unwrap();
            let tree = builder.write(&mut change).unwrap();
            change.snapshot(&branch, SnapshotDraft::new(tree, "", &stamp)).unwrap();
        }
        change.commit(&stamp, "snapshots").unwrap();
        let collection = repo.store().collect().unwrap();
        let inventory = collection.inventory();
        let entries = (0..inventory.positions()).map(|at| inventory.entry(at).unwrap());
        let item = |(id, kind)| PackItem { id, kind, placement: 0, cohort: 0 };
        let mut items: Vec<_> = entries.map(|entry| item((entry.id, entry.kind))).collect();
        items.sort_by_key(|item| item.kind);
        let (files, tier) = ((0..inventory.files().len()).collect(), Tier::Compacted);
        let replacement = FileReplacement { files, items, gone: Vec::new(), tier };
        collection.replace(&replacement, &mut |_| Ok(Vec::new())).unwrap();
        complete_history_index(&repo, &collection);
        let pack = repo.store().packs().pop().unwrap();

        let made = [(1, usize::MAX), (4, usize::MAX), (4, 0), (2, 500)].map(|(count, most)| {
            let threads = rayon::ThreadPoolBuilder::new().num_threads(count).build().unwrap();
            threads.install(|| index(&repo, &pack, most))
        });
        assert!(made.iter().all(|parts| *parts == made[0]));
        let file = repo.store().derived(&pack).unwrap();
        let parts: Vec<_> = (0..file.len()).filter_map(|number| file.part(number)).collect();
        assert_eq!(parts, made[0]);
        let table = IndexTable::open(pack, file).unwrap();
        assert_eq!(table.pairs().count(), turns);
    }
}
