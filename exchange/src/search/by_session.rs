//! Answers a question with the best sessions, and the best hits of each.

use std::collections::{BinaryHeap, HashSet};

use turntree::repo::Repository;

use super::answer::{SearchAnswer, SearchHit, SearchQuery};
use super::hit::{hit_of, is_deleted};
use super::index::{IndexResult, RankedDocument, RankedSession, Ranking};
use super::matches::{Matcher, TermPresence};
use super::question::Question;

/// The most documents of a session that are read until one is a hit as good as the index says.
const MAX_READ: usize = 48;

/// A session, and a hit of a session, below this share of the best one is left out.
const LEAST_SESSION: f64 = 0.12;
const LEAST_HIT: f64 = 0.25;

/// Reads the documents of ranked sessions.
pub(super) struct SessionReader<'a> {
    repo: &'a Repository,
    query: &'a SearchQuery<'a>,
    ranking: Ranking<'a, RankedHit>,
    damage: Vec<String>,
}

/// A hit with its rank.
#[derive(Debug)]
pub(super) struct RankedHit {
    rank: f64,
    hit: SearchHit,
}

impl<'a> SessionReader<'a> {
    pub(super) const fn new(
        repo: &'a Repository,
        query: &'a SearchQuery<'a>,
        ranking: Ranking<'a, RankedHit>,
    ) -> Self {
        Self { repo, query, ranking, damage: Vec::new() }
    }

    /// Fills an empty answer.
    pub(super) fn answer(mut self, mut answer: SearchAnswer) -> IndexResult<SearchAnswer> {
        let question = self.ranking.question.clone();
        let matcher = Matcher::new(&question);
        answer.candidates = self.ranking.complete;
        let (mut passed, mut best) = (0, None);
        while let Some(mut session) = self.ranking.sessions.pop() {
            let Some(hits) = session.hits.take() else {
                // Reading the documents may lower the rank of their session.
                if self.read(&question, &matcher, &mut session)? {
                    self.ranking.sessions.push(session);
                }
                continue;
            };
            if session.rank < best.unwrap_or_default() * LEAST_SESSION {
                break;
            }
            best = best.or(Some(session.rank));
            for RankedHit { hit, .. } in hits {
                if passed < self.query.offset {
                    passed += 1;
                } else if answer.hits.len() as u64 == self.query.limit {
                    answer.more = true;
                    answer.damage.append(&mut self.damage);
                    return Ok(answer);
                } else {
                    answer.hits.push(hit);
                }
            }
        }
        answer.damage.append(&mut self.damage);
        Ok(answer)
    }

    /// Reads the best documents of a session. Returns false if none is a hit.
    fn read(
        &mut self,
        question: &Question,
        matcher: &Matcher<'_>,
        session: &mut RankedSession<RankedHit>,
    ) -> IndexResult<bool> {
        let SearchQuery { offset, limit, per_session, .. } = self.query;
        let shown = offset.saturating_add(*limit).saturating_add(1);
        let shown = if *per_session > 0 { shown.min(*per_session) } else { shown };
        let shown = usize::try_from(shown).unwrap_or(usize::MAX);
        let mut hits: Vec<RankedHit> = Vec::new();
        let (mut files, mut read, mut as_good) = (HashSet::new(), 0, 0);
        let mut documents = BinaryHeap::from(std::mem::take(&mut session.documents));
        while let Some(document) = documents.pop() {
            let least = hits.iter().map(|hit| hit.rank).fold(0.0, f64::max) * LEAST_HIT;
            if as_good >= shown
                || document.rank < least
                || (read >= MAX_READ && hits.len() >= shown)
            {
                break;
            }
            let Some(candidate) = self.ranking.candidate(document)? else { continue };
            let name = || (candidate.section.clone(), candidate.key.clone());
            let file = candidate.role.is_none().then(name);
            if file.as_ref().is_some_and(|file| files.contains(file)) {
                continue;
            }
            read += 1;
            match hit_of(self.repo, &candidate, (question, matcher)) {
                Ok(None) => {}
                Err(error) if is_deleted(&error) => {}
                Err(error) => self.damage.push(error.to_string()),
                Ok(Some((hit, terms))) => {
                    let share = self.share(document, &terms);
                    as_good += usize::from(share >= 1.0);
                    hits.push(RankedHit { rank: document.rank * share, hit });
                    files.extend(file);
                }
            }
        }
        hits.sort_by(|one, other| other.rank.total_cmp(&one.rank));
        hits.truncate(shown);
        let Some(best) = hits.first().map(|hit| hit.rank) else { return Ok(false) };
        hits.retain(|hit| hit.rank >= best * LEAST_HIT);
        session.rank = best + session.topic;
        session.hits = Some(hits);
        Ok(true)
    }

    /// Returns the share of the terms that a document has according to the index, and that it really
    /// has: its words may not be adjacent.
    fn share(&self, document: RankedDocument, terms: &[TermPresence]) -> f64 {
        let (mut all, mut present) = (0.0, 0.0);
        for (at, (weight, presence)) in self.ranking.weights.iter().zip(terms).enumerate() {
            if document.units & (1 << at) != 0 {
                all += weight;
                present += if *presence == TermPresence::Missing { 0.0 } else { *weight };
            }
        }
        if all > 0.0 { present / all } else { 1.0 }
    }
}
