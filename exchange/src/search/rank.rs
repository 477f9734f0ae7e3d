//! Ranks documents by BM25 and recency, and sessions by all of their documents.
//!
//! The index stores word counts in five steps: 1, 2, up to 4, up to 8, more. A rank therefore needs
//! only the index and reads no document; Lucene rounds lengths for the same reason. BM25 flattens
//! for large counts, so the steps change a score by a few percent.

use super::voice::Voice;

/// The usual BM25 constants: saturation by word count (k1) and weight of the length (b).
const SATURATION: f64 = 1.2;
const LENGTH_SHARE: f64 = 0.75;

/// The same for the documents of a session: how many of them make half of its rank, and the weight
/// of its size.
const HALF_EVIDENCE: f64 = 2.0;
const SIZE_SHARE: f64 = 0.3;

/// How much all documents of a session count next to its best one.
const TOPIC: f64 = 0.5;

/// The share of a rank that age can take away when whole sessions are ranked.
const MOST_DIMMED: f64 = 0.3;

/// The time after which the recency bonus halves.
const HALF_LIFE_MICROS: f64 = 30.0 * 86_400.0 * 1e6;

/// The steps of word counts: the largest count of a step, and the count that BM25 uses for it.
const STEPS: [(u32, f64); 5] = [(1, 1.0), (2, 2.0), (4, 3.0), (8, 6.0), (u32::MAX, 12.0)];

/// The size of an index.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(super) struct Totals {
    /// The number of documents.
    pub(super) documents: u64,
    /// The number of words in all documents.
    pub(super) words: u64,
}

/// Returns the step for a word that occurs `times` times.
pub(super) fn step_of(times: u32) -> u8 {
    // Fast path: most words of a text occur once.
    if times <= 1 {
        return 0;
    }
    let step = (0..).zip(STEPS).find(|(_, (most, _))| times <= *most);
    step.map_or(0, |(step, _)| step)
}

/// Returns the count that BM25 uses for a step, or `None` for an unknown step.
pub(super) fn times_of(step: u8) -> Option<f64> {
    STEPS.get(usize::from(step)).map(|(_, counts)| *counts)
}

impl Totals {
    /// Returns the inverse document frequency of a word that `documents` documents have.
    pub(super) fn weight(self, documents: u64) -> f64 {
        let (all, having) = (number(self.documents), number(documents));
        (1.0 + (all - having + 0.5) / (having + 0.5)).ln()
    }

    /// Returns the score that a word adds to a document of `words` words in which it occurs about
    /// `times` times.
    pub(super) fn word_score(self, weight: f64, times: f64, words: u64) -> f64 {
        let mean = number(self.words) / number(self.documents).max(1.0);
        let length = 1.0 - LENGTH_SHARE + LENGTH_SHARE * number(words) / mean.max(1.0);
        weight * times * (SATURATION + 1.0) / (times + SATURATION * length)
    }
}

/// Returns the recency factor of an entry of the time `micros`, if the newest turn is of `newest`:
/// 1 for the newest, 0.75 after 30 days, never below 0.5.
pub(super) fn recency(micros: i64, newest: i64) -> f64 {
    let age = number(u64::try_from(newest.saturating_sub(micros)).unwrap_or_default());
    0.5 + 0.5 * (-age / HALF_LIFE_MICROS).exp2()
}

/// Returns the factor of the age of an entry for a ranking of sessions, from its recency.
pub(super) fn dimmed(recency: f64) -> f64 {
    1.0 - MOST_DIMMED * 2.0 * (1.0 - recency)
}

/// Returns how much a voice counts.
pub(super) const fn loudness(voice: Voice) -> f64 {
    match voice {
        Voice::Person => 1.2,
        Voice::Agent => 1.0,
        Voice::Work => 0.4,
        Voice::Client => 0.2,
    }
}

/// Returns the factor of a document that has terms of the weight `covered`, of the weight `all`.
pub(super) fn coverage(covered: f64, all: f64) -> f64 {
    covered / all.max(f64::MIN_POSITIVE)
}

/// Returns how rare a term is that `having` of `all` sessions have.
pub(super) fn rarity(all: u64, having: u64) -> f64 {
    let (all, having) = (number(all.max(having)), number(having));
    (1.0 + (all - having + 0.5) / (having + 0.5)).ln()
}

/// The documents of a session that have a term.
#[derive(Debug, Clone, Copy)]
pub(super) struct Share {
    /// The sum of their scores.
    pub(super) evidence: f64,
    /// The number of all documents of the session, as a multiple of the mean.
    pub(super) size: f64,
}

impl Share {
    /// Returns a number from 0 to [`TOPIC`], which grows with the evidence.
    pub(super) fn saturated(self) -> f64 {
        let Self { evidence, size } = self;
        TOPIC * evidence / (evidence + HALF_EVIDENCE * (1.0 - SIZE_SHARE + SIZE_SHARE * size))
    }
}

#[expect(
    clippy::cast_precision_loss,
    reason = "counts and times of which the leading digits matter"
)]
fn number(count: u64) -> f64 {
    count as f64
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rare_words_short_texts_and_recent_entries_rank_first() {
        let totals = Totals { documents: 1000, words: 100_000 };
        assert!(totals.weight(1) > totals.weight(10));
        assert!(totals.weight(1000) > 0.0, "a word that all have does not take away");
        let weight = totals.weight(10);
        assert!(totals.word_score(weight, 1.0, 10) > totals.word_score(weight, 1.0, 1000));
        assert!(totals.word_score(weight, 6.0, 100) > totals.word_score(weight, 1.0, 100));
        let month = 30 * 86_400 * 1_000_000;
        assert_eq!([recency(month, month), recency(0, month), recency(5, 0)], [1.0, 0.75, 1.0]);
        assert!(recency(i64::MIN, i64::MAX) >= 0.5);
    }

    #[test]
    fn sessions_rank_by_rare_terms_in_much_of_what_was_said() {
        let share = |evidence, size| Share { evidence, size }.saturated();
        assert!(share(4.0, 1.0) > share(1.0, 1.0) && share(1.0, 0.5) > share(1.0, 5.0));
        assert!(share(1e9, 1.0) <= 1.0);
        assert!(rarity(30, 1) > rarity(30, 20) && rarity(1, 3) > 0.0);
        assert!(loudness(Voice::Person) > loudness(Voice::Client));
        assert!(dimmed(1.0) > dimmed(0.5) && dimmed(0.5) > 0.5);
    }

    #[test]
    fn every_count_has_a_step() {
        let steps: Vec<u8> = [0, 1, 2, 3, 4, 5, 8, 9, u32::MAX].map(step_of).into();
        assert_eq!(steps, [0, 0, 1, 2, 2, 3, 3, 4, 4]);
        assert_eq!(
            [0, 1, 2, 3, 4, 5].map(times_of).map(Option::unwrap_or_default),
            [1.0, 2.0, 3.0, 6.0, 12.0, 0.0]
        );
    }
}
