//! Forgets turns that expired long ago: even their commits are dropped.
//!
//! The commit of an expired turn takes some hundred bytes, mostly ids, so a session
//! that continues forever would grow forever. The newest [`MAX_EXPIRED`](crate::maintenance::MAX_EXPIRED)
//! expired turns of a session keep their commits. Of the older ones, only significant commits stay:
//! roots, branch points, parents of merges, and merges. [Grafts](crate::repo::Grafts) replace the
//! others.
//!
//! Forgetting only changes a ref. The next collection follows the grafts and frees commits that it
//! does not meet.

use std::collections::{BTreeMap, HashMap, HashSet};

use super::plan_turns::plan_turns;
use crate::error::Result;
use crate::maintenance::collection_plan::Purpose;
use crate::maintenance::keep::forget_choice::choose_forgotten;
use crate::maintenance::keep::graph::CommitGraph;
use crate::maintenance::keep::policy::Policies;
use crate::maintenance::keep::retention_plan::RetentionPlan;
use crate::maintenance::keep::roots::Roots;
use crate::object::{Kind, ObjectId, ObjectSink, RefValue};
use crate::repo::{GRAFTS_REF, Grafts, Repository, Signature};
use crate::store::Expected;

/// Forgets old expired turns in one operation; returns the retention plan behind it, or `None` if
/// there was nothing to forget.
///
/// # Errors
/// Errors of reading the commits, and of a commit.
pub(in crate::maintenance) fn forget_expired(
    repo: &Repository,
    purpose: Purpose,
    stamp: &Signature,
) -> Result<Option<RetentionPlan>> {
    let refs = repo.refs();
    if Policies::load(repo.store(), &refs)?.is_empty() {
        return Ok(None);
    }
    let inventory = repo.store().inventory()?;
    let roots = Roots::find(&inventory, &refs, stamp.time.micros)?;
    let plan = plan_turns(&inventory, &roots, purpose, stamp.time)?;
    let forgotten = choose_forgotten(&roots, &plan);
    if forgotten.is_empty() {
        return Ok(None);
    }
    let grafts = grafts(&roots.graph, &forgotten);
    let mut change = repo.begin();
    let blob = change.write(Kind::Blob, grafts.encode().into())?;
    let expected = match refs.value(GRAFTS_REF) {
        Some(value) => Expected::Value(value.clone()),
        None => Expected::Absent,
    };
    change.set_ref(GRAFTS_REF, expected, Some(RefValue::Object(blob)));
    change.commit(stamp, "forget turns that expired long ago")?;
    Ok(Some(plan))
}

/// Returns all grafts that are needed once these commits are forgotten too.
fn grafts(graph: &CommitGraph, forgotten: &HashSet<ObjectId>) -> Grafts {
    let known: HashMap<usize, ObjectId> = graph.grafted().iter().copied().collect();
    let mut grafts = BTreeMap::new();
    for (number, commit) in graph.commits().iter().enumerate() {
        if forgotten.contains(&commit.id) {
            continue;
        }
        let parents = graph.parents(commit);
        // The parents of a merge are never forgotten, so a graft replaces the only parent.
        let named = known.get(&number).copied();
        let next = parents.first().copied();
        let named = named.or_else(|| {
            let parent = next.and_then(|at| graph.commits().get(at)).map(|parent| parent.id);
            parent.filter(|parent| forgotten.contains(parent))
        });
        if let Some(named) = named {
            grafts.insert(named, remaining(graph, forgotten, next));
        }
    }
    Grafts(grafts)
}

/// Returns the first remembered commit, starting at a number.
fn remaining(
    graph: &CommitGraph,
    forgotten: &HashSet<ObjectId>,
    mut at: Option<usize>,
) -> Option<ObjectId> {
    loop {
        let commit = graph.commits().get(at?)?;
        if !forgotten.contains(&commit.id) {
            return Some(commit.id);
        }
        at = graph.parents(commit).first().copied();
    }
}
