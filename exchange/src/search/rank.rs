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

/// Signs behind a word in the index, by how often a document has it.
pub(super) const STEPS: [Step; 5] = [
    Step { sign: "", most: 1, counts: 1.0 },
    Step { sign: "!", most: 2, counts: 2.0 },
    Step { sign: "#", most: 4, counts: 3.0 },
    Step { sign: "$", most: 8, counts: 6.0 },
    Step { sign: "%", most: u32::MAX, counts: 12.0 },
];

/// A step of how often a document has a word.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct Step {
    /// What stands behind the word.
    pub(super) sign: &'static str,
    /// The most times that it stands for.
    most: u32,
    /// The times that it counts as.
    pub(super) counts: f64,
}

/// The documents of an index.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(super) struct Totals {
    /// How many there are.
    pub(super) documents: u64,
    /// The words that they have together.
    pub(super) words: u64,
}

/// Returns the step of a word that a document has `times` times.
pub(super) fn step_of(times: u32) -> Step {
    let [first, ..] = STEPS;
    STEPS.into_iter().find(|step| times <= step.most).unwrap_or(first)
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
        let signs: Vec<&str> = [0, 1, 2, 3, 4, 5, 8, 9, u32::MAX].map(|it| step_of(it).sign).into();
        assert_eq!(signs, ["", "", "!", "#", "#", "$", "$", "%", "%"]);
    }
}
