//! Ranks sessions by a question, and the documents of each session.
//!
//! The best document of a session and all documents together decide: a session that is about the
//! words of a question has them in many entries, and a list of names has them in one. Prompts
//! and answers count more than the output of tools, and that more than text that a client added.

use std::cmp::Ordering;
use std::collections::{BinaryHeap, HashMap};

use rusqlite::Connection;

use super::dictionary::{Dictionary, documents_with};
use super::find::{Candidate, MANY_DOCUMENTS, PlaceLookup, SearchFilter, candidate, documents_at};
use super::measures::Measures;
use super::{DOCUMENTS, Index, IndexError, IndexResult, NEWEST, TextTable, WORDS};
use crate::search::query::Terms;
use crate::search::question::{Pattern, Question, Unit};
use crate::search::rank::{Share, Totals, coverage, dimmed, loudness, rarity, recency, times_of};

/// How much a document counts that has only some of the words of a term such as `src/lib.rs`.
const PART_OF_TERM: f64 = 0.4;

/// A document with at least one term.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(in crate::search) struct RankedDocument {
    pub(in crate::search) document: u32,
    pub(in crate::search) rank: f64,
    /// The terms that it has, one bit each.
    pub(in crate::search) units: u64,
}

/// A session with such documents.
#[derive(Debug)]
pub(in crate::search) struct RankedSession<H> {
    session: u32,
    /// The rank by all documents together.
    pub(in crate::search) topic: f64,
    /// The rank.
    pub(in crate::search) rank: f64,
    /// The documents, in any order.
    pub(in crate::search) documents: Vec<RankedDocument>,
    /// The hits, once the documents were read.
    pub(in crate::search) hits: Option<Vec<H>>,
}

impl Eq for RankedDocument {}

impl PartialOrd for RankedDocument {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl Ord for RankedDocument {
    fn cmp(&self, other: &Self) -> Ordering {
        self.rank.total_cmp(&other.rank).then(self.document.cmp(&other.document))
    }
}

impl<H> PartialEq for RankedSession<H> {
    fn eq(&self, other: &Self) -> bool {
        self.cmp(other) == Ordering::Equal
    }
}

impl<H> Eq for RankedSession<H> {}

impl<H> PartialOrd for RankedSession<H> {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl<H> Ord for RankedSession<H> {
    fn cmp(&self, other: &Self) -> Ordering {
        self.rank.total_cmp(&other.rank).then(self.session.cmp(&other.session))
    }
}

/// The ranked sessions of a question.
pub(in crate::search) struct Ranking<'v, H> {
    pub(in crate::search) question: Question,
    /// The number of documents that have all terms.
    pub(in crate::search) complete: u64,
    pub(in crate::search) sessions: BinaryHeap<RankedSession<H>>,
    /// The weight of each term.
    pub(in crate::search) weights: Vec<f64>,
    places: PlaceLookup<'v, 'v>,
    names: TextTable<'v>,
    tools: TextTable<'v>,
}

impl<'v, H> Ranking<'v, H> {
    /// Ranks the sessions by terms. `None` if no place can be wanted.
    pub(in crate::search) fn of(
        index: &Index,
        view: &'v Connection,
        terms: &Terms,
        wanted: &'v SearchFilter<'v>,
    ) -> IndexResult<Option<Self>> {
        let (mut names, tools) = (TextTable::new(view, "names"), TextTable::new(view, "tools"));
        let Some(conditions) = index.conditions(wanted, &mut names)? else { return Ok(None) };
        let newest = index.number(NEWEST)?;
        let question = Question::of(terms, &Dictionary::of(view)?)?;
        let mut scores = Scores::new(index, view)?;
        for (at, unit) in question.units.iter().enumerate() {
            scores.add(at, unit)?;
        }
        if !conditions.is_empty() && scores.found.len() >= MANY_DOCUMENTS {
            let wanted = documents_at(view, &conditions)?;
            scores.found.retain(|document| wanted.contains(document));
        }
        let places = PlaceLookup::new(view, &conditions, wanted, newest)?;
        let weights = std::mem::take(&mut scores.weights);
        let is_one = wanted.session.is_some();
        let (complete, sessions) = scores.sessions(&question, &weights, newest, is_one)?;
        Ok(Some(Self { question, complete, sessions, weights, places, names, tools }))
    }

    /// Returns the oldest wanted place of a document.
    pub(in crate::search) fn candidate(
        &mut self,
        document: RankedDocument,
    ) -> IndexResult<Option<Candidate>> {
        let found = self.places.oldest(document.document, &mut self.names)?;
        found.map(|found| candidate(&found, &mut self.names, &mut self.tools)).transpose()
    }
}

/// The scores of all documents and sessions.
struct Scores<'v> {
    view: &'v Connection,
    measures: Measures<'v>,
    totals: Totals,
    sizes: SessionSizes,
    /// The score of each document, indexed by its number, and the documents with a score.
    documents: Vec<Score>,
    found: Vec<u32>,
    /// How well each document has the current unit, and the documents that have it.
    values: Vec<Value>,
    having: Vec<u32>,
    /// The rank of each session by all its documents, keyed by its number.
    topics: HashMap<u32, f64>,
    /// The weights of the units.
    weights: Vec<f64>,
}

/// The numbers of documents of the sessions.
struct SessionSizes {
    sizes: HashMap<u32, u32>,
    mean: f64,
}

#[derive(Debug, Clone, Copy, Default)]
struct Score {
    score: f64,
    /// The sum of the weights of the units that it has.
    covered: f64,
    /// The units that it has, one bit each.
    units: u64,
}

/// How well a document has a unit, and a pattern of it.
#[derive(Debug, Clone, Copy, Default)]
struct Value {
    value: f32,
    is_complete: bool,
    /// The number of words of the current pattern that it has, and their value.
    words: u8,
    pattern: f32,
}

impl SessionSizes {
    fn read(view: &Connection) -> IndexResult<Self> {
        let mut query = view.prepare("SELECT id, documents FROM sessions WHERE documents > 0")?;
        let sizes = query.query_map([], |row| Ok((row.get(0)?, row.get(1)?)))?;
        let sizes: HashMap<u32, u32> = sizes.collect::<Result<_, _>>()?;
        let all: f64 = sizes.values().map(|size| f64::from(*size)).sum();
        let count = u32::try_from(sizes.len()).map_or(1.0, f64::from);
        Ok(Self { mean: all / count.max(1.0), sizes })
    }
}

impl<'v> Scores<'v> {
    fn new(index: &Index, view: &'v Connection) -> IndexResult<Self> {
        let totals = Totals {
            documents: index.number(DOCUMENTS)?.cast_unsigned(),
            words: index.number(WORDS)?.cast_unsigned(),
        };
        let measures = Measures::open(view)?;
        let documents = measures.len() as usize;
        Ok(Self {
            view,
            measures,
            totals,
            sizes: SessionSizes::read(view)?,
            documents: vec![Score::default(); documents],
            found: Vec::new(),
            values: vec![Value::default(); documents],
            having: Vec::new(),
            topics: HashMap::new(),
            weights: Vec::new(),
        })
    }

    /// Adds the scores of a unit.
    fn add(&mut self, number: usize, unit: &Unit) -> IndexResult<()> {
        let mut together = 0.0;
        for (at, pattern) in unit.patterns.iter().enumerate() {
            let weight = self.add_pattern(pattern, at == 0)?;
            if at == 0 && pattern.words.len() > 1 {
                together = weight;
            }
        }
        let value_of = |document: &u32| self.values.get(*document as usize);
        let complete = self.having.iter().filter_map(value_of).filter(|it| it.is_complete).count();
        let weight = f64::max(self.totals.weight(complete as u64), together);
        self.weights.push(weight);
        let mut evidence: HashMap<u32, f64> = HashMap::new();
        let mut last: Option<(u32, f64)> = None;
        for document in std::mem::take(&mut self.having) {
            let Some(place) = self.values.get_mut(document as usize) else { continue };
            let Value { value, is_complete, .. } = std::mem::take(place);
            let value = f64::from(value);
            let Some(score) = self.documents.get_mut(document as usize) else { continue };
            if score.covered == 0.0 {
                self.found.push(document);
            }
            score.score += weight * value;
            score.covered += weight * if is_complete { 1.0 } else { PART_OF_TERM };
            score.units |= u64::from(is_complete) << number;
            let measure = self.measures.get(document)?;
            let heard = value * loudness(measure.voice);
            // Documents of a session follow each other.
            match &mut last {
                Some((session, sum)) if *session == measure.session => *sum += heard,
                _ => {
                    let before = last.replace((measure.session, heard));
                    before.into_iter().for_each(|(session, sum)| {
                        *evidence.entry(session).or_default() += sum;
                    });
                }
            }
        }
        last.into_iter().for_each(|(session, sum)| *evidence.entry(session).or_default() += sum);
        let rarity = rarity(self.sizes.sizes.len() as u64, evidence.len() as u64);
        for (session, evidence) in evidence {
            let size = self.sizes.sizes.get(&session).copied().unwrap_or_default();
            let share = Share { evidence, size: f64::from(size) / self.sizes.mean.max(1.0) };
            *self.topics.entry(session).or_default() += rarity * share.saturated();
        }
        Ok(())
    }

    /// Adds the values of a pattern. Returns the sum of the weights of its words.
    fn add_pattern(&mut self, pattern: &Pattern, may_be_partial: bool) -> IndexResult<f64> {
        let last = pattern.words.len().saturating_sub(1);
        let mut lists = Vec::new();
        for (at, word) in pattern.words.iter().enumerate() {
            let is_prefix = pattern.is_prefix && at == last;
            let list = documents_with(self.view, word, is_prefix, &mut self.measures)?;
            lists.push((self.totals.weight(list.len() as u64), list));
        }
        let all: f64 = lists.iter().map(|(weight, _)| weight).sum();
        let words = u8::try_from(lists.len()).unwrap_or(u8::MAX);
        let mut having = Vec::new();
        for (weight, list) in lists {
            for (document, step) in list {
                let times = times_of(step).ok_or(IndexError::Damaged)?;
                let length = u64::from(self.measures.get(document)?.words);
                let found = self.totals.word_score(weight / all, times, length);
                let value = self.values.get_mut(document as usize).ok_or(IndexError::Damaged)?;
                if value.words == 0 {
                    having.push(document);
                }
                value.words = value.words.saturating_add(1);
                value.pattern += narrow(found);
            }
        }
        for document in having {
            let Some(value) = self.values.get_mut(document as usize) else { continue };
            let is_complete = value.words == words;
            let found = std::mem::take(&mut value.pattern);
            value.words = 0;
            if !is_complete && !may_be_partial {
                continue;
            }
            let share = if is_complete { 1.0 } else { PART_OF_TERM };
            if value.value == 0.0 {
                self.having.push(document);
            }
            value.value = value.value.max(found * narrow(pattern.factor * share));
            value.is_complete |= is_complete;
        }
        Ok(all)
    }

    /// Returns the number of documents that have all units, and the sessions. With `is_one`, all
    /// documents are of one session.
    fn sessions<H>(
        mut self,
        question: &Question,
        weights: &[f64],
        newest: i64,
        is_one: bool,
    ) -> IndexResult<(u64, BinaryHeap<RankedSession<H>>)> {
        let bits = |is_wanted: &dyn Fn(&Unit) -> bool| {
            let units = question.units.iter().enumerate().filter(|(_, unit)| is_wanted(unit));
            units.fold(0_u64, |bits, (at, _)| bits | (1 << at))
        };
        let (all, required) = (bits(&|_| true), bits(&|unit| unit.is_required));
        let weight: f64 = weights.iter().sum();
        let mut complete = 0;
        let mut sessions: HashMap<u32, Vec<RankedDocument>> = HashMap::new();
        for document in std::mem::take(&mut self.found) {
            let Some(score) = self.documents.get(document as usize) else { continue };
            let Score { score, covered, units } = *score;
            if units & required != required {
                continue;
            }
            complete += u64::from(units == all);
            let measure = self.measures.get(document)?;
            let age = measure.micros().map_or(1.0, |micros| recency(micros, newest));
            let rank =
                score * coverage(covered, weight) * loudness(measure.voice).sqrt() * dimmed(age);
            let session = if is_one { u32::MAX } else { measure.session };
            let ranked = RankedDocument { document, rank, units };
            sessions.entry(session).or_default().push(ranked);
        }
        let sessions = sessions.into_iter().map(|(session, documents)| {
            let best = documents.iter().max().map_or(0.0, |best| best.rank);
            let topic = self.topics.get(&session).copied().unwrap_or_default();
            RankedSession { session, topic, rank: best + topic, documents, hits: None }
        });
        Ok((complete, sessions.collect()))
    }
}

#[expect(clippy::cast_possible_truncation, reason = "of a rank the leading digits matter")]
const fn narrow(value: f64) -> f32 {
    value as f32
}
