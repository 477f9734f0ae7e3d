//! Finding: which documents have all words, the best first, and where each stands.
//!
//! The words of a document say what it scores at most; its age, which takes from that, and its place are
//! looked up once no other document can come before it. So of a word that most documents have, only those
//! are looked up that are shown, and some beside them.

use std::cmp::{Ordering, Reverse};
use std::collections::{BinaryHeap, HashMap};
use std::ops::ControlFlow;

use rusqlite::{Connection, Row, Statement, TransactionBehavior};
use turntree::context::{Role, Selection};
use turntree::object::ObjectId;

use super::{Attempt, DOCUMENTS, Index, NEWEST, TextTable, Trouble, WORDS, id_of};
use crate::search::query::Terms;
use crate::search::rank::{STEPS, Totals, fading};

const ROLES: [Role; 5] = [Role::System, Role::User, Role::Assistant, Role::Tool, Role::Other];

/// Where something may be found.
#[derive(Debug, Clone, Default)]
pub(in crate::search) struct Wanted<'q> {
    pub(in crate::search) session: Option<&'q str>,
    pub(in crate::search) roles: &'q [Role],
    pub(in crate::search) tool: Option<&'q str>,
    /// In microseconds since 1970.
    pub(in crate::search) since: Option<i64>,
    pub(in crate::search) paths: Selection,
}

/// A document that has all words, and the oldest place of it that is wanted.
#[derive(Debug, Clone)]
pub(in crate::search) struct Candidate {
    pub(in crate::search) blob: ObjectId,
    /// The format of a message, else empty.
    pub(in crate::search) format: String,
    pub(in crate::search) session: String,
    pub(in crate::search) commit: ObjectId,
    pub(in crate::search) turn: u64,
    pub(in crate::search) section: String,
    pub(in crate::search) key: String,
    pub(in crate::search) role: Option<Role>,
    pub(in crate::search) tools: Vec<String>,
}

/// A place of a document, as it lies in the tables.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Place {
    time: i64,
    turn: i64,
    commit: ObjectId,
    session: i64,
    section: i64,
    key: i64,
    role: Option<i64>,
    tools: Option<i64>,
}

/// A document that has all words, and what these are worth.
#[derive(Debug, Clone, Copy, PartialEq)]
struct Scored {
    document: i64,
    words: u64,
    score: f64,
}

/// A document, as it lies in the tables, with its rank.
struct Found {
    rank: f64,
    blob: ObjectId,
    format: i64,
    place: Place,
}

impl Eq for Scored {}

impl PartialOrd for Scored {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl Ord for Scored {
    fn cmp(&self, other: &Self) -> Ordering {
        self.score.total_cmp(&other.score).then(self.document.cmp(&other.document))
    }
}

impl PartialEq for Found {
    fn eq(&self, other: &Self) -> bool {
        self.cmp(other) == Ordering::Equal
    }
}

impl Eq for Found {}

impl PartialOrd for Found {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl Ord for Found {
    /// The better one is greater; among equals the newer one.
    fn cmp(&self, other: &Self) -> Ordering {
        let others = |found: &Self| (found.place.time, Reverse(found.blob));
        self.rank.total_cmp(&other.rank).then_with(|| others(self).cmp(&others(other)))
    }
}

impl Index {
    /// Gives `each` the documents that have all words of `terms` somewhere that is wanted, whether these
    /// stand together or not, the best first, until that has enough. Returns how many documents have all
    /// words anywhere.
    pub(in crate::search) fn find(
        &self,
        terms: &Terms,
        wanted: &Wanted<'_>,
        each: &mut dyn FnMut(Candidate) -> ControlFlow<()>,
    ) -> Attempt<u64> {
        // What another process changes meanwhile is not seen.
        let behavior = TransactionBehavior::Deferred;
        let view = rusqlite::Transaction::new_unchecked(&self.connection, behavior)?;
        let (mut names, mut tools) =
            (TextTable::new(&view, "names"), TextTable::new(&view, "tools"));
        let Some(conditions) = self.conditions(wanted, &mut names)? else { return Ok(0) };
        let mut left = BinaryHeap::from(self.scored(&view, &terms.words())?);
        let all = left.len() as u64;
        let mut places = Places::new(&view, &conditions, wanted, self.number(NEWEST)?)?;
        let mut found: BinaryHeap<Found> = BinaryHeap::new();
        loop {
            // Age takes from a score and adds nothing: while the best that was looked up is not better
            // than what another one scores at most, that may come before it.
            while let Some(next) = left.peek()
                && found.peek().is_none_or(|best| best.rank <= next.score)
            {
                found.extend(places.look_up(*next, &mut names)?);
                left.pop();
            }
            let Some(best) = found.pop() else { return Ok(all) };
            if each(candidate(&best, &mut names, &mut tools)?).is_break() {
                return Ok(all);
            }
        }
    }

    /// The documents that have all words, with what the words are worth in each.
    fn scored(&self, view: &Connection, words: &[(&str, bool)]) -> Attempt<Vec<Scored>> {
        let query = "SELECT d.id, d.words FROM postings
            CROSS JOIN documents d ON d.id = postings.rowid WHERE postings MATCH ?1";
        let mut query = view.prepare(query)?;
        let mut rows = query.query([all_of(words, None)])?;
        let mut scored = Vec::new();
        while let Some(row) = rows.next()? {
            let words = row.get::<_, i64>(1)?.cast_unsigned();
            scored.push(Scored { document: row.get(0)?, words, score: 0.0 });
        }
        scored.sort_unstable_by_key(|it| it.document);
        let totals = Totals {
            documents: self.number(DOCUMENTS)?.cast_unsigned(),
            words: self.number(WORDS)?.cast_unsigned(),
        };
        for (at, word) in words.iter().enumerate() {
            let weight = totals.weight(having(view, *word)?);
            let counts = counts(view, words, at, &scored)?;
            for (scored, times) in scored.iter_mut().zip(counts) {
                scored.score += totals.share(weight, times, scored.words);
            }
        }
        Ok(scored)
    }

    /// What is wanted, as conditions; nothing when no place can meet them.
    fn conditions(
        &self,
        wanted: &Wanted<'_>,
        names: &mut TextTable<'_>,
    ) -> Attempt<Option<String>> {
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

/// The places of documents that are wanted, looked up one document after the other.
struct Places<'c, 'w> {
    query: Statement<'c>,
    wanted: &'w Wanted<'w>,
    /// Whether sections with keys are wanted, of those that were met.
    allowed: HashMap<(i64, i64), bool>,
    /// The time of the newest turn of the store.
    newest: i64,
}

impl<'c, 'w> Places<'c, 'w> {
    fn new(
        view: &'c Connection,
        conditions: &str,
        wanted: &'w Wanted<'w>,
        newest: i64,
    ) -> Attempt<Self> {
        let query = format!(
            "SELECT d.blob, d.format, t.time, t.turn, t.commit_id, t.session, p.section, p.key,
                p.role, p.tools
            FROM documents d CROSS JOIN places p ON p.document = d.id
                CROSS JOIN turns t ON t.id = p.turn
            WHERE d.id = ?1{conditions}"
        );
        Ok(Self { query: view.prepare(&query)?, wanted, allowed: HashMap::new(), newest })
    }

    /// A document with the oldest place of it that is wanted, if one is.
    fn look_up(&mut self, scored: Scored, names: &mut TextTable<'_>) -> Attempt<Option<Found>> {
        let Self { query, wanted, allowed, newest } = self;
        let mut rows = query.query([scored.document])?;
        let mut oldest: Option<Found> = None;
        while let Some(row) = rows.next()? {
            let place = place(row)?;
            let Place { section, key, .. } = place;
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
            let rank = scored.score * fading(place.time, *newest);
            oldest = Some(Found { rank, blob: id_at(row, 0)?, format: row.get(1)?, place });
        }
        Ok(oldest)
    }
}

/// About how often each of `documents`, which are in their order, has the word `at`.
fn counts(
    view: &Connection,
    words: &[(&str, bool)],
    at: usize,
    documents: &[Scored],
) -> Attempt<Vec<f64>> {
    let mut counts = vec![1.0; documents.len()];
    let Some((word, false)) = words.get(at) else { return Ok(counts) };
    let mut query = view.prepare("SELECT rowid FROM postings WHERE postings MATCH ?1")?;
    for step in STEPS.iter().skip(1) {
        let marked = format!("\"{word}{}\"", step.sign);
        let mut rows = query.query([all_of(words, Some((at, &marked)))])?;
        while let Some(row) = rows.next()? {
            let document: i64 = row.get(0)?;
            let place = documents.binary_search_by_key(&document, |it| it.document);
            if let Some(count) = place.ok().and_then(|place| counts.get_mut(place)) {
                *count = step.counts;
            }
        }
    }
    Ok(counts)
}

/// The question that documents with all words answer, with another one in the place of the word `at`.
/// Words are letters and digits, so quotes hold them.
fn all_of(words: &[(&str, bool)], other: Option<(usize, &str)>) -> String {
    let asked = words.iter().enumerate().map(|(at, word)| match other {
        Some((number, other)) if number == at => other.to_owned(),
        _ => expression(*word),
    });
    asked.collect::<Vec<_>>().join(" AND ")
}

/// The question that documents with a word answer.
fn expression((word, may_go_on): (&str, bool)) -> String {
    if may_go_on {
        return format!("\"{word}\" *");
    }
    let marked = STEPS.iter().map(|step| format!("\"{word}{}\"", step.sign));
    format!("({})", marked.collect::<Vec<_>>().join(" OR "))
}

/// How many documents have a word.
fn having(view: &Connection, (word, may_go_on): (&str, bool)) -> Attempt<u64> {
    let count: i64 = if may_go_on {
        let query = "SELECT count(*) FROM postings WHERE postings MATCH ?1";
        view.query_row(query, [expression((word, true))], |row| row.get(0))?
    } else {
        // The signs stand together, before all letters.
        let query = "SELECT coalesce(sum(doc), 0) FROM temp.terms WHERE term >= ?1 AND term <= ?2";
        let last = STEPS.last().map_or("", |step| step.sign);
        view.query_row(query, [word, &format!("{word}{last}")], |row| row.get(0))?
    };
    Ok(count.cast_unsigned())
}

fn place(row: &Row<'_>) -> Attempt<Place> {
    Ok(Place {
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

fn id_at(row: &Row<'_>, column: usize) -> Attempt<ObjectId> {
    let bytes = row.get_ref(column)?.as_blob().map_err(|_| Trouble::Damaged)?;
    id_of(bytes).ok_or(Trouble::Damaged)
}

/// Returns whether a place comes before another: it is older, or else by its turn and its name.
fn is_before(one: &Place, other: &Place, names: &mut TextTable<'_>) -> Attempt<bool> {
    let when = |place: &Place| (place.time, place.turn, place.commit);
    if when(one) != when(other) {
        return Ok(when(one) < when(other));
    }
    let mut path = |place: &Place| -> Attempt<_> {
        let (section, key) = (names.text(place.section)?, names.key(place.key)?);
        Ok((section, key.parse::<u64>().unwrap_or(u64::MAX), key))
    };
    Ok(path(one)? < path(other)?)
}

fn candidate(
    found: &Found,
    names: &mut TextTable<'_>,
    tools: &mut TextTable<'_>,
) -> Attempt<Candidate> {
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
