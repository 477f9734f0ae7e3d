//! Finds the documents that have all words, in rank order, and the oldest wanted place of each.
//!
//! The words, the length and the age of a document bound its rank. If only some places are wanted,
//! the age depends on the place. A place is looked up only once no other document can rank higher.
//! For a word that most documents have, a search therefore looks up little more than the hits that
//! it shows.

use std::cmp::{Ordering, Reverse};
use std::collections::{BinaryHeap, HashMap, HashSet};
use std::ops::ControlFlow;

use rusqlite::{Connection, Row, Statement};
use turntree::context::{Role, Selection};
use turntree::object::ObjectId;

use super::measures::Measures;
use super::postings::each_posting;
use super::segments::each_list;
use super::{DOCUMENTS, Index, IndexError, IndexResult, NEWEST, TextTable, WORDS, id_of};
use crate::search::query::Terms;
use crate::search::rank::{Totals, recency, times_of};

const ROLES: [Role; 5] = [Role::System, Role::User, Role::Assistant, Role::Tool, Role::Other];

/// From this number of documents, one query for all documents with a wanted place is cheaper than a
/// lookup of each document.
pub(super) const MANY_DOCUMENTS: usize = 2048;

/// The filter of a search.
#[derive(Debug, Clone, Default)]
pub(in crate::search) struct SearchFilter<'q> {
    pub(in crate::search) session: Option<&'q str>,
    pub(in crate::search) roles: &'q [Role],
    pub(in crate::search) tool: Option<&'q str>,
    /// Only later turns, in microseconds since 1970.
    pub(in crate::search) since: Option<i64>,
    pub(in crate::search) paths: Selection,
}

/// A document that has all words, with its oldest wanted place.
#[derive(Debug, Clone)]
pub(in crate::search) struct Candidate {
    pub(in crate::search) blob: ObjectId,
    /// The format of a message. Empty for other entries.
    pub(in crate::search) format: String,
    pub(in crate::search) session: String,
    pub(in crate::search) commit: ObjectId,
    pub(in crate::search) turn: u64,
    pub(in crate::search) section: String,
    pub(in crate::search) key: String,
    pub(in crate::search) role: Option<Role>,
    pub(in crate::search) tools: Vec<String>,
}

/// A place of a document, as stored in the tables.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct DocumentPlace {
    time: i64,
    turn: i64,
    commit: ObjectId,
    session: i64,
    section: i64,
    key: i64,
    role: Option<i64>,
    tools: Option<i64>,
}

/// A document that has all words, with the score of these words.
#[derive(Debug, Clone, Copy, PartialEq)]
struct ScoredDocument {
    document: u32,
    score: f64,
    /// An upper bound of its rank.
    most: f64,
}

/// A document, as stored in the tables, with its oldest wanted place.
pub(super) struct PlacedDocument {
    blob: ObjectId,
    format: i64,
    place: DocumentPlace,
}

/// Such a document with its rank.
struct RankedDocument {
    rank: f64,
    found: PlacedDocument,
}

impl Eq for ScoredDocument {}

impl PartialOrd for ScoredDocument {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl Ord for ScoredDocument {
    fn cmp(&self, other: &Self) -> Ordering {
        self.most.total_cmp(&other.most).then(self.document.cmp(&other.document))
    }
}

impl PartialEq for RankedDocument {
    fn eq(&self, other: &Self) -> bool {
        self.cmp(other) == Ordering::Equal
    }
}

impl Eq for RankedDocument {}

impl PartialOrd for RankedDocument {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl Ord for RankedDocument {
    /// The higher rank is greater. The newer document is greater among equal ranks.
    fn cmp(&self, other: &Self) -> Ordering {
        let others = |found: &Self| (found.found.place.time, Reverse(found.found.blob));
        self.rank.total_cmp(&other.rank).then_with(|| others(self).cmp(&others(other)))
    }
}

impl Index {
    /// Calls `each` with the documents that have all words of `terms` in a wanted place, the best
    /// first, until `each` breaks. The words need not be adjacent. Returns the number of documents
    /// that have all words in any place.
    pub(in crate::search) fn find(
        &self,
        terms: &Terms,
        wanted: &SearchFilter<'_>,
        each: &mut dyn FnMut(Candidate) -> ControlFlow<()>,
    ) -> IndexResult<u64> {
        let view = self.view()?;
        let (mut names, mut tools) =
            (TextTable::new(&view, "names"), TextTable::new(&view, "tools"));
        let Some(conditions) = self.conditions(wanted, &mut names)? else { return Ok(0) };
        let newest = self.number(NEWEST)?;
        // The measure of a document holds the age of its oldest place, which the filter may
        // exclude.
        let any_place = conditions.is_empty() && wanted.paths.is_all();
        let mut scored =
            self.score_documents(&view, &terms.words(), any_place.then_some(newest))?;
        let all = scored.len() as u64;
        if !conditions.is_empty() && scored.len() >= MANY_DOCUMENTS {
            let wanted = documents_at(&view, &conditions)?;
            scored.retain(|it| wanted.contains(&it.document));
        }
        let mut left = BinaryHeap::from(scored);
        let mut places = PlaceLookup::new(&view, &conditions, wanted, newest)?;
        let mut found: BinaryHeap<RankedDocument> = BinaryHeap::new();
        loop {
            // Look up documents until none of the rest can rank above the best one.
            while let Some(next) = left.peek()
                && found.peek().is_none_or(|best| best.rank <= next.most)
            {
                found.extend(places.look_up(*next, &mut names)?);
                left.pop();
            }
            let Some(best) = found.pop() else { return Ok(all) };
            if each(candidate(&best.found, &mut names, &mut tools)?).is_break() {
                return Ok(all);
            }
        }
    }

    /// Returns the documents that have all words, with the score of the words in each. With
    /// `newest`, the upper bound of the rank includes the age.
    fn score_documents(
        &self,
        view: &Connection,
        words: &[(&str, bool)],
        newest: Option<i64>,
    ) -> IndexResult<Vec<ScoredDocument>> {
        let totals = Totals {
            documents: self.number(DOCUMENTS)?.cast_unsigned(),
            words: self.number(WORDS)?.cast_unsigned(),
        };
        let mut measures = Measures::open(view)?;
        let mut scored: Vec<ScoredDocument> = Vec::new();
        for (at, word) in words.iter().enumerate() {
            let (steps, documents) = word_steps(view, *word, &mut measures)?;
            let weight = totals.weight(documents);
            if at == 0 {
                let all = (0..).zip(&steps).filter(|(_, step)| **step > 0);
                let found = |(document, _)| ScoredDocument { document, score: 0.0, most: 0.0 };
                scored = all.map(found).collect();
            }
            let step_in =
                |it: &ScoredDocument| steps.get(it.document as usize).copied().unwrap_or_default();
            scored.retain(|it| step_in(it) > 0);
            for scored in &mut scored {
                let step = step_in(scored);
                let times = times_of(step.saturating_sub(1)).ok_or(IndexError::Damaged)?;
                let length = measures.get(scored.document)?.words;
                scored.score += totals.word_score(weight, times, u64::from(length));
            }
        }
        for scored in &mut scored {
            let micros = measures.get(scored.document)?.micros();
            let left = micros.zip(newest).map_or(1.0, |(micros, newest)| recency(micros, newest));
            scored.most = scored.score * left;
        }
        Ok(scored)
    }

    /// Returns the filter as SQL conditions, or `None` if no place can match.
    pub(super) fn conditions(
        &self,
        wanted: &SearchFilter<'_>,
        names: &mut TextTable<'_>,
    ) -> IndexResult<Option<String>> {
        let mut conditions = String::new();
        if let Some(session) = wanted.session {
            let Some(number) = names.find(session)? else { return Ok(None) };
            conditions.push_str(&format!(" AND t.session = {number}"));
        }
        if let Some(since) = wanted.since {
            conditions.push_str(&format!(" AND t.time > {since}"));
        }
        if !wanted.roles.is_empty() {
            let roles = wanted.roles.iter().map(|role| (*role as u8).to_string());
            let roles = roles.collect::<Vec<_>>().join(",");
            conditions.push_str(&format!(" AND p.role IN ({roles})"));
        }
        if let Some(tool) = wanted.tool {
            let mut query = self.connection.prepare("SELECT id, name FROM tools")?;
            let mut rows = query.query([])?;
            let mut having = Vec::new();
            while let Some(row) = rows.next()? {
                let list: String = row.get(1)?;
                if list.lines().any(|name| name.eq_ignore_ascii_case(tool)) {
                    having.push(row.get::<_, i64>(0)?.to_string());
                }
            }
            conditions.push_str(&format!(" AND p.tools IN ({})", having.join(",")));
        }
        Ok(Some(conditions))
    }
}

/// Looks up the wanted places of one document at a time.
pub(super) struct PlaceLookup<'c, 'w> {
    query: Statement<'c>,
    wanted: &'w SearchFilter<'w>,
    /// Whether the paths include a section and key, cached for each pair.
    allowed: HashMap<(i64, i64), bool>,
    /// The time of the newest turn of the store.
    newest: i64,
}

impl<'c, 'w> PlaceLookup<'c, 'w> {
    pub(super) fn new(
        view: &'c Connection,
        conditions: &str,
        wanted: &'w SearchFilter<'w>,
        newest: i64,
    ) -> IndexResult<Self> {
        let query = format!(
            "SELECT d.blob, d.format, t.time, t.turn, t.commit_id, t.session, p.section, p.key,
                p.role, p.tools
            FROM documents d CROSS JOIN places p ON p.document = d.id
                CROSS JOIN turns t ON t.id = p.turn
            WHERE d.id = ?1{conditions}"
        );
        Ok(Self { query: view.prepare(&query)?, wanted, allowed: HashMap::new(), newest })
    }

    /// Returns a document with its rank, or `None` if it has no wanted place.
    fn look_up(
        &mut self,
        scored: ScoredDocument,
        names: &mut TextTable<'_>,
    ) -> IndexResult<Option<RankedDocument>> {
        let Some(found) = self.oldest(scored.document, names)? else { return Ok(None) };
        let rank = scored.score * recency(found.place.time, self.newest);
        Ok(Some(RankedDocument { rank, found }))
    }

    /// Returns a document with its oldest wanted place, or `None` if it has no wanted place.
    pub(super) fn oldest(
        &mut self,
        document: u32,
        names: &mut TextTable<'_>,
    ) -> IndexResult<Option<PlacedDocument>> {
        let Self { query, wanted, allowed, .. } = self;
        let mut rows = query.query([document])?;
        let mut oldest: Option<PlacedDocument> = None;
        while let Some(row) = rows.next()? {
            let place = place(row)?;
            let DocumentPlace { section, key, .. } = place;
            if !wanted.paths.is_all() {
                let known = match allowed.get(&(section, key)) {
                    Some(known) => *known,
                    None => wanted.paths.has(&names.text(section)?, &names.key(key)?),
                };
                allowed.insert((section, key), known);
                if !known {
                    continue;
                }
            }
            if let Some(known) = &oldest
                && !is_before(&place, &known.place, names)?
            {
                continue;
            }
            oldest = Some(PlacedDocument { blob: id_at(row, 0)?, format: row.get(1)?, place });
        }
        Ok(oldest)
    }
}

/// Returns the documents with a place that meets the conditions. Scans all places.
pub(super) fn documents_at(view: &Connection, conditions: &str) -> IndexResult<HashSet<u32>> {
    let query = format!(
        "SELECT DISTINCT p.document FROM places p CROSS JOIN turns t ON t.id = p.turn
        WHERE true{conditions}"
    );
    let mut query = view.prepare(&query)?;
    let documents = query.query_map([], |row| row.get(0))?;
    Ok(documents.collect::<Result<_, _>>()?)
}

/// Returns for each document the step of a word plus one, or 0 if it lacks the word, and the number
/// of documents that have it. A prefix always counts as step 0.
fn word_steps(
    view: &Connection,
    (word, may_go_on): (&str, bool),
    measures: &mut Measures<'_>,
) -> IndexResult<(Vec<u8>, u64)> {
    let mut steps = vec![0_u8; measures.len() as usize];
    each_list(view, word, may_go_on, &mut |_, list| {
        let mut is_whole = true;
        each_posting(list, |document, step| match steps.get_mut(document as usize) {
            Some(place) => *place = if may_go_on { 1 } else { step.saturating_add(1) },
            None => is_whole = false,
        })?;
        is_whole.then_some(())
    })?;
    let mut having = 0;
    for (document, step) in (0..).zip(&mut steps).filter(|(_, step)| **step > 0) {
        match measures.get(document)?.words {
            0 => *step = 0,
            _ => having += 1,
        }
    }
    Ok((steps, having))
}

fn place(row: &Row<'_>) -> IndexResult<DocumentPlace> {
    Ok(DocumentPlace {
        time: row.get(2)?,
        turn: row.get(3)?,
        commit: id_at(row, 4)?,
        session: row.get(5)?,
        section: row.get(6)?,
        key: row.get(7)?,
        role: row.get(8)?,
        tools: row.get(9)?,
    })
}

fn id_at(row: &Row<'_>, column: usize) -> IndexResult<ObjectId> {
    let bytes = row.get_ref(column)?.as_blob().map_err(|_| IndexError::Damaged)?;
    id_of(bytes).ok_or(IndexError::Damaged)
}

/// Returns true if a place precedes the other one: by its time, then its turn, then its path.
fn is_before(
    one: &DocumentPlace,
    other: &DocumentPlace,
    names: &mut TextTable<'_>,
) -> IndexResult<bool> {
    let when = |place: &DocumentPlace| (place.time, place.turn, place.commit);
    if when(one) != when(other) {
        return Ok(when(one) < when(other));
    }
    let mut path = |place: &DocumentPlace| -> IndexResult<_> {
        let (section, key) = (names.text(place.section)?, names.key(place.key)?);
        Ok((section, key.parse::<u64>().unwrap_or(u64::MAX), key))
    };
    Ok(path(one)? < path(other)?)
}

pub(super) fn candidate(
    found: &PlacedDocument,
    names: &mut TextTable<'_>,
    tools: &mut TextTable<'_>,
) -> IndexResult<Candidate> {
    let place = &found.place;
    let used = place.tools.map(|number| tools.text(number)).transpose()?.unwrap_or_default();
    let role = place.role.and_then(|code| ROLES.into_iter().find(|role| *role as i64 == code));
    Ok(Candidate {
        blob: found.blob,
        format: names.text(found.format)?,
        session: names.text(place.session)?,
        commit: place.commit,
        turn: place.turn.cast_unsigned(),
        section: names.text(place.section)?,
        key: names.key(place.key)?,
        role,
        tools: used.lines().map(str::to_owned).collect(),
    })
}
