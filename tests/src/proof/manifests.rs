//! Every order of the steps of openings, commits, sealings and collections, in a model.
//!
//! See [`crate::model`]. Nothing is drawn: scale ten explores a larger store.

use super::{Effort, Figures};
use crate::model::{Rules, Sizes, explore};

/// The stores that are explored completely, each with its minimum scale.
const STORES: [(u64, Sizes); 3] = [
    // One process may end at any step.
    (1, Sizes { handles: 3, segments: 3, operations: 2, collections: 1, ends: 1, opens: 0 }),
    (1, Sizes { handles: 2, segments: 4, operations: 3, collections: 2, ends: 0, opens: 0 }),
    // Four million states: minutes, and a gigabyte of memory.
    (10, Sizes { handles: 3, segments: 4, operations: 2, collections: 2, ends: 0, opens: 0 }),
];

/// Explores the model with all its rules.
///
/// # Panics
/// If an operation can be lost.
#[must_use]
pub fn run(effort: &Effort) -> Figures {
    let mut figures = Figures::default();
    for (_, sizes) in STORES.iter().filter(|(scale, _)| *scale <= effort.scale) {
        let explored =
            explore(sizes, &Rules::ALL).unwrap_or_else(|lost| panic!("{sizes:?}\n{lost}"));
        assert!(explored.sealed > 0 && explored.collected > 0, "{explored:?}");
        let Sizes { handles, segments, operations, collections, ends, .. } = sizes;
        figures.add(
            "handles, segments, operations, collections, ends",
            format!("{handles}, {segments}, {operations}, {collections}, {ends}"),
        );
        figures.add("states", explored.states);
        figures.add("steps from one to another", explored.steps);
        figures.add("steps to the furthest", explored.depth);
    }
    figures
}
