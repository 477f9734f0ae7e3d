//! Rejoining: operations that were committed and that the newest one does not follow are brought back.
//!
//! One operation follows the newest one and all of them, so that nothing of them is detached any more.
//! It gives refs what they gave, as if that happened now:
//!
//! | what the ref holds now | what happens |
//! |---|---|
//! | what the operation replaced, or a commit before the new value | it gets the new value |
//! | the new value, or a commit after it | nothing |
//! | anything else | it stays, and a ref beside it gets the value: `<name>-recovered` |

use std::collections::{BTreeMap, HashSet};

use super::reach::Reach;
use super::repair_commit::commit;
use super::wholeness::{Wholeness, newest_whole};
use crate::error::Result;
use crate::object::{Commit, Kind, ObjectId, RefChange, RefValue};
use crate::repo::{HEAD, Signature, is_place};
use crate::store::{Detached, Expected, MAX_JOINED, RefUpdate, Store};

/// Suffix of a ref that gets a value which another one cannot get.
const BESIDE: &str = "-recovered";

/// The prefix for values of refs that are no branches, tags or pins and could not be set.
const RECOVERED: &str = "refs/recovered/";

/// Kinds of refs that people see: what is recovered of them stands beside them.
const SEEN: [&str; 3] = ["refs/heads/", "refs/tags/", "refs/pins/"];

/// The refs that change when `detached` operations are joined, by their names.
pub(super) fn plan(reach: &Reach<'_>, detached: &[Detached]) -> Vec<RefChange> {
    if detached.is_empty() {
        return Vec::new();
    }
    let before = &reach.inventory().refs().values;
    let whole = Wholeness::find(reach);
    let mut plan = Plan { reach, whole, values: before.clone(), beside: BTreeMap::new() };
    for change in detached.iter().flat_map(|found| &found.operation.changes) {
        plan.make(change);
    }
    let names: HashSet<&String> = before.keys().chain(plan.values.keys()).collect();
    let changes = names.into_iter().filter_map(|name| {
        let (old, new) = (before.get(name).cloned(), plan.values.get(name).cloned());
        (old != new).then(|| RefChange { name: name.clone(), old, new })
    });
    let mut changes: Vec<_> = changes.collect();
    changes.sort_unstable_by(|a, b| a.name.cmp(&b.name));
    changes
}

/// Joins operations, with the changes of refs that were planned.
///
/// # Errors
/// `Conflict` when a ref was changed meanwhile, and those of a commit.
pub(super) fn apply(
    store: &Store,
    detached: &[Detached],
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
    let reason = format!("repair: {} operations that were out of sight", detached.len());
    for heads in heads.chunks(MAX_JOINED) {
        commit(store, Vec::new(), std::mem::take(&mut changes), heads.to_vec(), &reason, stamp)?;
    }
    Ok(())
}

/// The values of refs after the changes so far.
struct Plan<'r, 'a> {
    reach: &'r Reach<'a>,
    whole: Wholeness<'a>,
    values: BTreeMap<String, RefValue>,
    /// The refs beside those that could not get their values.
    beside: BTreeMap<String, String>,
}

impl Plan<'_, '_> {
    fn make(&mut self, change: &RefChange) {
        let name = self.beside.get(&change.name).unwrap_or(&change.name).clone();
        let now = self.values.get(&name);
        let Some(new) = &change.new else {
            // What was deleted, and nobody has set since.
            if now == change.old.as_ref() {
                self.values.remove(&name);
            }
            return;
        };
        let Some(new) = self.whole(new) else { return };
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

    /// The value as far as it is whole: itself, or the newest commit before it that is.
    fn whole(&self, value: &RefValue) -> Option<RefValue> {
        match value {
            RefValue::Object(id) => {
                newest_whole(self.reach, &self.whole, *id).map(RefValue::Object)
            }
            RefValue::Symbolic(_) => Some(value.clone()),
        }
    }

    /// Returns true if both are commits, and `later` comes after `earlier`.
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
        let name = match SEEN.iter().any(|kind| name.starts_with(kind)) {
            true => format!("{name}{BESIDE}"),
            false => format!("{RECOVERED}{}", name.strip_prefix("refs/").unwrap_or(name)),
        };
        let numbered = (2_u64..).map(|number| format!("{name}-{number}"));
        let mut names = std::iter::once(name.clone()).chain(numbered);
        names.find(|name| !self.values.contains_key(name)).unwrap_or(name)
    }
}
