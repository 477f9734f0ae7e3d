//! What happened in a replay.

use std::collections::BTreeSet;

use turntree_exchange::replay::{Difference, DifferenceKind};

/// What a gateway has counted.
#[derive(Debug, Clone, Default)]
pub(crate) struct Tally {
    /// The numbers of the answers that were served.
    pub(crate) served: BTreeSet<usize>,
    /// Requests that got a recorded answer; a client may repeat one.
    pub(crate) requests: u64,
    /// Side requests that were answered here.
    pub(crate) asides: u64,
    /// Results of tools that were not the recorded ones: their places and texts.
    pub(crate) results: Vec<Difference>,
    /// The first difference that ended the replay.
    pub(crate) difference: Option<Difference>,
    /// Requests that were refused, because they differ or go beyond the recording.
    pub(crate) refused: u64,
    pub(crate) forwarded: u64,
    /// Why the last request that could not be forwarded failed.
    pub(crate) failed: Option<String>,
}

impl Tally {
    /// Returns true once requests are not answered from the recording any more.
    pub(crate) const fn is_over(&self) -> bool {
        self.difference.is_some() || self.forwarded > 0
    }

    /// Adds results that are not the recorded ones. Each request repeats those before it.
    pub(super) fn add_results(&mut self, results: Vec<Difference>) {
        for result in results {
            let is_known = |known: &Difference| {
                (known.answers, &known.expected) == (result.answers, &result.expected)
            };
            if !self.results.iter().any(is_known) {
                self.results.push(result);
            }
        }
    }
}

/// A difference in one line.
pub(crate) fn first_line(difference: &Difference) -> String {
    let Difference { kind, place, answers, expected, found } = difference;
    let what = match kind {
        DifferenceKind::Prompt => "the prompt",
        DifferenceKind::Text => "the text of the answer",
        DifferenceKind::Call => "the call of",
        DifferenceKind::Arguments => "the arguments",
        DifferenceKind::Result => "the result",
    };
    let after = match answers {
        0 => "before the first answer".to_owned(),
        1 => "after 1 answer".to_owned(),
        answers => format!("after {answers} answers"),
    };
    format!("{after}, at {place}: expected {what} '{expected}', found '{found}'")
}
