//! History indexes: what turns changed, made when packs are made, and read without walking trees.
//!
//! A question about a pair of trees is answered by an index that tells of it, and by a walk otherwise: of
//! turns in the journal, of packs without an index, of what an index does not tell. An index is
//! derived, so it is never asked where something is removed: it may be wrong when somebody made it so,
//! and `fsck` compares it with the objects.

use std::collections::HashSet;

use super::changes::Lineage;
use super::index_format::{IndexTable, IndexWriter};
use super::turn_changes::{TurnChanges, TurnComparison};
use crate::error::Result;
use crate::object::{Commit, Kind, ObjectId, ObjectSource};
use crate::repo::{LogEntry, Repository};
use crate::store::{Collection, PackHandle, Store};

/// Commits that a pack must have for an index to be worth a file: fewer are walked as fast as it is read.
const LEAST_COMMITS: usize = 32;

/// What is known of the changes of turns, to ask.
#[derive(Debug)]
pub(super) struct HistoryIndex {
    /// Of the newest packs first.
    tables: Vec<IndexTable>,
}

impl HistoryIndex {
    /// Reads the heads of all indexes; those that are not whole are left out.
    pub(super) fn open(store: &Store) -> Self {
        let packs = store.packs().into_iter().rev().filter(is_worth_it);
        let tables = packs.filter_map(|pack| {
            let file = store.derived(&pack)?;
            IndexTable::open(pack, file)
        });
        Self { tables: tables.collect() }
    }

    /// What changed between two trees, the first of which may be none, if that is told anywhere.
    pub(super) fn find(&self, old: Option<&ObjectId>, new: &ObjectId) -> Option<TurnChanges> {
        self.tables.iter().find_map(|table| table.find(old, new))
    }

    /// What is told beside that, up to `count` times: mostly of the turns before.
    pub(super) fn behind(
        &self,
        old: Option<&ObjectId>,
        new: &ObjectId,
        count: usize,
    ) -> Vec<TurnChanges> {
        let found = self.tables.iter().find_map(|table| table.behind(old, new, count));
        found.unwrap_or_default()
    }
}

/// Gives every pack its index, as a collection leaves them. Nothing needs one, so what keeps it from being
/// made does not fail the collection.
pub(crate) fn complete_history_index(repo: &Repository, collection: &Collection<'_>) {
    let store = repo.store();
    let is_here = |tree: &ObjectId| store.contains(tree).unwrap_or(false);
    // What it tells of a turn that has gone since names what nobody keeps.
    let is_current = |pack: &PackHandle, file| {
        let table = IndexTable::open(pack.clone(), file);
        table.is_some_and(|table| {
            table.pairs().all(|(old, new)| is_here(&new) && old.as_ref().is_none_or(is_here))
        })
    };
    let _ = collection.complete_derived(&is_worth_it, &is_current, &|pack| index(repo, pack));
}

fn is_worth_it(pack: &PackHandle) -> bool {
    pack.of_kind(Kind::Commit).nth(LEAST_COMMITS - 1).is_some()
}

/// The parts of the index of a pack.
fn index(repo: &Repository, pack: &PackHandle) -> Vec<Vec<u8>> {
    let Ok(grafts) = repo.grafts() else { return Vec::new() };
    let mut lineage = Lineage::new(repo);
    let mut comparison = TurnComparison::new(repo.store());
    let mut writer = IndexWriter::new(pack);
    let mut told = HashSet::new();
    let mut add = |id: ObjectId, commit: Commit| -> Result<()> {
        if lineage.is_gone(&commit) {
            return Ok(());
        }
        let (parents, tree) = (grafts.parents(&commit), commit.tree);
        let before = lineage.before(&LogEntry { id, commit, parents })?.kept;
        let mut trees: Vec<_> = before.iter().map(|turn| Some(turn.tree)).collect();
        if trees.is_empty() {
            trees.push(None);
        }
        for old in trees.into_iter().filter(|old| *old != Some(tree)) {
            if told.insert((old, tree)) {
                writer.add(old.as_ref(), &tree, &comparison.between(old.as_ref(), &tree)?);
            }
        }
        Ok(())
    };
    for id in pack.of_kind(Kind::Commit) {
        // What cannot be read is not told: whoever asks walks there, and meets the damage.
        let _ = repo.commit(&id).and_then(|commit| add(id, commit));
    }
    writer.finish()
}

/// The indexes that tell something else than the objects do, by their paths in the store.
/// Costs a walk through every turn that is told; what cannot be read is passed over.
pub(crate) fn wrong_history_indexes(store: &Store) -> Vec<String> {
    let mut wrong = Vec::new();
    for pack in store.packs().into_iter().filter(is_worth_it) {
        let name = pack.derived_name();
        let Some(file) = store.derived(&pack) else { continue };
        let is_right = IndexTable::open(pack, file).is_some_and(|table| {
            let mut comparison = TurnComparison::new(store);
            table.pairs().all(|(old, new)| {
                let walked = comparison.between(old.as_ref(), &new);
                let told = table.find(old.as_ref(), &new);
                walked.map_or(true, |walked| told.as_ref() == Some(&walked))
            })
        });
        if !is_right {
            wrong.push(name);
        }
    }
    wrong
}
