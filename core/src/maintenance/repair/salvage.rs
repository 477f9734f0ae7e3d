//! Repairs a store: salvages everything that verifies, and reports lost objects.
//!
//! - A pack with sufficient parity is restored byte for byte.
//! - A pack without it, or without a valid index: the objects that verify go into a new pack. Their
//!   ids follow from the frames.
//! - A segment: the objects that verify go into a pack.
//! - The newest manifest: a new one is made of an older manifest, of the packs that hold more, and
//!   of the journal.
//! - Operations that the store lost track of: the refs of the manifest include them, or a new
//!   operation gets them as parents.
//! - Refs to lost objects: with [`Loss::Accept`], one operation moves them to their newest whole
//!   value. A branch without a whole value gets the newest whole turn that nothing else references.
//!   A ref without either stays if its object can be read, since an export still gives the
//!   remaining records.
//! - Objects that stay lost: with [`Loss::Accept`], they are recorded as known losses, together
//!   with objects that may belong to them.
//!
//! Nothing is deleted: a damaged file that is not restored moves to `quarantine/` in the store.
//! Refs move back only on request, in an operation that an undo can revert.

use std::cmp::Reverse;
use std::collections::BTreeMap;

use crate::error::Result;
use crate::maintenance::repair::accept_loss::accept_losses;
use crate::maintenance::repair::detached_operations;
use crate::maintenance::repair::finding::{FsckFinding, FsckKind};
use crate::maintenance::repair::fsck::{FsckReport, report};
use crate::maintenance::repair::reachability::ReachabilityWalk;
use crate::maintenance::repair::repair_commit::commit;
use crate::maintenance::repair::whole_objects::{WholeObjects, newest_whole};
use crate::maintenance::repair::whole_turns::WholeTurns;
use crate::object::{Kind, Object, ObjectId, Operation, RefChange, RefValue};
use crate::repo::{BranchName, Repository, Signature};
use crate::store::{
    DetachedOperation, Examination, Expected, KNOWN_LOSSES_REF, Progress, RefUpdate, SalvagedFile,
    Store,
};

/// Rounds of a repair: a restored file may be damaged itself, or hold operations that have to be
/// rejoined.
const MAX_ROUNDS: usize = 7;

/// The treatment of refs to lost objects.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Loss {
    /// Refs stay as they are.
    #[default]
    Refuse,
    /// Refs move back to their newest whole value. Objects that stay lost are recorded as holes,
    /// and collections ignore them from then on.
    Accept,
}

/// The plan of a repair.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct RepairPlan {
    /// Damaged files.
    pub files: Vec<SalvagedFile>,
    /// Packs that no manifest lists and that hold missing objects.
    pub adopted: Vec<String>,
    /// True if the manifest lists files with operations that its refs lack. The repair adds these
    /// to the refs.
    pub refs_behind: bool,
    /// Committed operations that are not ancestors of the newest one. The repair writes an
    /// operation that follows them.
    pub rejoined: Vec<ObjectId>,
    /// Changes that give refs the values of these operations.
    pub rejoined_refs: Vec<RefChange>,
    /// Refs to lost objects. They change only with [`Loss::Accept`].
    pub refs: Vec<RefRepair>,
    /// Lost operations. With [`Loss::Accept`] the log begins after the newest of them.
    pub operations: Vec<ObjectId>,
    /// Objects that would stay lost, as far as the plan can determine.
    pub lost: Vec<FsckFinding>,
    /// The number of known losses afterwards, if it changes. Always `None` in a plan.
    pub given_up: Option<u64>,
}

/// A ref to a lost object.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RefRepair {
    /// The full name of the ref.
    pub name: String,
    /// The current value.
    pub old: ObjectId,
    /// The newest earlier value that is whole; `None` without one.
    pub new: Option<ObjectId>,
    /// True if no value is whole but the object that the ref names can be read: the ref stays, to
    /// keep the remaining objects reachable. A ref with neither is deleted.
    pub stays: bool,
}

/// The outcome of a repair.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Repaired {
    /// The repaired files, of all rounds.
    pub plan: RepairPlan,
    /// The state of the store afterwards.
    pub report: FsckReport,
}

impl RepairPlan {
    /// Returns true if the repair would change nothing.
    #[must_use]
    pub fn is_empty(&self, loss: Loss) -> bool {
        let stay = self.refs.iter().all(|change| change.stays);
        let refs = loss == Loss::Refuse || (stay && self.operations.is_empty());
        let operations = !self.refs_behind && self.rejoined.is_empty();
        let files = self.files.is_empty() && self.adopted.is_empty();
        files && operations && refs && self.given_up.is_none()
    }
}

impl RepairPlan {
    /// Records the operations that the store lost track of, and their changes of refs.
    fn add_detached(&mut self, detached: &[DetachedOperation], reach: &ReachabilityWalk<'_>) {
        self.rejoined = detached.iter().map(|found| found.id).collect();
        self.rejoined_refs = detached_operations::plan(reach, detached);
    }
}

/// Plans a repair without changing anything. Reads the whole store.
///
/// # Errors
/// Errors of opening the store; `Locked` while a collection runs.
pub fn plan_repair(
    repo: &Repository,
    stamp: &Signature,
    progress: &mut Progress<'_>,
) -> Result<RepairPlan> {
    let store = repo.store();
    let repair = store.begin_repair(progress)?;
    let reach = ReachabilityWalk::find(&repair.examination, stamp.time.micros);
    let salvage = repair.salvage(&reach.lost)?;
    let mut plan = plan_refs(&repair.examination, &reach, &|id| salvage.has_readable(id));
    plan.files.clone_from(&salvage.files);
    plan.adopted.clone_from(&salvage.adopted);
    plan.refs_behind = salvage.lists_unknown;
    plan.add_detached(&repair.examination.detached, &reach);
    Ok(plan)
}

/// Repairs a store. Other processes may read and write concurrently; files that a process writes to
/// are skipped.
///
/// # Errors
/// Errors of [`plan_repair`] and of writing. After an error everything that verifies is still
/// reachable, and another repair continues.
pub fn repair(
    repo: &Repository,
    loss: Loss,
    stamp: &Signature,
    progress: &mut Progress<'_>,
) -> Result<Repaired> {
    let store = repo.store();
    let mut done = RepairPlan::default();
    let mut missing = BTreeMap::new();
    for _ in 0..MAX_ROUNDS {
        let repair = store.begin_repair(progress)?;
        let restored = repair.restore()?;
        if !restored.is_empty() {
            add_files(&mut done, &restored);
            continue;
        }
        let reach = ReachabilityWalk::find(&repair.examination, stamp.time.micros);
        let salvage = repair.salvage(&reach.lost)?;
        let detached = &repair.examination.detached;
        if done.rejoined.is_empty() {
            done.add_detached(detached, &reach);
        }
        if salvage.is_empty() && !detached.is_empty() {
            detached_operations::apply(
                store,
                detached,
                &detached_operations::plan(&reach, detached),
                stamp,
            )?;
            continue;
        }
        if salvage.is_empty() {
            let planned = plan_refs(&repair.examination, &reach, &|id| salvage.has_readable(id));
            let RepairPlan { refs, operations, lost, .. } = planned;
            (done.refs, done.operations, done.lost) = (refs, operations, lost);
            add_files(&mut done, &salvage.files);
            let is_missing = |id: &ObjectId| repair.examination.inventory.find(id).is_none();
            missing = reach.lost.into_iter().filter(|(id, _)| is_missing(id)).collect();
            if loss == Loss::Accept && !done.operations.is_empty() {
                let given_up: Vec<_> =
                    done.operations.iter().map(|id| (*id, Kind::Operation)).collect();
                repair.apply(&salvage, &given_up)?;
            }
            break;
        }
        repair.apply(&salvage, &[])?;
        add_files(&mut done, &salvage.files);
        done.adopted.extend(salvage.adopted.iter().cloned());
        done.refs_behind |= salvage.lists_unknown;
    }
    if loss == Loss::Accept && done.refs.iter().any(|change| !change.stays) {
        move_refs(store, &done.refs, stamp)?;
    }
    if loss == Loss::Accept {
        done.given_up = record_known_losses(store, missing, stamp, progress)?;
    }
    let examination = store.examine(crate::store::Thoroughness::Full, progress)?;
    let report = report(&examination, &ReachabilityWalk::find(&examination, stamp.time.micros));
    Ok(Repaired { plan: done, report })
}

/// Records the lost objects as known losses, and the objects that may belong to them, if the record
/// changes. `lost` holds candidates, of which only those still referenced count. Returns the number
/// of known losses.
fn record_known_losses(
    store: &Store,
    lost: BTreeMap<ObjectId, Kind>,
    stamp: &Signature,
    progress: &mut Progress<'_>,
) -> Result<Option<u64>> {
    // This lock keeps a collection from freeing objects before the losses are recorded.
    let repair = store.begin_repair(progress)?;
    let inventory = &repair.examination.inventory;
    let holes = accept_losses(&repair.examination, lost, stamp.time.micros);
    let text = holes.encode();
    let blob = Object { kind: Kind::Blob, bytes: text.into() };
    let id = ObjectId::of(Kind::Blob, &blob.bytes);
    let new = (!holes.is_empty()).then_some(RefValue::Object(id));
    let old = inventory.refs().value(KNOWN_LOSSES_REF).cloned();
    if new == old {
        return Ok(None);
    }
    let change = RefUpdate {
        name: KNOWN_LOSSES_REF.to_owned(),
        expected: old.map_or(Expected::Absent, Expected::Value),
        new,
    };
    let objects = if holes.is_empty() { Vec::new() } else { vec![(id, blob)] };
    let reason = "repair: what is lost was accepted";
    commit(store, objects, vec![change], Vec::new(), reason, stamp)?;
    Ok(Some(holes.lost.len() as u64))
}

/// Adds files to the plan without duplicates: a file in use comes up in every round.
fn add_files(done: &mut RepairPlan, files: &[SalvagedFile]) {
    for file in files {
        if !done.files.contains(file) {
            done.files.push(file.clone());
        }
    }
}

/// Plans changes of refs to objects that no file restores.
fn plan_refs(
    examination: &Examination<'_>,
    reach: &ReachabilityWalk<'_>,
    is_saved: &dyn Fn(&ObjectId) -> bool,
) -> RepairPlan {
    let lost = |finding: &&FsckFinding| {
        finding.kind == FsckKind::Lost && !finding.object.as_ref().is_some_and(is_saved)
    };
    let mut plan = RepairPlan {
        lost: reach.findings.iter().filter(lost).cloned().collect(),
        ..RepairPlan::default()
    };
    if plan.lost.is_empty() {
        return plan;
    }
    let gone = reach.lost.iter().filter(|(id, _)| !is_saved(id));
    plan.operations =
        gone.filter(|(_, kind)| **kind == Kind::Operation).map(|(id, _)| *id).collect();
    let (history, whole) = (history(examination), WholeObjects::find(reach));
    let turns = WholeTurns::find(reach, &whole);
    for (name, value) in examination.inventory.refs().values.iter() {
        let RefValue::Object(old) = value else { continue };
        if is_saved(old) || whole.contains(old) {
            continue;
        }
        let earlier = history.iter().flat_map(|operation| &operation.changes);
        let earlier = earlier.filter(|change| change.name == *name);
        let earlier = earlier.flat_map(|change| [&change.new, &change.old]);
        let earlier = earlier.filter_map(|value| match value {
            Some(RefValue::Object(id)) => Some(*id),
            _ => None,
        });
        let new =
            [*old].into_iter().chain(earlier).find_map(|start| newest_whole(reach, &whole, start));
        // A branch whose newest turns were imported together has no earlier value.
        let adrift = || turns.newest_unreachable(BranchName::from_full(name)?.session());
        let new = new.or_else(adrift);
        let stays = new.is_none() && matches!(examination.inventory.read_any(old), Ok(Some(_)));
        plan.refs.push(RefRepair { name: name.to_owned(), old: *old, new, stays });
    }
    plan
}

/// The readable operations, newest first.
fn history(examination: &Examination<'_>) -> Vec<Operation> {
    let inventory = &examination.inventory;
    let mut operations: Vec<Operation> = inventory
        .operations()
        .filter_map(|id| Operation::decode(&inventory.read_any(&id).ok()??.bytes).ok())
        .collect();
    operations.sort_by_key(|operation| Reverse(operation.sequence));
    operations
}

/// Moves refs in one operation.
fn move_refs(store: &Store, refs: &[RefRepair], stamp: &Signature) -> Result<()> {
    let moved = refs.iter().filter(|change| !change.stays);
    let changes = moved.map(|change| RefUpdate {
        name: change.name.clone(),
        expected: Expected::Value(RefValue::Object(change.old)),
        new: change.new.map(RefValue::Object),
    });
    let reason = "repair: what these refs held is lost";
    commit(store, Vec::new(), changes.collect(), Vec::new(), reason, stamp)
}
