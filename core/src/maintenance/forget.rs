//! Forgetting: of the turns that expired longest ago, not even the commits stay.
//!
//! The commit of an expired turn takes some hundred bytes, most of them ids, so a session that goes
//! on for ever would grow for ever. The newest [`MAX_EXPIRED`](super::MAX_EXPIRED) expired turns of a session keep their
//! commits; of the older ones those stay that tell something: roots, branch points, parents of
//! merges, and merges themselves. [Grafts](crate::repo::Grafts) take the place of the others.
//!
//! Forgetting only changes a ref. The next collection follows the grafts, and what it does not meet
//! then is garbage.

use std::collections::{BTreeMap, HashMap, HashSet};

use super::collection_plan::Purpose;
use super::forget_choice::choose_forgotten;
use super::graph::CommitGraph;
use super::plan::RetentionPlan;
use super::plan_turns::plan_turns;
use super::policy::Policies;
use super::roots::Roots;
use crate::error::Result;
use crate::object::{Kind, ObjectId, ObjectSink, RefValue};
use crate::repo::{GRAFTS_REF, Grafts, Repository, Signature};
use crate::store::Expected;

/// Forgets what may be forgotten, as one operation; gives the plan that said so, if there was anything.
///
/// # Errors
/// Those of reading the commits, and of a commit.
pub(super) fn forget_expired(
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

/// Every graft that is needed when these are forgotten too.
fn grafts(graph: &CommitGraph, forgotten: &HashSet<ObjectId>) -> Grafts {
    let known: HashMap<usize, ObjectId> = graph.grafted().iter().copied().collect();
    let mut grafts = BTreeMap::new();
    for (number, commit) in graph.commits().iter().enumerate() {
        if forgotten.contains(&commit.id) {
            continue;
        }
        let parents = graph.parents(commit);
        // A merge has no forgotten parents, so a graft stands for the only parent there was.
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

/// The first commit that is not forgotten, from a number on.
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
