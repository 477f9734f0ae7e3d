//! Orders snapshots: by time, ties as in the file, and parents always first.

use std::collections::HashMap;

use super::archive::DesignSnapshot;

/// The fault of a parent.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Lineage {
    /// The parent exists, or there is none.
    Sound,
    /// The parents of the snapshot lead back to it.
    Circular,
}

/// Returns the snapshots in the order in which they become commits, each with the state of its
/// parent.
pub(super) fn ordered(versions: &[DesignSnapshot]) -> Vec<(usize, Lineage)> {
    let mut by_key = HashMap::new();
    for (index, version) in versions.iter().enumerate() {
        by_key.entry(version.key.as_str()).or_insert(index);
    }
    let mut by_time: Vec<usize> = (0..versions.len()).collect();
    // A snapshot without a moment is as new as can be.
    by_time.sort_by_key(|index| {
        let created = versions.get(*index).and_then(|version| version.created);
        created.map_or(i64::MAX, |time| time.micros)
    });
    let parent = |index: usize| {
        let parent = versions.get(index)?.parent.as_deref()?;
        by_key.get(parent).copied()
    };
    let mut states = vec![VisitState::New; versions.len()];
    let mut order = Vec::with_capacity(versions.len());
    for start in by_time {
        let mut chain = Vec::new();
        let mut next = Some(start);
        let mut circular = false;
        while let Some(index) = next {
            match states.get_mut(index) {
                Some(state @ VisitState::New) => *state = VisitState::Open,
                Some(VisitState::Open) => {
                    circular = true;
                    break;
                }
                _ => break,
            }
            chain.push(index);
            next = parent(index);
        }
        for index in chain.into_iter().rev() {
            if let Some(state) = states.get_mut(index) {
                *state = VisitState::Done;
            }
            // The cycle is cut at the one snapshot whose parent would come after it.
            let lineage =
                if std::mem::take(&mut circular) { Lineage::Circular } else { Lineage::Sound };
            order.push((index, lineage));
        }
    }
    order
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum VisitState {
    New,
    Open,
    Done,
}
