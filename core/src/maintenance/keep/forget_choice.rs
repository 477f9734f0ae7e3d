//! Chooses the expired turns whose commits are forgotten.

use std::collections::{BTreeMap, HashSet};

use super::retention_plan::RetentionPlan;
use super::roots::Roots;
use crate::object::ObjectId;

/// The number of expired turns of a session that keep their commits.
pub const MAX_EXPIRED: usize = 500;

/// The number of further expired turns before any is forgotten, because each forgetting is an
/// operation.
const MIN_FURTHER: usize = 100;

/// Returns the commits to forget.
pub(in crate::maintenance) fn choose_forgotten(
    roots: &Roots,
    plan: &RetentionPlan,
) -> HashSet<ObjectId> {
    let mut expired: BTreeMap<&str, Vec<(u64, ObjectId)>> = BTreeMap::new();
    for turn in plan.elided.iter().chain(&plan.gone) {
        expired.entry(&turn.session).or_default().push((turn.turn, turn.commit));
    }
    let chosen = expired.into_values().flat_map(|turns| choose_forgotten_of(roots, turns));
    chosen.collect()
}

/// Returns the commits to forget of one session with these expired `turns` and their commits.
pub(in crate::maintenance) fn choose_forgotten_of(
    roots: &Roots,
    mut turns: Vec<(u64, ObjectId)>,
) -> HashSet<ObjectId> {
    if turns.len() < MAX_EXPIRED + MIN_FURTHER {
        return HashSet::new();
    }
    let graph = &roots.graph;
    let children = graph.child_counts();
    let is_link = |id: &ObjectId| {
        graph.find(id).is_some_and(|at| {
            let parents = graph.commits().get(at).map_or(0, |commit| graph.parents(commit).len());
            parents <= 1 && children.get(at).is_none_or(|children| *children <= 1)
        })
    };
    turns.sort_unstable_by(|a, b| b.cmp(a));
    let old = turns.iter().skip(MAX_EXPIRED).map(|(_, id)| *id);
    let old = old.filter(|id| !roots.commits.contains_key(id) && is_link(id));
    let old: HashSet<ObjectId> = old.collect();
    if old.len() >= MIN_FURTHER { old } else { HashSet::new() }
}
