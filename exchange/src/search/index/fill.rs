//! Fills the index: adds the turns that it lacks and drops the turns that were deleted.
//!
//! The entries that a turn added depend only on the turn and on the turns that it is compared with.
//! An incrementally updated index therefore equals a rebuilt one. A killed process leaves an index
//! that lacks turns, and the next search adds them.

use std::collections::{BTreeSet, HashMap, HashSet};

use rusqlite::Connection;
use turntree::object::ObjectId;
use turntree::repo::{Arrivals, ArrivedAt, Repository, SearchScope};

use super::measures::{Measure, Measures};
use super::writer::{IndexWriter, mark_of};
use super::{
    EPOCH, Index, IndexError, IndexResult, TIPS, TURNS, id_of, segments, set, tip_bytes, tips,
};

/// Turns per batch. A batch reads its blobs in storage order, so each block of a pack is
/// decompressed once per batch.
const TURNS_AT_ONCE: usize = 4096;

/// Number of added turns from which the fill returns free pages to the file system at its end.
const MANY_TURNS: usize = 1024;

const FORGET_TIPS: &str = "DELETE FROM facts WHERE name = ?1";

/// Receives the number of indexed turns and their total.
pub(in crate::search) type FillProgress<'a> = &'a (dyn Fn(u64, u64) + Sync);

impl Index {
    /// Adds all new turns. Returns descriptions of the unreadable content, which the next fill
    /// tries again. Costs a comparison of the refs if nothing is new.
    pub(in crate::search) fn catch_up(
        &self,
        repo: &Repository,
        progress: FillProgress<'_>,
    ) -> IndexResult<Vec<String>> {
        if self.is_current(repo)? {
            return Ok(Vec::new());
        }
        let (tips, epoch) = (tips(repo), repo.epoch().cast_signed());
        let known: Vec<u8> = self.fact(TIPS)?.unwrap_or_default();
        let known: Vec<ObjectId> = known.chunks(32).filter_map(id_of).collect();
        let has_grown = self.fact(EPOCH)? == Some(epoch) && has_grown(repo, &known, &tips)?;
        let scope = SearchScope {
            starts: tips.iter().map(|tip| (*tip, None)).collect(),
            hide: if has_grown { known } else { Vec::new() },
        };
        let mut arrivals = repo.arrivals(&scope)?;
        let dropped = if has_grown { 0 } else { self.drop_others(&arrivals)? };
        let all: Vec<ArrivedAt> = arrivals.turns().collect();
        let missing = self.missing_turns(&all)?;
        arrivals.retain(|turn| missing.contains(turn));
        let mut damage: BTreeSet<String> = arrivals.damage().map(str::to_owned).collect();
        let turns: Vec<ArrivedAt> = arrivals.turns().collect();
        let all = turns.len() as u64;
        let (indexed, _) = self.filled()?;
        let mut at = 0;
        while at < turns.len() {
            // If the process dies here, the index lacks only these turns.
            let change = self.begin()?;
            let mut writer = IndexWriter::begin(self, &change)?;
            while !writer.is_large()
                && let Some(next) = turns.get(at..).and_then(|it| it.chunks(TURNS_AT_ONCE).next())
            {
                progress(at as u64, all);
                let came = arrivals.between(at, at + next.len());
                writer.add(repo, next, &came, &mut damage)?;
                at += next.len();
            }
            writer.finish()?;
            set(&change, TURNS, (indexed + all).cast_signed())?;
            change.commit()?;
        }
        if turns.len() >= MANY_TURNS || dropped > turns.len() / 2 {
            match self.shrink(dropped > 0) {
                // The index is still correct, only larger.
                Err(IndexError::Refused(_)) => {}
                shrunk => shrunk?,
            }
        }
        let change = self.begin()?;
        if damage.is_empty() {
            set(&change, TIPS, tip_bytes(&tips))?;
            set(&change, EPOCH, epoch)?;
        } else {
            // Without tips the next fill examines all turns again.
            change.execute(FORGET_TIPS, [TIPS])?;
        }
        change.commit()?;
        Ok(damage.into_iter().collect())
    }

    /// Returns the indexed turns, each with its number and the mark of the turns that it was
    /// compared with.
    fn indexed_turns(&self) -> IndexResult<HashMap<ObjectId, (i64, Vec<u8>)>> {
        let mut query = self.connection.prepare("SELECT id, commit_id, before FROM turns")?;
        let mut rows = query.query([])?;
        let mut turns = HashMap::new();
        while let Some(row) = rows.next()? {
            let commit = id_of(row.get_ref(1)?.as_blob().map_err(|_| IndexError::Damaged)?);
            turns.insert(commit.ok_or(IndexError::Damaged)?, (row.get(0)?, row.get(2)?));
        }
        Ok(turns)
    }

    /// Returns the turns that the index lacks.
    fn missing_turns(&self, turns: &[ArrivedAt]) -> IndexResult<HashSet<ObjectId>> {
        let mut query = self.connection.prepare("SELECT 1 FROM turns WHERE commit_id = ?1")?;
        let mut missing = HashSet::new();
        for turn in turns {
            if !query.exists([turn.commit.as_bytes()])? {
                missing.insert(turn.commit);
            }
        }
        Ok(missing)
    }

    /// Drops the turns that are not among `arrivals` or that are now compared with other turns, and
    /// their documents. Returns the number of dropped turns.
    fn drop_others(&self, arrivals: &Arrivals<'_>) -> IndexResult<usize> {
        let mut others = self.indexed_turns()?;
        for turn in arrivals.turns() {
            let before = others.get(&turn.commit).map(|(_, before)| before);
            if before.is_some_and(|before| *before == mark_of(&turn.before)) {
                others.remove(&turn.commit);
            }
        }
        if others.is_empty() {
            return Ok(0);
        }
        let change = self.begin()?;
        change.execute_batch(
            "CREATE TEMP TABLE IF NOT EXISTS gone (id INTEGER PRIMARY KEY);
            DELETE FROM temp.gone;",
        )?;
        {
            let mut insert = change.prepare("INSERT INTO temp.gone VALUES (?1)")?;
            for (turn, _) in others.values() {
                insert.execute([turn])?;
            }
            drop_documents(&change, IndexWriter::begin(self, &change)?)?;
        }
        // Without tips the index does not count as current until it is filled again.
        change.execute(FORGET_TIPS, [TIPS])?;
        change.commit()?;
        Ok(others.len())
    }

    /// Merges the segments, if documents were dropped, and returns free pages to the file system.
    fn shrink(&self, has_dropped: bool) -> IndexResult<()> {
        if has_dropped {
            let change = self.begin()?;
            segments::merge_all(&change, &mut Measures::open(&change)?)?;
            change.commit()?;
        }
        let mut vacuum = self.connection.prepare("PRAGMA incremental_vacuum")?;
        let mut pages = vacuum.query([])?;
        while pages.next()?.is_some() {}
        Ok(())
    }
}

/// Drops the turns in the table `gone`, their places, and the documents that have no place left.
fn drop_documents(change: &Connection, mut writer: IndexWriter<'_>) -> IndexResult<()> {
    let numbers = |query: &str| -> IndexResult<Vec<u32>> {
        let mut query = change.prepare(query)?;
        let numbers = query.query_map([], |row| row.get(0))?;
        Ok(numbers.collect::<Result<_, _>>()?)
    };
    let touched = "SELECT DISTINCT document FROM places WHERE turn IN (SELECT id FROM temp.gone)";
    let touched = numbers(touched)?;
    change.execute_batch(
        "DELETE FROM places WHERE turn IN (SELECT id FROM temp.gone);
        DELETE FROM turns WHERE id IN (SELECT id FROM temp.gone);
        DELETE FROM temp.gone;",
    )?;
    let mut delete = change.prepare("DELETE FROM documents WHERE id = ?1")?;
    for document in touched {
        // The remaining places may be newer, and of other sessions.
        if writer.measure_oldest_place(document)? {
            continue;
        }
        delete.execute([document])?;
        writer.documents -= 1;
        writer.words -= i64::from(writer.measures.get(document)?.words);
        // The postings stay until the next merge. A measure without words makes searches ignore
        // them.
        writer.measures.set(document, Measure::DROPPED)?;
    }
    let newest = "SELECT coalesce(max(time), 0) FROM turns";
    writer.newest = change.query_row(newest, [], |row| row.get(0))?;
    writer.finish()
}

/// Returns true if all of `known` is reachable from `tips`, so that no turn was deleted.
fn has_grown(repo: &Repository, known: &[ObjectId], tips: &[ObjectId]) -> IndexResult<bool> {
    let gone: Vec<ObjectId> =
        known.iter().filter(|tip| tips.binary_search(tip).is_err()).copied().collect();
    if known.is_empty() || gone.is_empty() {
        return Ok(!known.is_empty());
    }
    // An unreadable tip was deleted from the history.
    let Ok(mut left) = repo.history(&gone, tips) else { return Ok(false) };
    Ok(left.next().is_none())
}
