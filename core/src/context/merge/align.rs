//! What two sequences have in common, in their order: lines of text, or messages of a list.

use std::hash::Hash;
use std::ops::Range;

use imara_diff::{Algorithm, Diff, InternedInput, Interner};

use crate::tree::ListChange;

/// The changes that make `new` of `old`: sorted, with something equal between any two.
///
/// The time is about linear in both, whatever they hold: where tokens repeat too often to be told
/// apart, the result is larger than it need be rather than late.
pub(super) fn changes<T: Hash + Eq>(
    old: impl Iterator<Item = T>,
    new: impl Iterator<Item = T>,
) -> Vec<ListChange> {
    let mut input =
        InternedInput { before: Vec::new(), after: Vec::new(), interner: Interner::new(0) };
    input.update_before(old);
    input.update_after(new);
    let diff = Diff::compute(Algorithm::Histogram, &input);
    let wide = |range: Range<u32>| u64::from(range.start)..u64::from(range.end);
    diff.hunks().map(|hunk| ListChange { old: wide(hunk.before), new: wide(hunk.after) }).collect()
}
