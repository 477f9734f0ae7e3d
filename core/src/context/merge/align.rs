//! Common subsequences of two sequences: lines of text, or messages of a list.
//!
//! Long sequences are first cut at tokens that occur exactly once in both, and each part is
//! compared separately. A part that is still long has too many repeated tokens to align, and is one
//! change. So the time is about linear for any content.

use std::hash::Hash;
use std::ops::Range;

use imara_diff::{Algorithm, Diff, InternedInput, Interner, Token};

use crate::tree::{ListChange, longest_increasing};

/// Maximum tokens of a part, on either side. The worst-case time for a part is quadratic.
const MAX_PART: usize = 4096;

/// Returns the changes from `old` to `new`: sorted, with equal tokens between any two.
pub(super) fn changes<T: Hash + Eq>(
    old: impl Iterator<Item = T>,
    new: impl Iterator<Item = T>,
) -> Vec<ListChange> {
    let mut interner = Interner::new(0);
    let old: Vec<u32> = old.map(|token| interner.intern(token).0).collect();
    let new: Vec<u32> = new.map(|token| interner.intern(token).0).collect();
    let whole = RangePair { old: 0..old.len(), new: 0..new.len() }.trim(&old, &new);
    let parts = match whole.is_long() {
        true => whole.split_at_anchors(&old, &new, interner.num_tokens()),
        false => vec![whole],
    };
    let mut changes = Vec::new();
    for part in parts {
        part.changes(&old, &new, &mut changes);
    }
    changes
}

/// A range of both sequences.
#[derive(Debug, Clone)]
struct RangePair {
    old: Range<usize>,
    new: Range<usize>,
}

impl RangePair {
    fn is_long(&self) -> bool {
        self.old.len() > MAX_PART || self.new.len() > MAX_PART
    }

    /// Removes the common prefix and suffix.
    fn trim(self, old: &[u32], new: &[u32]) -> Self {
        let (a, b) = (slice(old, &self.old), slice(new, &self.new));
        let head = a.iter().zip(b).take_while(|(a, b)| a == b).count();
        let (a, b) = (a.get(head..).unwrap_or_default(), b.get(head..).unwrap_or_default());
        let tail = a.iter().rev().zip(b.iter().rev()).take_while(|(a, b)| a == b).count();
        Self {
            old: self.old.start + head..self.old.end - tail,
            new: self.new.start + head..self.new.end - tail,
        }
    }

    /// Returns the parts between the tokens that occur once in both, in their longest common order.
    fn split_at_anchors(self, old: &[u32], new: &[u32], tokens: u32) -> Vec<Self> {
        let once = |all: &[u32], range: &Range<usize>| {
            let mut places = vec![None; tokens as usize];
            for (at, token) in range.clone().zip(slice(all, range)) {
                if let Some(place) = places.get_mut(*token as usize) {
                    *place = if place.is_none() { Some(Some(at)) } else { Some(None) };
                }
            }
            places
        };
        let in_new = once(new, &self.new);
        let mut pairs: Vec<(usize, usize)> = Vec::new();
        for (in_old, in_new) in once(old, &self.old).into_iter().zip(in_new) {
            pairs.extend(in_old.flatten().zip(in_new.flatten()));
        }
        pairs.sort_unstable();
        let mut parts = Vec::new();
        let (mut old_at, mut new_at) = (self.old.start, self.new.start);
        let end = (self.old.end, self.new.end);
        for (old_to, new_to) in longest_increasing(&pairs).into_iter().chain([end]) {
            parts.push(Self { old: old_at..old_to, new: new_at..new_to }.trim(old, new));
            (old_at, new_at) = (old_to + 1, new_to + 1);
        }
        parts
    }

    fn changes(&self, old: &[u32], new: &[u32], changes: &mut Vec<ListChange>) {
        let mut add = |old: Range<usize>, new: Range<usize>| {
            let at = |start: usize, range: Range<usize>| {
                (start + range.start) as u64..(start + range.end) as u64
            };
            changes.push(ListChange { old: at(self.old.start, old), new: at(self.new.start, new) });
        };
        if self.old.is_empty() && self.new.is_empty() {
            return;
        }
        if self.old.is_empty() || self.new.is_empty() || self.is_long() {
            return add(0..self.old.len(), 0..self.new.len());
        }
        // Renumber the tokens: the time depends on how many there are.
        let mut interner = Interner::new(MAX_PART);
        let mut tokens = |all: &[u32], range: &Range<usize>| -> Vec<Token> {
            slice(all, range).iter().map(|token| interner.intern(*token)).collect()
        };
        let (before, after) = (tokens(old, &self.old), tokens(new, &self.new));
        let input = InternedInput { before, after, interner };
        let wide = |range: Range<u32>| range.start as usize..range.end as usize;
        for hunk in Diff::compute(Algorithm::Histogram, &input).hunks() {
            add(wide(hunk.before), wide(hunk.after));
        }
    }
}

fn slice<'a>(all: &'a [u32], range: &Range<usize>) -> &'a [u32] {
    all.get(range.clone()).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn check(old: &[u32], new: &[u32]) -> Vec<ListChange> {
        let changes = changes(old.iter(), new.iter());
        let mut made = Vec::new();
        let mut at = 0;
        for (number, change) in changes.iter().enumerate() {
            let place = |at: u64| usize::try_from(at).unwrap();
            let start = place(change.old.start);
            assert!(start > at || number == 0, "something equal lies between any two");
            made.extend_from_slice(&old[at..start]);
            made.extend_from_slice(&new[place(change.new.start)..place(change.new.end)]);
            at = place(change.old.end);
        }
        made.extend_from_slice(&old[at..]);
        assert!(made == new);
        changes
    }

    turntree_properties::properties! {
        #[test]
        fn changes_make_the_new_of_the_old(
            old in prop::collection::vec(0_u32..9, 0..40), new in prop::collection::vec(0_u32..9, 0..40)
        ) {
            check(&old, &new);
        }
    }

    #[test]
    fn small_changes_of_something_long_stay_small() {
        let old: Vec<u32> = (0..50_000).map(|n| if n % 3 == 0 { 7 } else { n }).collect();
        let mut new = old.clone();
        new.splice(10..12, [90_001, 90_002, 90_003]);
        new.splice(40_000..40_001, []);
        assert_eq!(check(&old, &new).len(), 2);
    }

    #[test]
    fn what_repeats_too_often_is_one_change() {
        let noise = |seed: u64| {
            let mut state = seed;
            let next = std::iter::repeat_with(move || {
                state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
                (state >> 60) as u32 & 1
            });
            next.take(20_000).collect::<Vec<u32>>()
        };
        assert_eq!(check(&noise(1), &noise(2)).len(), 1);
    }
}
