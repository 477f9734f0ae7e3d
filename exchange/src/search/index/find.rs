//! Finding: which documents have all words, where each stands, and how they rank.

use std::collections::{BTreeMap, HashMap};

use rusqlite::{Connection, Row, TransactionBehavior};
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

/// A document, as it lies in the tables.
struct Found {
    document: i64,
    blob: ObjectId,
    format: i64,
    words: u64,
    place: Place,
}

impl Index {
    /// Returns the documents that have all words of `terms`, whether these stand together or not, the
    /// best first.
    pub(in crate::search) fn find(
        &self,
        terms: &Terms,
        wanted: &Wanted<'_>,
    ) -> Attempt<Vec<Candidate>> {
        // What another process changes meanwhile is not seen.
        let behavior = TransactionBehavior::Deferred;
        let view = rusqlite::Transaction::new_unchecked(&self.connection, behavior)?;
        let words = terms.words();
        let mut names = TextTable::new(&view, "names");
        let found = self.documents(&words, wanted, &mut names)?;
        let totals = Totals {
            documents: self.number(DOCUMENTS)?.cast_unsigned(),
            words: self.number(WORDS)?.cast_unsigned(),
        };
        let newest = self.number(NEWEST)?;
        let mut scores: HashMap<i64, f64> = found.iter().map(|it| (it.document, 0.0)).collect();
        for (at, word) in words.iter().enumerate() {
            let weight = totals.weight(having(&view, *word)?);
            let counts = self.counts(&words, at, &scores)?;
            for found in &found {
                let times = counts.get(&found.document).copied().unwrap_or(1.0);
                if let Some(score) = scores.get_mut(&found.document) {
                    *score += totals.share(weight, times, found.words);
                }
            }
        }
        let mut tools = TextTable::new(&view, "tools");
        let mut ranked: Vec<(f64, Found)> = found
            .into_iter()
            .map(|found| {
                let score = scores.get(&found.document).copied().unwrap_or_default();
                (score * fading(found.place.time, newest), found)
            })
            .collect();
        ranked.sort_by(|(left, a), (right, b)| {
            let newer = b.place.time.cmp(&a.place.time);
            right.total_cmp(left).then(newer).then(a.blob.cmp(&b.blob))
        });
        ranked.into_iter().map(|(_, found)| candidate(&found, &mut names, &mut tools)).collect()
    }

    /// The documents that have all words somewhere that is wanted.
    fn documents(
        &self,
        words: &[(&str, bool)],
        wanted: &Wanted<'_>,
        names: &mut TextTable<'_>,
    ) -> Attempt<Vec<Found>> {
        let Some(conditions) = self.conditions(wanted, names)? else { return Ok(Vec::new()) };
        let query = format!(
            "SELECT d.id, d.blob, d.format, d.words, t.time, t.turn, t.commit_id, t.session,
                p.section, p.key, p.role, p.tools
            FROM postings CROSS JOIN documents d ON d.id = postings.rowid
                CROSS JOIN places p ON p.document = d.id CROSS JOIN turns t ON t.id = p.turn
            WHERE postings MATCH ?1{conditions}"
        );
        let mut query = self.connection.prepare(&query)?;
        let mut rows = query.query([all_of(words, None)])?;
        let mut documents: BTreeMap<i64, Found> = BTreeMap::new();
        let mut allowed: HashMap<(i64, i64), bool> = HashMap::new();
        while let Some(row) = rows.next()? {
            let found = Found {
                document: row.get(0)?,
                blob: id_at(row, 1)?,
                format: row.get(2)?,
                words: row.get::<_, i64>(3)?.cast_unsigned(),
                place: place(row)?,
            };
            let Place { section, key, .. } = found.place;
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
            match documents.get_mut(&found.document) {
                Some(known) if is_before(&found.place, &known.place, names)? => *known = found,
                Some(_) => {}
                None => drop(documents.insert(found.document, found)),
            }
        }
        Ok(documents.into_values().collect())
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

    /// About how often documents have a word, for those that have it more than once.
    fn counts(
        &self,
        words: &[(&str, bool)],
        at: usize,
        among: &HashMap<i64, f64>,
    ) -> Attempt<HashMap<i64, f64>> {
        let mut counts = HashMap::new();
        let Some((word, false)) = words.get(at) else { return Ok(counts) };
        let mut query =
            self.connection.prepare("SELECT rowid FROM postings WHERE postings MATCH ?1")?;
        for step in STEPS.iter().skip(1) {
            let marked = format!("\"{word}{}\"", step.sign);
            let mut rows = query.query([all_of(words, Some((at, &marked)))])?;
            while let Some(row) = rows.next()? {
                let document = row.get(0)?;
                if among.contains_key(&document) {
                    counts.insert(document, step.counts);
                }
            }
        }
        Ok(counts)
    }
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
        time: row.get(4)?,
        turn: row.get(5)?,
        commit: id_at(row, 6)?,
        session: row.get(7)?,
        section: row.get(8)?,
        key: row.get(9)?,
        role: row.get(10)?,
        tools: row.get(11)?,
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
