//! Rejoins detached operations: committed operations that are not ancestors of the newest one.
//!
//! A new operation gets the newest one and all detached ones as parents, so that none stays
//! detached. It applies the changes of the detached operations to the current refs:
//!
//! | current value of the ref | result |
//! |---|---|
//! | the replaced value, or an ancestor of the new value | it gets the new value |
//! | the new value, or a descendant of it | it stays |
//! | anything else | it stays; a second ref `<name>-recovered` gets the value |

use std::collections::{BTreeMap, HashSet};

use super::reachability::ReachabilityWalk;
use super::repair_commit::commit;
use super::whole_objects::{WholeObjects, newest_whole};
use crate::error::Result;
use crate::object::{Commit, Kind, ObjectId, RefChange, RefValue};
use crate::repo::{HEAD, Signature, is_place};
use crate::store::{DetachedOperation, Expected, MAX_JOINED, RefUpdate, RefValues, Store};

/// The suffix of a ref for a value that conflicts with the current one.
const CONFLICT_SUFFIX: &str = "-recovered";

/// The prefix for conflicting values of refs other than branches, tags and pins.
const RECOVERED: &str = "refs/recovered/";

/// Kinds of refs that users see: their conflicting values get the suffix, not the prefix.
const USER_PREFIXES: [&str; 3] = ["refs/heads/", "refs/tags/", "refs/pins/"];

/// Plans the changes of refs that rejoin `detached` operations, by name.
pub(in crate::maintenance) fn plan(
    reach: &ReachabilityWalk<'_>,
    detached: &[DetachedOperation],
) -> Vec<RefChange> {
    if detached.is_empty() {
        return Vec::new();
    }
    let before = &reach.inventory().refs().values;
    let whole = WholeObjects::find(reach);
    let mut plan = RefPlan { reach, whole, values: before.clone(), beside: BTreeMap::new() };
    for change in detached.iter().flat_map(|found| &found.operation.changes) {
        plan.plan_change(change);
    }
    let names: HashSet<&str> = before.keys().chain(plan.values.keys()).collect();
    let changes = names.into_iter().filter_map(|name| {
        let (old, new) = (before.get(name).cloned(), plan.values.get(name).cloned());
        (old != new).then(|| RefChange { name: name.to_owned(), old, new })
    });
    let mut changes: Vec<_> = changes.collect();
    changes.sort_unstable_by(|a, b| a.name.cmp(&b.name));
    changes
}

/// Rejoins operations, with planned changes of refs.
///
/// # Errors
/// `Conflict` when another process changed a ref, and errors of a commit.
pub(in crate::maintenance) fn apply(
    store: &Store,
    detached: &[DetachedOperation],
    refs: &[RefChange],
    stamp: &Signature,
) -> Result<()> {
    let changes = refs.iter().map(|change| RefUpdate {
        name: change.name.clone(),
        expected: change.old.clone().map_or(Expected::Absent, Expected::Value),
        new: change.new.clone(),
    });
    let mut changes: Vec<RefUpdate> = changes.collect();
    let heads: Vec<ObjectId> =
        detached.iter().filter(|found| found.is_head).map(|found| found.id).collect();
    let reason = format!("repair: {} hidden operations", detached.len());
    for heads in heads.chunks(MAX_JOINED) {
        commit(store, Vec::new(), std::mem::take(&mut changes), heads.to_vec(), &reason, stamp)?;
    }
    Ok(())
}

/// The values of refs after the changes planned up to now.
struct RefPlan<'r, 'a> {
    reach: &'r ReachabilityWalk<'a>,
    whole: WholeObjects<'a>,
    values: RefValues,
    /// The refs with conflicting values, by the refs that they belong to.
    beside: BTreeMap<String, String>,
}

impl RefPlan<'_, '_> {
    fn plan_change(&mut self, change: &RefChange) {
        let name = self.beside.get(&change.name).unwrap_or(&change.name).clone();
        let now = self.values.get(&name);
        let Some(new) = &change.new else {
            // The ref was deleted and not set since.
            if now == change.old.as_ref() {
                self.values.remove(&name);
            }
            return;
        };
        let Some(new) = self.newest_whole_value(new) else { return };
        if now == Some(&new) || now.is_some_and(|now| self.is_before(&new, now)) {
            return;
        }
        let fits = now == change.old.as_ref()
            || name != change.name
            || now.is_some_and(|now| self.is_before(now, &new));
        if fits {
            self.values.insert(name, new);
        } else if name != HEAD && !is_place(&name) {
            let beside = self.free_name(&name);
            self.beside.insert(name, beside.clone());
            self.values.insert(beside, new);
        }
    }

    /// Returns the newest whole value: the value itself, or the newest whole ancestor of the
    /// commit.
    fn newest_whole_value(&self, value: &RefValue) -> Option<RefValue> {
        match value {
            RefValue::Object(id) => {
                newest_whole(self.reach, &self.whole, *id).map(RefValue::Object)
            }
            RefValue::Symbolic(_) => Some(value.clone()),
        }
    }

    /// Returns true if both are commits and `earlier` is an ancestor of `later`.
    fn is_before(&self, earlier: &RefValue, later: &RefValue) -> bool {
        let (RefValue::Object(earlier), RefValue::Object(later)) = (earlier, later) else {
            return false;
        };
        let Some(before) = self.commit(earlier) else { return false };
        let mut open = vec![*later];
        let mut seen = HashSet::new();
        while let Some(id) = open.pop() {
            if id == *earlier {
                return true;
            }
            if let Some(commit) = self.commit(&id)
                && commit.turn > before.turn
                && seen.insert(id)
            {
                open.extend(self.reach.grafts().parents(&commit));
            }
        }
        false
    }

    fn commit(&self, id: &ObjectId) -> Option<Commit> {
        let object = self.reach.inventory().read_any(id).ok()??;
        Commit::decode(&object.bytes).ok().filter(|_| object.kind == Kind::Commit)
    }

    fn free_name(&self, name: &str) -> String {
        let name = match USER_PREFIXES.iter().any(|kind| name.starts_with(kind)) {
            true => format!("{name}{CONFLICT_SUFFIX}"),
            false => format!("{RECOVERED}{}", name.strip_prefix("refs/").unwrap_or(name)),
        };
        let numbered = (2_u64..).map(|number| format!("{name}-{number}"));
        let mut names = std::iter::once(name.clone()).chain(numbered);
        names.find(|name| !self.values.contains_key(name)).unwrap_or(name)
    }
}
