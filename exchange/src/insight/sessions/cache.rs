//! Keeps the rows of the list of sessions, in memory and in the note next to the store, so that a
//! list reads only the sessions that changed.

use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use bytes::Bytes;
use turntree::error::{Error, Result};
use turntree::object::{ObjectId, RefValue, Time};
use turntree::repo::{BranchName, KnownTip, MAIN_BRANCH, Prompts, Repository, SESSION_REFS};
use turntree::store::RefTable;

use super::lines::KnownLines;
use super::note::{self, NotedRows};
use super::row::{
    BranchTip, RowBasis, SessionRefs, SessionRow, SessionState, StoredRow, conflicts_of, lines_of,
    name_of, state_of,
};
use super::table::SessionTable;
use super::{SessionSummary, number_of_conflicts, summary};
use crate::formats::is_prompt;

/// The prefix of refs of branches.
const BRANCH_REFS: &str = "refs/heads/";

/// The number of branches of a session, the newest first, whose conflicts are counted.
const COUNTED_BRANCHES: usize = 64;

/// The note is written once this share of its rows changed: the note of many sessions is large, and
/// a running session changes its row all the time.
const WRITE_SHARE: usize = 1024;

/// The rows of the last list. They belong to one epoch of a store. A redaction or a collection
/// starts a new epoch, and the content that it deleted must not stay in memory, so all rows are
/// then read again: from the note, which is checked against the store, or from the store.
#[derive(Debug, Default)]
pub struct KnownSessions(Mutex<SessionCache>);

#[derive(Debug, Default)]
struct SessionCache {
    /// The id and epoch of the store.
    of: Option<([u8; 16], u64)>,
    /// The number of times that the cache was dropped. Results of earlier reads are not cached.
    clears: u64,
    rows: Arc<KnownRows>,
    /// The list of all sessions, and the operation that it shows.
    table: Option<(Option<ObjectId>, Arc<SessionTable>)>,
}

/// Rows in order of names.
#[derive(Debug, Default)]
struct KnownRows {
    rows: Vec<Bytes>,
    /// True once the note was read.
    is_read: bool,
    /// True if the note has rows of this epoch.
    is_noted: bool,
    /// The number of rows that the note lacks.
    unwritten: usize,
}

/// The sessions at one moment, in order of names.
struct Joined<'r> {
    slots: Vec<(&'r str, Slot<'r>)>,
    known: Arc<KnownRows>,
    clears: u64,
}

/// A session: its current row, or its refs and its outdated row.
enum Slot<'r> {
    Known(StoredRow),
    Changed(SessionRefs<'r>, Option<Bytes>),
}

/// Reads rows from the store.
struct RowReader<'r> {
    repo: &'r Repository,
    prompts: Option<Prompts<'r>>,
    lines: KnownLines,
    /// The number of rows read.
    fresh: usize,
}

impl KnownSessions {
    /// Drops all rows, so that no content of a store stays in memory.
    pub fn clear(&self) {
        let mut known = self.lock();
        *known = SessionCache { clears: known.clears + 1, ..SessionCache::default() };
    }

    /// Returns the list of all sessions. Reads the sessions that changed since the last list, of
    /// this process or of another.
    ///
    /// # Errors
    /// The errors of [`sessions`](super::sessions).
    pub fn table(&self, repo: &Repository) -> Result<Arc<SessionTable>> {
        if let Some(table) = self.current_table(repo) {
            return Ok(table);
        }
        let refs = repo.refs();
        let Joined { slots, known, clears } = self.join(repo, &refs);
        let mut reader = RowReader::new(repo);
        let mut rows = Vec::with_capacity(slots.len());
        for (name, slot) in slots {
            match slot {
                Slot::Known(row) => rows.push(row),
                Slot::Changed(refs, old) => {
                    let Some(state) = reader.state(name, &refs, old.as_ref())? else { continue };
                    rows.push(reader.read(&state, old.as_ref())?);
                }
            }
        }
        let kept = KnownRows {
            rows: rows.iter().map(|row| row.bytes().clone()).collect(),
            is_read: true,
            is_noted: known.is_noted,
            unwritten: known.unwritten + reader.fresh,
        };
        let table = Arc::new(SessionTable::new(rows));
        self.keep(repo, clears, kept, Some((refs.operation, Arc::clone(&table))));
        Ok(table)
    }

    /// Returns what the list shows of a session.
    ///
    /// # Errors
    /// The errors of [`sessions`](super::sessions), if the session must be read again.
    pub fn summary(&self, repo: &Repository, row: &SessionRow<'_>) -> Result<SessionSummary> {
        RowReader::new(repo).summary_of(row.stored())
    }

    /// Returns all sessions with content, the newest first, see [`sessions`](super::sessions).
    pub(super) fn all(&self, repo: &Repository) -> Result<Vec<SessionSummary>> {
        let table = self.table(repo)?;
        let mut reader = RowReader::new(repo);
        table.rows().filter(|row| !row.is_only_begun).map(|row| reader.summary_of(row)).collect()
    }

    /// Returns the `most` newest sessions, the newest first, and the number of all sessions. Omits
    /// sessions that are only begun, but counts them in `most` if more sessions exist. Reads the
    /// newest commit of every branch of a changed session, and the other data, like
    /// [`sessions`](super::sessions), only for the returned sessions.
    ///
    /// # Errors
    /// The errors of [`sessions`](super::sessions).
    pub fn newest(&self, repo: &Repository, most: usize) -> Result<(Vec<SessionSummary>, usize)> {
        let refs = repo.refs();
        let mut reader = RowReader::new(repo);
        if let Some(table) = self.current_table(repo) {
            let listed = table.rows().take(most).filter(|row| !row.is_only_begun);
            let found = listed.map(|row| reader.summary_of(row)).collect::<Result<Vec<_>>>()?;
            let omitted = table.rows().take(most).filter(|row| row.is_only_begun).count();
            return Ok((found, table.rows().len() - omitted));
        }
        let Joined { slots, known, clears } = self.join(repo, &refs);
        let mut dated = Vec::with_capacity(slots.len());
        for (name, slot) in slots {
            let (time, slot) = match slot {
                Slot::Known(row) => (row.time, Dated::Known(row)),
                Slot::Changed(refs, old) => {
                    let Some(state) = reader.state(name, &refs, old.as_ref())? else { continue };
                    (state.time(), Dated::Changed(state, old))
                }
            };
            dated.push((time.micros, slot));
        }
        let all = dated.len();
        let mut order: Vec<usize> = (0..all).collect();
        order.sort_by_key(|at| Reverse(dated.get(*at).map(|(micros, _)| *micros)));
        let (mut found, mut omitted, mut fresh) = (Vec::new(), 0, BTreeMap::new());
        for at in order.into_iter().take(most) {
            let Some((_, slot)) = dated.get(at) else { continue };
            let summary = match slot {
                Dated::Known(row) => reader.summary_of(row)?,
                Dated::Changed(state, old) => {
                    let row = reader.read(state, old.as_ref())?;
                    let summary = reader.summary_of(&row)?;
                    fresh.insert(at, row);
                    summary
                }
            };
            if summary.is_only_begun { omitted += 1 } else { found.push(summary) }
        }
        if !fresh.is_empty() {
            let unwritten = known.unwritten + fresh.len();
            let rows = dated.into_iter().enumerate().filter_map(|(at, (_, slot))| match slot {
                Dated::Known(row) => Some(row.bytes().clone()),
                Dated::Changed(_, old) => fresh.get(&at).map(|row| row.bytes().clone()).or(old),
            });
            let (rows, is_noted) = (rows.collect(), known.is_noted);
            let kept = KnownRows { rows, is_read: true, is_noted, unwritten };
            self.keep(repo, clears, kept, None);
        }
        Ok((found, all - omitted))
    }

    /// Returns the number of sessions that a list of all must read.
    pub fn changed(&self, repo: &Repository) -> usize {
        if self.current_table(repo).is_some() {
            return 0;
        }
        let refs = repo.refs();
        let is_changed = |(_, slot): &&(&str, Slot<'_>)| matches!(slot, Slot::Changed(..));
        self.join(repo, &refs).slots.iter().filter(is_changed).count()
    }

    /// Returns the existing sessions among `names`, by name. Reads like [`Self::newest`], only for
    /// these sessions.
    ///
    /// # Errors
    /// The errors of [`sessions`](super::sessions).
    pub fn named(
        &self,
        repo: &Repository,
        names: &BTreeSet<&str>,
    ) -> Result<HashMap<String, SessionSummary>> {
        let mut reader = RowReader::new(repo);
        let summary = |row: &StoredRow| reader.summary_of(row);
        let found = self.rows_of(repo, names)?;
        let found = found.iter().map(summary).collect::<Result<Vec<_>>>()?;
        Ok(found.into_iter().map(|session| (session.name.clone(), session)).collect())
    }

    /// Returns the tips of the branches of a session. Reads those that changed since the session was
    /// listed.
    ///
    /// # Errors
    /// The errors of [`sessions`](super::sessions).
    pub fn tips(&self, repo: &Repository, session: &str) -> Result<Vec<KnownTip>> {
        let rows = self.rows_of(repo, &BTreeSet::from([session]))?;
        Ok(rows.iter().flat_map(|row| row.view().tips()).collect())
    }

    /// Returns the rows of the existing sessions among `names`, and keeps those that it read.
    fn rows_of(&self, repo: &Repository, names: &BTreeSet<&str>) -> Result<Vec<StoredRow>> {
        let refs = repo.refs();
        let (known, clears) = self.known(repo);
        let mut reader = RowReader::new(repo);
        let (mut rows, mut fresh) = (Vec::new(), Vec::new());
        for (name, refs) in names.iter().filter_map(|name| refs_of(&refs, name)) {
            let at = known.rows.partition_point(|row| name_of(row).is_ok_and(|it| it < name));
            let old = known.rows.get(at).filter(|row| name_of(row).is_ok_and(|it| it == name));
            let current = old.and_then(|row| StoredRow::matching(row.clone(), name, &refs));
            let row = match current {
                Some(row) => row,
                None => {
                    let Some(state) = reader.state(name, &refs, old)? else { continue };
                    let row = reader.read(&state, old)?;
                    fresh.push(row.clone());
                    row
                }
            };
            rows.push(row);
        }
        if !fresh.is_empty() {
            self.keep(repo, clears, known.with(fresh), None);
        }
        Ok(rows)
    }

    /// Returns the rows in memory, or those of the note, and the number of clears before.
    fn known(&self, repo: &Repository) -> (Arc<KnownRows>, u64) {
        let of = Some((repo.store_id(), repo.epoch()));
        let clears = {
            let mut known = self.lock();
            if known.of != of {
                *known = SessionCache { of, clears: known.clears + 1, ..SessionCache::default() };
            }
            if known.rows.is_read {
                return (Arc::clone(&known.rows), known.clears);
            }
            known.clears
        };
        let NotedRows { rows, is_current: is_noted } = NotedRows::read(repo);
        let read = Arc::new(KnownRows { rows, is_read: true, is_noted, unwritten: 0 });
        let mut known = self.lock();
        if known.clears == clears && !known.rows.is_read {
            known.rows = Arc::clone(&read);
        }
        (read, clears)
    }

    /// Finds the current row of each session.
    fn join<'r>(&self, repo: &Repository, refs: &'r RefTable) -> Joined<'r> {
        let (known, clears) = self.known(repo);
        // A damaged row has no name, and comes before every other.
        let named = known.rows.iter().map(|row| (name_of(row).unwrap_or_default(), row));
        let mut old = named.peekable();
        let mut slots = Vec::new();
        for (name, refs) in all_refs(refs) {
            while old.next_if(|(other, _)| *other < name).is_some() {}
            let row = old.next_if(|(other, _)| *other == name).map(|(_, row)| row.clone());
            let current = row.clone().and_then(|row| StoredRow::matching(row, name, &refs));
            slots.push((name, current.map_or(Slot::Changed(refs, row), Slot::Known)));
        }
        Joined { slots, known, clears }
    }

    /// Keeps rows for the next list, and writes the note if enough of them are new.
    fn keep(
        &self,
        repo: &Repository,
        clears: u64,
        mut kept: KnownRows,
        table: Option<(Option<ObjectId>, Arc<SessionTable>)>,
    ) {
        if repo.is_past() {
            return;
        }
        // Part of a list is not worth a note: the rest would be read as changed.
        let is_worth = !kept.is_noted || kept.unwritten > kept.rows.len() / WRITE_SHARE;
        if table.is_some() && is_worth && !kept.rows.is_empty() {
            note::write(repo, &kept.rows);
            (kept.is_noted, kept.unwritten) = (true, 0);
        }
        let mut known = self.lock();
        // A list that was begun earlier may end later, and know less.
        if known.clears == clears && (table.is_some() || kept.rows.len() >= known.rows.rows.len()) {
            known.rows = Arc::new(kept);
            known.table = table.or_else(|| known.table.take());
        }
    }

    /// Returns the list of all sessions, if nothing changed since it was read.
    fn current_table(&self, repo: &Repository) -> Option<Arc<SessionTable>> {
        let of = Some((repo.store_id(), repo.epoch()));
        let operation = repo.refs().operation;
        let known = self.lock();
        let (_, table) =
            known.table.as_ref().filter(|(at, _)| known.of == of && *at == operation)?;
        Some(Arc::clone(table))
    }

    fn lock(&self) -> MutexGuard<'_, SessionCache> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// A session with a time: its current row, or the state that a row is read from.
enum Dated {
    Known(StoredRow),
    Changed(SessionState, Option<Bytes>),
}

impl KnownRows {
    /// Returns these rows, with some replaced or added.
    fn with(&self, fresh: Vec<StoredRow>) -> Self {
        let (mut rows, unwritten) = (self.rows.clone(), self.unwritten + fresh.len());
        for row in fresh {
            let name = row.view().name();
            let at = rows.partition_point(|it| name_of(it).is_ok_and(|it| it < name));
            match rows.get_mut(at).filter(|it| name_of(it).is_ok_and(|it| it == name)) {
                Some(old) => *old = row.bytes().clone(),
                None => rows.insert(at, row.bytes().clone()),
            }
        }
        Self { rows, unwritten, ..*self }
    }
}

impl SessionState {
    fn time(&self) -> Time {
        self.branches.get(self.newest).map(|it| it.time).unwrap_or_default()
    }
}

impl<'r> RowReader<'r> {
    fn new(repo: &'r Repository) -> Self {
        Self { repo, prompts: None, lines: KnownLines::default(), fresh: 0 }
    }

    /// Returns the state of a session; `None` without a branch. Reads the tips that the outdated
    /// row does not name.
    fn state(
        &self,
        name: &str,
        refs: &SessionRefs<'_>,
        old: Option<&Bytes>,
    ) -> Result<Option<SessionState>> {
        let old = old.and_then(|row| state_of(row).ok()).map(|state| state.branches);
        let old: HashMap<ObjectId, BranchTip> =
            old.into_iter().flatten().map(|it| (it.tip, it)).collect();
        let mut branches: Vec<BranchTip> = Vec::with_capacity(refs.branches.len());
        let mut newest: Option<usize> = None;
        for (branch, tip) in &refs.branches {
            let Ok(branch) = BranchName::new(name, branch) else { continue };
            let (turn, time) = match old.get(tip) {
                Some(BranchTip { turn, time, .. }) => (*turn, *time),
                None => {
                    let commit = self.repo.commit(tip)?;
                    (commit.turn, commit.time)
                }
            };
            let found = BranchTip { branch, tip: *tip, turn, time };
            let known = newest.and_then(|at| branches.get(at)).map(BranchTip::as_newest);
            if known.is_none_or(|known| found.as_newest().comes_before(&known)) {
                newest = Some(branches.len());
            }
            branches.push(found);
        }
        let labels = refs.labels.cloned();
        let state = |newest| SessionState { name: name.to_owned(), labels, branches, newest };
        Ok(newest.map(state))
    }

    /// Reads a session from the store.
    fn read(&mut self, state: &SessionState, old: Option<&Bytes>) -> Result<StoredRow> {
        let Some(newest) = state.branches.get(state.newest).map(BranchTip::as_newest) else {
            return Err(Error::invalid("a session without a branch"));
        };
        self.fresh += 1;
        let repo = self.repo;
        let prompts = match &mut self.prompts {
            Some(prompts) => prompts,
            none => none.insert(repo.prompts(Some(&is_prompt))?),
        };
        self.lines.0.extend(old.and_then(|row| lines_of(row).ok()).into_iter().flatten());
        let line = self.lines.of(repo, prompts, (&state.name, newest.tip))?;
        let count = state.branches.len() as u64;
        let conflicts = count_conflicts(repo, state, old)?;
        let counts = (count, conflicts.iter().flatten().sum());
        let (summary, mut contexts) = summary(repo, state.name.clone(), newest, line, counts)?;
        for (branch, number) in state.branches.iter().zip(&conflicts) {
            if number.is_some_and(|number| number > 0) {
                contexts.push(repo.commit(&branch.tip)?.tree);
            }
        }
        let tips = state.branches.iter().map(|it| it.tip);
        let lines = tips.filter_map(|tip| Some((tip, *self.lines.0.get(&tip)?))).collect();
        Ok(StoredRow::new(state, &summary, &RowBasis { contexts, lines, conflicts }))
    }

    /// Returns what a row shows. Reads the session from the store if the row has another form than
    /// this version writes.
    fn summary_of(&mut self, row: &StoredRow) -> Result<SessionSummary> {
        if let Some(summary) = row.view().summary() {
            return Ok(summary);
        }
        let refs = self.repo.refs();
        let found = refs_of(&refs, row.view().name());
        let state = found.map(|(name, refs)| self.state(name, &refs, None)).transpose()?.flatten();
        let malformed = || Error::malformed("the note of sessions", "rows of this version");
        let row = self.read(&state.ok_or_else(malformed)?, None)?;
        row.view().summary().ok_or_else(malformed)
    }
}

/// Counts the open conflicts of the newest branches. Reads those whose tips the outdated row lacks.
fn count_conflicts(
    repo: &Repository,
    state: &SessionState,
    old: Option<&Bytes>,
) -> Result<Vec<Option<u64>>> {
    let known = old.and_then(|row| conflicts_of(row).ok()).into_iter().flatten();
    let known: HashMap<ObjectId, u64> = known.collect();
    let mut order: Vec<usize> = (0..state.branches.len()).collect();
    order.sort_by_key(|at| Reverse(state.branches.get(*at).map(|branch| branch.time)));
    let mut counted = vec![None; state.branches.len()];
    for at in order.into_iter().take(COUNTED_BRANCHES) {
        let (Some(branch), Some(slot)) = (state.branches.get(at), counted.get_mut(at)) else {
            continue;
        };
        *slot = Some(match known.get(&branch.tip) {
            Some(number) => *number,
            None => number_of_conflicts(repo, &branch.tip)? as u64,
        });
    }
    Ok(counted)
}

/// Returns the session and the branch in the full name of a ref.
fn branch_of(full: &str) -> Option<(&str, &str)> {
    let name = full.strip_prefix(BRANCH_REFS)?;
    Some(name.split_once('/').unwrap_or((name, MAIN_BRANCH)))
}

fn labels_of<'r>(refs: &'r RefTable, session: &str) -> Option<&'r RefValue> {
    refs.values.get(&format!("{SESSION_REFS}{session}"))
}

/// Returns the refs of all sessions, ordered by name.
fn all_refs(refs: &RefTable) -> Vec<(&str, SessionRefs<'_>)> {
    let mut all: Vec<(&str, SessionRefs<'_>)> = Vec::new();
    for (full, value) in refs.values.starting_with(BRANCH_REFS) {
        let (Some((session, branch)), RefValue::Object(tip)) = (branch_of(full), value) else {
            continue;
        };
        match all.last_mut().filter(|(last, _)| *last == session) {
            Some((_, of)) => of.branches.push((branch, *tip)),
            None => {
                all.push((session, SessionRefs { branches: vec![(branch, *tip)], labels: None }));
            }
        }
    }
    // The refs of `a-b` are between those of `a` and of `a/b`.
    all.sort_by_key(|(session, _)| *session);
    all.dedup_by(|(session, of), (before, kept)| {
        session == before && {
            kept.branches.append(&mut of.branches);
            true
        }
    });
    let mut labels = refs.values.starting_with(SESSION_REFS).peekable();
    for (session, of) in &mut all {
        let order = |full: &str| full.strip_prefix(SESSION_REFS).cmp(&Some(*session));
        while labels.next_if(|(full, _)| order(full).is_lt()).is_some() {}
        let own = labels.next_if(|(full, _)| order(full).is_eq());
        of.labels = own.map(|(_, value)| value);
    }
    all
}

/// Returns the name and the refs of one session, if it has a branch.
fn refs_of<'r>(refs: &'r RefTable, session: &str) -> Option<(&'r str, SessionRefs<'r>)> {
    let mut name = None;
    let mut branches = Vec::new();
    let prefix = format!("{BRANCH_REFS}{session}");
    for (full, value) in refs.values.starting_with(&prefix) {
        let (Some((found, branch)), RefValue::Object(tip)) = (branch_of(full), value) else {
            continue;
        };
        if found == session {
            name = Some(found);
            branches.push((branch, *tip));
        }
    }
    Some((name?, SessionRefs { branches, labels: labels_of(refs, session) }))
}
