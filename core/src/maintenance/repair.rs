//! `repair`: brings back what verifies, and says what is lost.
//!
//! | damaged | done |
//! |---|---|
//! | a pack with a parity that restores it | it is as it was |
//! | a pack, or its index | what verifies goes into a new pack; ids follow from the frames |
//! | a segment | what verifies goes into a pack |
//! | the newest manifest | a new one from an older one, the packs that hold more, and the journal |
//! | operations that the store lost sight of | the manifest's refs include them, or an operation follows them too |
//! | what refs lead to | with [`Loss::Accept`], the newest value that is whole, as an operation; of a branch without one, the newest whole turn that nothing else leads to; a ref without either stays where its object can be read, since an export still gives the records that are left |
//! | what is lost all the same | with [`Loss::Accept`], it is written down, with what may belong to it |
//!
//! Nothing is deleted: a damaged file that is not restored goes to `quarantine/` in the store. Refs never move back unless
//! that is asked for, and then it is an operation that an undo would take back.

use std::cmp::Reverse;
use std::collections::BTreeMap;

use super::accept_loss::accept_losses;
use super::finding::{FsckFinding, FsckKind};
use super::fsck::{FsckReport, report};
use super::reach::Reach;
use super::rejoin;
use super::repair_commit::commit;
use super::whole_turns::WholeTurns;
use super::wholeness::{Wholeness, newest_whole};
use crate::error::Result;
use crate::object::{Kind, Object, ObjectId, Operation, RefChange, RefValue};
use crate::repo::{BranchName, Signature};
use crate::store::{
    Detached, Examination, Expected, KNOWN_LOSSES_REF, Progress, RefUpdate, SalvagedFile, Store,
};

/// Rounds of mending: a file that is brought back may be damaged itself, or hold operations that have
/// to be joined.
const MAX_ROUNDS: usize = 7;

/// The treatment of refs that lead to lost objects.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Loss {
    /// They stay.
    #[default]
    Refuse,
    /// They go back to the newest value that is whole, and what is lost all the same is given up: it
    /// counts as a hole from then on, and collections go on around it.
    Accept,
}

/// The plan of a repair.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct RepairPlan {
    /// Damaged files.
    pub files: Vec<SalvagedFile>,
    /// Packs that no manifest lists and that hold what is missing.
    pub adopted: Vec<String>,
    /// True if the refs of the manifest lack operations in files that it lists, and get them.
    pub refs_behind: bool,
    /// Operations that were committed and that the newest one does not follow: one follows them then.
    pub rejoined: Vec<ObjectId>,
    /// Refs that get back what these operations gave them.
    pub rejoined_refs: Vec<RefChange>,
    /// Refs that lead to something that is lost. They change only with [`Loss::Accept`].
    pub refs: Vec<RefRepair>,
    /// Operations that are lost; with [`Loss::Accept`] the log begins after the newest of them.
    pub operations: Vec<ObjectId>,
    /// Objects that stay lost, as far as that can be told before.
    pub lost: Vec<FsckFinding>,
    /// The number of known losses after it, where that changes.
    /// A plan does not say.
    pub given_up: Option<u64>,
}

/// A ref that leads to something that is lost.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RefRepair {
    /// Its full name.
    pub name: String,
    /// Its value.
    pub old: ObjectId,
    /// The newest value it had that is whole; `None` when there is none.
    pub new: Option<ObjectId>,
    /// True if no value is whole and the object that the ref names can be read: the ref stays, for
    /// what is left behind it. Without both it is deleted.
    pub stays: bool,
}

/// The outcome of a repair.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Repaired {
    /// The files that were mended, in every round.
    pub plan: RepairPlan,
    /// The store afterwards.
    pub report: FsckReport,
}

impl RepairPlan {
    /// Returns true if nothing would be done.
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
    /// Notes the operations that the store lost sight of, and what they gave refs.
    fn rejoin(&mut self, detached: &[Detached], reach: &Reach<'_>) {
        self.rejoined = detached.iter().map(|found| found.id).collect();
        self.rejoined_refs = rejoin::plan(reach, detached);
    }
}

/// Plans a repair and does nothing. Reads the whole store.
///
/// # Errors
/// Those of opening the store; `Locked` while a collection goes on.
pub fn plan_repair(
    store: &Store,
    stamp: &Signature,
    progress: &mut Progress<'_>,
) -> Result<RepairPlan> {
    let repair = store.begin_repair(progress)?;
    let reach = Reach::find(&repair.examination, stamp.time.micros);
    let salvage = repair.salvage(&reach.lost)?;
    let mut plan = plan_refs(&repair.examination, &reach, &|id| salvage.saves(id));
    plan.files.clone_from(&salvage.files);
    plan.adopted.clone_from(&salvage.adopted);
    plan.refs_behind = salvage.lists_unknown;
    plan.rejoin(&repair.examination.detached, &reach);
    Ok(plan)
}

/// Repairs a store. Others may read and write meanwhile; what a process writes to is left alone.
///
/// # Errors
/// Those of [`plan_repair`], and those of writing; then nothing that verifies is out of reach, and
/// another repair goes on.
pub fn repair(
    store: &Store,
    loss: Loss,
    stamp: &Signature,
    progress: &mut Progress<'_>,
) -> Result<Repaired> {
    let mut done = RepairPlan::default();
    let mut missing = BTreeMap::new();
    for _ in 0..MAX_ROUNDS {
        let repair = store.begin_repair(progress)?;
        let restored = repair.restore()?;
        if !restored.is_empty() {
            add_files(&mut done, &restored);
            continue;
        }
        let reach = Reach::find(&repair.examination, stamp.time.micros);
        let salvage = repair.salvage(&reach.lost)?;
        let detached = &repair.examination.detached;
        if done.rejoined.is_empty() {
            done.rejoin(detached, &reach);
        }
        if salvage.is_empty() && !detached.is_empty() {
            rejoin::apply(store, detached, &rejoin::plan(&reach, detached), stamp)?;
            continue;
        }
        if salvage.is_empty() {
            let planned = plan_refs(&repair.examination, &reach, &|id| salvage.saves(id));
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
        done.given_up = accept(store, missing, stamp, progress)?;
    }
    let examination = store.examine(crate::store::Thoroughness::Full, progress)?;
    let report = report(&examination, &Reach::find(&examination, stamp.time.micros));
    Ok(Repaired { plan: done, report })
}

/// Writes down what is lost, `lost` among it as far as anything leads to it still, and what may belong
/// to it, if that is something else than before; says how much is lost.
fn accept(
    store: &Store,
    lost: BTreeMap<ObjectId, Kind>,
    stamp: &Signature,
    progress: &mut Progress<'_>,
) -> Result<Option<u64>> {
    // No collection takes anything away before it is written down.
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

/// Notes files, each once: one that is in use is met in every round.
fn add_files(done: &mut RepairPlan, files: &[SalvagedFile]) {
    for file in files {
        if !done.files.contains(file) {
            done.files.push(file.clone());
        }
    }
}

/// Plans for objects that no file gives back.
fn plan_refs(
    examination: &Examination<'_>,
    reach: &Reach<'_>,
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
    let (history, whole) = (history(examination), Wholeness::find(reach));
    let turns = WholeTurns::find(reach, &whole);
    for (name, value) in &examination.inventory.refs().values {
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
        // A line whose newest turns came in together has no earlier value.
        let adrift = || turns.newest_adrift(BranchName::from_full(name)?.session());
        let new = new.or_else(adrift);
        let stays = new.is_none() && matches!(examination.inventory.read_any(old), Ok(Some(_)));
        plan.refs.push(RefRepair { name: name.clone(), old: *old, new, stays });
    }
    plan
}

/// The operations that can be read, newest first.
fn history(examination: &Examination<'_>) -> Vec<Operation> {
    let inventory = &examination.inventory;
    let mut operations: Vec<Operation> = inventory
        .operations()
        .filter_map(|id| Operation::decode(&inventory.read_any(&id).ok()??.bytes).ok())
        .collect();
    operations.sort_by_key(|operation| Reverse(operation.sequence));
    operations
}

/// Moves refs as one operation.
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
