//! Filling: the index takes up the turns that it does not have, and drops those that are gone.
//!
//! What a turn brought depends on the turn and on those that it is compared with, and nothing else. So an
//! index that grew is the one that is made from nothing, and a killed process leaves one that lacks
//! turns, which the next takes up.

use std::collections::hash_map::Entry;
use std::collections::{BTreeSet, HashMap, HashSet};
use std::sync::{Mutex, PoisonError};

use rusqlite::{Connection, OptionalExtension, Statement, params};
use turntree::error::{Error, ErrorKind};
use turntree::object::{Kind, ObjectId};
use turntree::repo::{Arrival, Arrivals, ArrivedAt, Repository, SearchScope};

use super::{
    Attempt, DOCUMENTS, EPOCH, Index, NEWEST, TIPS, TextTable, Trouble, WORDS, id_of, set,
    tip_bytes, tips,
};
use crate::search::document::{Document, ToolLinks};

/// Turns that are taken up in one change.
const TURNS_AT_ONCE: usize = 512;

/// Turns from which on the postings are merged into one at the end, which makes them small.
const MANY_TURNS: usize = 1024;

const FORGET_TIPS: &str = "DELETE FROM facts WHERE name = ?1";

/// Is told how many of how many turns are taken up.
pub(in crate::search) type FillProgress<'a> = &'a (dyn Fn(u64, u64) + Sync);

/// A document of a change: its number in the table once it has one, and its calls and results.
#[derive(Default)]
struct Known {
    number: Option<i64>,
    links: ToolLinks,
}

/// A blob and the format of the message that it is, or nothing.
type Content = (ObjectId, String);

const FIND_DOCUMENT: &str = "SELECT id, links FROM documents
    WHERE substr(blob, 1, 8) = substr(?1, 1, 8) AND blob = ?1 AND format = ?2";
const ADD_DOCUMENT: &str =
    "INSERT INTO documents (blob, format, words, links) VALUES (?1, ?2, ?3, ?4)";
const ADD_POSTINGS: &str = "INSERT INTO postings (rowid, words) VALUES (?1, ?2)";

/// The documents of a change.
#[derive(Default)]
struct Taken {
    documents: HashMap<Content, Known>,
    /// Those that have no number yet.
    unknown: Vec<Content>,
    /// Blobs that could not be read, and why, in words.
    lost: HashSet<ObjectId>,
    damage: BTreeSet<String>,
}

impl Index {
    /// Takes up what is new, and returns what could not be read, in words: it is tried again the next
    /// time. Costs a look at the refs when nothing is new.
    pub(in crate::search) fn catch_up(
        &self,
        repo: &Repository,
        progress: FillProgress<'_>,
    ) -> Attempt<Vec<String>> {
        if self.is_current(repo)? {
            return Ok(Vec::new());
        }
        let (tips, epoch) = (tips(repo), repo.store().epoch().cast_signed());
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
        let missing = self.missing(&all)?;
        arrivals.retain(|turn| missing.contains(turn));
        let mut damage: BTreeSet<String> = arrivals.damage().map(str::to_owned).collect();
        let turns: Vec<ArrivedAt> = arrivals.turns().collect();
        let all = turns.len() as u64;
        for (number, turns) in turns.chunks(TURNS_AT_ONCE).enumerate() {
            let from = number * TURNS_AT_ONCE;
            progress(from as u64, all);
            let came = arrivals.between(from, from + turns.len());
            self.add(repo, turns, &came, &mut damage)?;
        }
        if turns.len() >= MANY_TURNS || dropped > turns.len() / 2 {
            match self.shrink() {
                // It is as good as it was, and larger.
                Err(Trouble::Refused(_)) => {}
                shrunk => shrunk?,
            }
        }
        let change = self.begin()?;
        if damage.is_empty() {
            set(&change, TIPS, tip_bytes(&tips))?;
            set(&change, EPOCH, epoch)?;
        } else {
            // It is of no refs then, so that the next one looks at all turns again.
            change.execute(FORGET_TIPS, [TIPS])?;
        }
        change.commit()?;
        Ok(damage.into_iter().collect())
    }

    /// The turns that it has, with what says which turns each was compared with.
    fn turns(&self) -> Attempt<HashMap<ObjectId, (i64, Vec<u8>)>> {
        let mut query = self.connection.prepare("SELECT id, commit_id, before FROM turns")?;
        let mut rows = query.query([])?;
        let mut turns = HashMap::new();
        while let Some(row) = rows.next()? {
            let commit = id_of(row.get_ref(1)?.as_blob().map_err(|_| Trouble::Damaged)?);
            turns.insert(commit.ok_or(Trouble::Damaged)?, (row.get(0)?, row.get(2)?));
        }
        Ok(turns)
    }

    /// Those of some turns that it does not have.
    fn missing(&self, turns: &[ArrivedAt]) -> Attempt<HashSet<ObjectId>> {
        let mut query = self.connection.prepare("SELECT 1 FROM turns WHERE commit_id = ?1")?;
        let mut missing = HashSet::new();
        for turn in turns {
            if !query.exists([turn.commit.as_bytes()])? {
                missing.insert(turn.commit);
            }
        }
        Ok(missing)
    }

    /// Drops the turns that are not among `arrivals`, or are compared with others now, and what only
    /// they had. Returns how many these are.
    fn drop_others(&self, arrivals: &Arrivals<'_>) -> Attempt<usize> {
        let mut others = self.turns()?;
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
        }
        change.execute_batch(
            "
            DELETE FROM places WHERE turn IN (SELECT id FROM temp.gone);
            DELETE FROM turns WHERE id IN (SELECT id FROM temp.gone);
            DELETE FROM temp.gone;
            INSERT INTO temp.gone SELECT id FROM documents
                WHERE NOT EXISTS (SELECT 1 FROM places WHERE document = documents.id);
            DELETE FROM postings WHERE rowid IN (SELECT id FROM temp.gone);
            DELETE FROM documents WHERE id IN (SELECT id FROM temp.gone);
            DELETE FROM temp.gone;",
        )?;
        let count = "SELECT count(*), coalesce(sum(words), 0) FROM documents";
        let (documents, words): (i64, i64) =
            change.query_row(count, [], |row| Ok((row.get(0)?, row.get(1)?)))?;
        let newest = "SELECT coalesce(max(time), 0) FROM turns";
        let newest: i64 = change.query_row(newest, [], |row| row.get(0))?;
        for (name, value) in [(DOCUMENTS, documents), (WORDS, words), (NEWEST, newest)] {
            set(&change, name, value)?;
        }
        // Until it is filled again it is of no refs.
        change.execute(FORGET_TIPS, [TIPS])?;
        change.commit()?;
        Ok(others.len())
    }

    /// Takes up some turns in one change.
    fn add(
        &self,
        repo: &Repository,
        turns: &[ArrivedAt],
        came: &[(Vec<Arrival>, Vec<String>)],
        damage: &mut BTreeSet<String>,
    ) -> Attempt<()> {
        let change = self.begin()?;
        let mut names = TextTable::new(&change, "names");
        let mut tools = TextTable::new(&change, "tools");
        // Another process may have taken some up meanwhile.
        let missing = self.missing(turns)?;
        let new = || turns.iter().zip(came).filter(|(turn, _)| missing.contains(&turn.commit));
        let mut sums = (self.number(DOCUMENTS)?, self.number(WORDS)?, self.number(NEWEST)?);
        let contents = new().flat_map(|(_, (arrivals, _))| arrivals).map(content_of);
        let mut taken = Taken::find(&change, &mut names, contents)?;
        let new_documents = taken.take_up(&change, &mut names, repo)?;
        sums.0 += new_documents.0;
        sums.1 += new_documents.1;
        damage.extend(taken.damage.iter().cloned());
        for (turn, (arrivals, unread)) in new() {
            damage.extend(unread.iter().cloned());
            let is_lost = |arrival: &Arrival| taken.lost.contains(&arrival.blob);
            let is_whole = unread.is_empty() && !arrivals.iter().any(is_lost);
            let number = insert_turn(&change, &mut names, turn, is_whole)?;
            sums.2 = sums.2.max(turn.time.micros);
            insert_places(&change, (&mut names, &mut tools), number, arrivals, &taken.documents)?;
        }
        for (name, value) in [(DOCUMENTS, sums.0), (WORDS, sums.1), (NEWEST, sums.2)] {
            set(&change, name, value)?;
        }
        change.commit()?;
        Ok(())
    }

    /// Merges the postings into one, and gives free pages back to the file system.
    fn shrink(&self) -> Attempt<()> {
        self.connection.execute_batch("INSERT INTO postings (postings) VALUES ('optimize')")?;
        let mut vacuum = self.connection.prepare("PRAGMA incremental_vacuum")?;
        let mut pages = vacuum.query([])?;
        while pages.next()?.is_some() {}
        Ok(())
    }
}

/// Returns whether all of `known` is reached from `tips`, so that nothing is gone.
fn has_grown(repo: &Repository, known: &[ObjectId], tips: &[ObjectId]) -> Attempt<bool> {
    let gone: Vec<ObjectId> =
        known.iter().filter(|tip| tips.binary_search(tip).is_err()).copied().collect();
    if known.is_empty() || gone.is_empty() {
        return Ok(!known.is_empty());
    }
    // One that cannot be read is not in history any more.
    let Ok(mut left) = repo.history(&gone, tips) else { return Ok(false) };
    Ok(left.next().is_none())
}

/// What tells whether a turn is compared with the same turns as before.
fn mark_of(before: &[ObjectId]) -> Vec<u8> {
    before.iter().flat_map(|id| id.as_bytes().iter().take(8)).copied().collect()
}

fn content_of(arrival: &Arrival) -> Content {
    let format = arrival.message.as_ref().map(|(_, format)| format.clone());
    (arrival.blob, format.unwrap_or_default())
}

/// The documents of contents, in their order: read as they lie, on all processors.
fn read(repo: &Repository, contents: &[Content]) -> Vec<Result<Option<Document>, Error>> {
    let store = repo.store();
    let absent = |id: &ObjectId| {
        Error::not_found(format!("{id} lies on a remote: 'turntree fetch --whole' brings it here"))
    };
    let found = contents.iter().map(|(id, _)| match store.has_distant() && !store.is_here(id) {
        true => Err(absent(id)),
        false => Ok(None),
    });
    let found: Mutex<Vec<Result<Option<Document>, Error>>> = Mutex::new(found.collect());
    let here = |at: &usize| {
        found.lock().unwrap_or_else(PoisonError::into_inner).get(*at).is_some_and(Result::is_ok)
    };
    let numbers: Vec<usize> = (0..contents.len()).filter(here).collect();
    let ids: Vec<ObjectId> =
        numbers.iter().filter_map(|at| contents.get(*at)).map(|(id, _)| *id).collect();
    store.visit(&ids, &|at, object| {
        let Some(at) = numbers.get(at) else { return };
        let Some((id, format)) = contents.get(*at) else { return };
        let document = match object {
            Ok(object) if object.kind == Kind::Blob => Ok(Document::of(format, &object.bytes)),
            Ok(object) => Err(Error::corrupt(id, "a blob", object.kind)),
            // It went on purpose: nobody finds it.
            Err(error) if matches!(error.kind(), ErrorKind::Expired | ErrorKind::Redacted) => {
                Ok(None)
            }
            Err(error) => Err(error),
        };
        let mut found = found.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(place) = found.get_mut(*at) {
            *place = document;
        }
    });
    found.into_inner().unwrap_or_else(PoisonError::into_inner)
}

impl Taken {
    /// Looks for contents among the documents.
    fn find(
        change: &Connection,
        names: &mut TextTable<'_>,
        contents: impl Iterator<Item = Content>,
    ) -> Attempt<Self> {
        let mut taken = Self::default();
        let mut find = change.prepare(FIND_DOCUMENT)?;
        for content in contents {
            if let Entry::Vacant(place) = taken.documents.entry(content) {
                let known = known(&mut find, names, place.key())?;
                if known.is_none() {
                    taken.unknown.push(place.key().clone());
                }
                place.insert(known.unwrap_or_default());
            }
        }
        Ok(taken)
    }

    /// Reads what is unknown and adds it; returns how many documents and words came.
    fn take_up(
        &mut self,
        change: &Connection,
        names: &mut TextTable<'_>,
        repo: &Repository,
    ) -> Attempt<(i64, i64)> {
        let mut add = (change.prepare(ADD_DOCUMENT)?, change.prepare(ADD_POSTINGS)?);
        let unknown = std::mem::take(&mut self.unknown);
        let read = read(repo, &unknown);
        let (mut documents, mut words) = (0, 0);
        for (content, read) in unknown.into_iter().zip(read) {
            match read {
                Ok(None) => {}
                Ok(Some(document)) => {
                    documents += 1;
                    words += document.words.cast_signed();
                    let number = Some(insert(&mut add, names, &content, &document)?);
                    self.documents.insert(content, Known { number, links: document.links });
                }
                Err(error) => {
                    self.lost.insert(content.0);
                    self.damage.insert(error.to_string());
                }
            }
        }
        Ok((documents, words))
    }
}

fn known(
    find: &mut Statement<'_>,
    names: &mut TextTable<'_>,
    (blob, format): &Content,
) -> Attempt<Option<Known>> {
    let found = find
        .query_row(params![blob.as_bytes(), names.number(format)?], |row| {
            Ok((row.get::<_, i64>(0)?, row.get::<_, Option<Vec<u8>>>(1)?))
        })
        .optional()?;
    Ok(found.map(|(number, links)| Known {
        number: Some(number),
        links: ToolLinks::decode(&links.unwrap_or_default()),
    }))
}

fn insert(
    (add_document, add_postings): &mut (Statement<'_>, Statement<'_>),
    names: &mut TextTable<'_>,
    (blob, format): &Content,
    document: &Document,
) -> Attempt<i64> {
    let links = document.links.encode();
    let links = (!links.is_empty()).then_some(links);
    let words = document.words.cast_signed();
    let values = params![blob.as_bytes(), names.number(format)?, words, links];
    let number = add_document.insert(values)?;
    add_postings.execute(params![number, document.marked_words])?;
    Ok(number)
}

/// Adds a turn. One of which something could not be read is compared with no turn that there is, so it is
/// taken up again.
fn insert_turn(
    change: &Connection,
    names: &mut TextTable<'_>,
    turn: &ArrivedAt,
    is_whole: bool,
) -> Attempt<i64> {
    let before = if is_whole { mark_of(&turn.before) } else { vec![0] };
    let session = names.number(&turn.session)?;
    let add = "INSERT INTO turns (commit_id, before, session, turn, time)
        VALUES (?1, ?2, ?3, ?4, ?5)";
    let values =
        params![turn.commit.as_bytes(), before, session, turn.turn.cast_signed(), turn.time.micros];
    change.execute(add, values)?;
    Ok(change.last_insert_rowid())
}

fn insert_places(
    change: &Connection,
    (names, tools): (&mut TextTable<'_>, &mut TextTable<'_>),
    turn: i64,
    arrivals: &[Arrival],
    documents: &HashMap<Content, Known>,
) -> Attempt<()> {
    let known = |arrival: &Arrival| documents.get(&content_of(arrival));
    let links = arrivals.iter().filter_map(known).flat_map(|known| &known.links.0);
    let called = links.filter_map(|(number, name)| Some((*number, name.clone()?))).collect();
    let add = "INSERT OR IGNORE INTO places VALUES (?1, ?2, ?3, ?4, ?5, ?6)";
    let mut add = change.prepare(add)?;
    for arrival in arrivals {
        let Some(Known { number: Some(number), links }) = known(arrival) else { continue };
        let role = arrival.message.as_ref().map(|(role, _)| *role as u8);
        let used = links.tools(&called);
        let used = if used.is_empty() { None } else { Some(tools.number(&used)?) };
        let section = names.number(&arrival.section)?;
        let key = names.key_number(&arrival.key)?;
        add.execute(params![number, turn, section, key, role, used])?;
    }
    Ok(())
}
