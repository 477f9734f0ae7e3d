//! Ranking: BM25 over all documents, and newer before older.
//!
//! How often a document has a word is kept in five steps: 1, 2, up to 4, up to 8, more. So a rank
//! follows from the index alone and no document is read for it, as Lucene rounds lengths for the same
//! reason. The function flattens there: the steps move a score by some percent.

/// How fast more of the same word counts less, and how much length counts: the usual values.
const SATURATION: f64 = 1.2;
const LENGTH_SHARE: f64 = 0.75;

/// After this time, half of what recency adds is left.
const HALF_LIFE_MICROS: f64 = 30.0 * 86_400.0 * 1e6;

/// Steps of how often a document has a word: the most times that one stands for, and the times that it
/// counts as.
const STEPS: [(u32, f64); 5] = [(1, 1.0), (2, 2.0), (4, 3.0), (8, 6.0), (u32::MAX, 12.0)];

/// The documents of an index.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(super) struct Totals {
    /// How many there are.
    pub(super) documents: u64,
    /// The words that they have together.
    pub(super) words: u64,
}

/// Returns the step of a word that a document has `times` times, by its number.
pub(super) fn step_of(times: u32) -> u8 {
    // Most words of a text stand there once.
    if times <= 1 {
        return 0;
    }
    let step = (0..).zip(STEPS).find(|(_, (most, _))| times <= *most);
    step.map_or(0, |(step, _)| step)
}

/// Returns the times that a step counts as; nothing for what is no step.
pub(super) fn times_of(step: u8) -> Option<f64> {
    STEPS.get(usize::from(step)).map(|(_, counts)| *counts)
}

impl Totals {
    /// Returns what a word weighs that `documents` have.
    pub(super) fn weight(self, documents: u64) -> f64 {
        let (all, having) = (number(self.documents), number(documents));
        (1.0 + (all - having + 0.5) / (having + 0.5)).ln()
    }

    /// Returns what a word adds to the score of a document with `words` words, which has it about
    /// `times` times.
    pub(super) fn share(self, weight: f64, times: f64, words: u64) -> f64 {
        let mean = number(self.words) / number(self.documents).max(1.0);
        let length = 1.0 - LENGTH_SHARE + LENGTH_SHARE * number(words) / mean.max(1.0);
        weight * times * (SATURATION + 1.0) / (times + SATURATION * length)
    }
}

/// What is left of a score when what was found is of `micros`, and the newest turn of `newest`: all of
/// it now, three quarters after a month, never less than half.
pub(super) fn fading(micros: i64, newest: i64) -> f64 {
    let age = number(u64::try_from(newest.saturating_sub(micros)).unwrap_or_default());
    0.5 + 0.5 * (-age / HALF_LIFE_MICROS).exp2()
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
    fn rare_words_short_texts_and_new_ones_come_first() {
        let totals = Totals { documents: 1000, words: 100_000 };
        assert!(totals.weight(1) > totals.weight(10));
        assert!(totals.weight(1000) > 0.0, "a word that all have does not take away");
        let weight = totals.weight(10);
        assert!(totals.share(weight, 1.0, 10) > totals.share(weight, 1.0, 1000));
        assert!(totals.share(weight, 6.0, 100) > totals.share(weight, 1.0, 100));
        let month = 30 * 86_400 * 1_000_000;
        assert_eq!([fading(month, month), fading(0, month), fading(5, 0)], [1.0, 0.75, 1.0]);
        assert!(fading(i64::MIN, i64::MAX) >= 0.5);
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
