//! Collects garbage: moves live objects into packs and deletes everything else.
//!
//! `gc` and `repack` do the same work with different aims. [`Purpose::Gc`] applies retention and
//! rewrites every file with garbage. [`Purpose::Repack`] rewrites everything that is not stored as
//! requested. [`Purpose::Step`] does a bounded part of both, the most worthwhile files first, and
//! runs automatically after a number of commits. Each makes a plan that is shown before it is
//! applied.
//!
//! Each step writes one pack of limited size, so a larger store takes several steps and never needs
//! more free disk than one pack.

use std::cmp::Reverse;
use std::collections::{HashMap, HashSet};
use std::mem;
use std::sync::Arc;

use crate::error::{Error, ErrorKind, Result};
use crate::maintenance::budget_plan::EnforcedBudget;
use crate::maintenance::collect::file_choice::{FileState, Limits, choose_files};
use crate::maintenance::collect::freed_sessions::may_free_session;
use crate::maintenance::collection_plan::{
    CollectionPlan, Fate, KnownLossesPlan, ObjectsSize, Purpose, StoreFilePlan,
};
use crate::maintenance::expire::expire_sessions::{ExpiredSession, expire_sessions, plan_expiring};
use crate::maintenance::expire::forget_turns::forget_expired;
use crate::maintenance::expire::plan_turns::plan_turns;
use crate::maintenance::keep::graph::GraphCommit;
use crate::maintenance::keep::policy::Policies;
use crate::maintenance::keep::retention_plan::RetentionPlan;
use crate::maintenance::keep::roots::{ForgottenContent, Reason, Roots};
use crate::maintenance::keep::store_bound::{Fullness, size_bound};
use crate::maintenance::mark::cohorts::Cohorts;
use crate::maintenance::mark::last_mark::PreviousMark;
use crate::maintenance::mark::marker::Marker;
use crate::maintenance::mark::pack_order::arrange;
use crate::object::{Kind, ObjectId, ObjectSource, Operation, Time};
use crate::repo::{ForgottenSession, Repository, Signature, complete_history_index};
use crate::store::{
    Collection, CollectorLock, FileReplacement, Inventory, KnownLosses, PackItem, Replaced, Tier,
    Tombstone,
};

/// Commits whose contexts are marked in one round.
pub(super) const COMMITS_PER_ROUND: usize = 256;

/// The outcome of a collection.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Collected {
    /// Packs written, one for each step.
    pub steps: u64,
    /// Turns that expired.
    pub expired_turns: u64,
    /// The expired and the kept turns of all steps, as planned before the first; `None` if there
    /// was nothing to do.
    pub retention: Option<RetentionPlan>,
    /// The freed garbage.
    pub freed: ObjectsSize,
    /// Bytes of new packs.
    pub written_bytes: u64,
    /// Bytes of the replaced files.
    pub replaced_bytes: u64,
    /// Sessions that expired. Their content is freed a day later, or with the garbage of this
    /// collection.
    pub expired_sessions: Vec<ExpiredSession>,
    /// The sequence of the operation that forgot all operations before it.
    pub forgot_operations: Option<u64>,
    /// The outcome of the store budget, enforced afterwards.
    pub budget: Option<EnforcedBudget>,
    /// Packs that were kept and got another parity.
    pub protected_packs: u64,
}

impl Collected {
    /// Returns true if the collection did anything.
    pub(super) fn is_something(&self) -> bool {
        self.steps > 0 || !self.expired_sessions.is_empty() || self.budget.is_some()
    }

    /// Adds the outcome of a later collection.
    pub(in crate::maintenance) fn add(&mut self, more: Self) {
        self.steps += more.steps;
        self.expired_turns += more.expired_turns;
        self.freed = self.freed.plus(more.freed);
        self.written_bytes += more.written_bytes;
        self.replaced_bytes += more.replaced_bytes;
        self.expired_sessions.extend(more.expired_sessions);
    }
}

/// Plans a collection without changing anything. Needs no lock: in a read-only store, or while
/// another collection runs, files that a process has open count as in use.
///
/// # Errors
/// `Corrupt` when a required object is missing: in a damaged store the garbage is unknown.
pub fn plan_collection(repo: &Repository, purpose: Purpose, now: Time) -> Result<CollectionPlan> {
    let through = if purpose == Purpose::GcNow { u64::MAX } else { 0 };
    plan_collection_after(repo, purpose, now, through)
}

/// Plans like [`plan_collection`], as if the operations up to the sequence `through` had been
/// forgotten.
///
/// # Errors
/// Errors of [`plan_collection`].
pub fn plan_collection_after(
    repo: &Repository,
    purpose: Purpose,
    now: Time,
    through: u64,
) -> Result<CollectionPlan> {
    let mut gone = Vec::new();
    if purpose.may_free() {
        let expired = plan_expiring(repo, purpose, now)?.into_iter();
        for expired in expired.filter(|expired| expired.at_once) {
            gone.extend(repo.names_of_session(&expired.session)?);
        }
    }
    let gone: Vec<_> = gone.into_iter().map(ForgottenSession::forgotten_always).collect();
    let planned =
        |inventory: &Inventory<'_>| Survey::planned(inventory, purpose, now, (through, gone));
    match repo.store().collect() {
        Ok(collection) => planned(collection.inventory()),
        Err(error) if is_lock_error(&error) => planned(&repo.store().inventory()?),
        Err(error) => Err(error),
    }
}

/// Returns true if taking the lock failed, as opposed to reading the files.
fn is_lock_error(error: &Error) -> bool {
    matches!(error.kind(), ErrorKind::Io | ErrorKind::Unsupported | ErrorKind::Locked)
}

/// Forgets every operation; returns the sequence of the operation that records this, or `None` if
/// there was no operation.
fn forget_operations(repo: &Repository, stamp: &Signature) -> Result<Option<u64>> {
    let Some(newest) = repo.operations().next().transpose()? else { return Ok(None) };
    let mut change = repo.begin();
    change.forget_operations(newest.operation.sequence)?;
    Ok(Some(change.commit(stamp, "forget all operations")?.sequence))
}

/// Collects under the lock of the collector, without the budget of the store.
pub(in crate::maintenance) fn run(
    repo: &Repository,
    lock: &CollectorLock,
    purpose: Purpose,
    stamp: &Signature,
    before_step: &mut dyn FnMut(&CollectionPlan),
) -> Result<Collected> {
    let (mut collected, now) = (Collected::default(), stamp.time);
    if purpose.may_free() {
        collected.expired_sessions = expire_sessions(repo, purpose, stamp)?;
        if purpose == Purpose::GcNow {
            // After the sessions expire: operations record when a session last changed.
            collected.forgot_operations = forget_operations(repo, stamp)?;
        }
        repo.free_forgotten(stamp)?;
        collected.retention = forget_expired(repo, purpose, stamp)?;
    }
    let mut has_looked = false;
    let mut known = None;
    loop {
        let collection = repo.store().collect_locked(lock)?;
        let survey = Survey::new(collection.inventory(), purpose, now, known.take())?;
        if survey.plan.is_empty() {
            collection.remove_unlisted()?;
            collected.protected_packs += complete_derived(repo, purpose, &collection)?;
            return Ok(collected);
        }
        before_step(&survey.plan);
        let plan = &survey.plan;
        let retention = collected.retention.get_or_insert_with(|| plan.retention.clone());
        // Turns to elide in a later step are counted again there.
        let expired = plan.retention.elided.len().max(retention.elided.len()) as u64;
        collected.expired_turns = collected.expired_turns.max(expired);
        for file in plan.files.iter().filter(|file| file.fate == Fate::Replaced) {
            collected.freed.objects += file.garbage.objects;
            collected.freed.bytes += file.garbage.bytes;
        }
        let is_partial = plan.partial;
        if purpose.may_free() && collected.freed.objects > 0 {
            // First, because a collection that is killed here removes them again.
            collection.remove_caches(survey.may_free_session())?;
        }
        let (Replaced { written_bytes, freed_bytes, .. }, marker) =
            survey.apply(repo, &collection)?;
        // Budgets are measured by packed sizes, so a step plans again after packing the journal.
        let looks_again = !mem::replace(&mut has_looked, true) && may_be_over(repo, purpose)?;
        let is_last = !is_partial && !looks_again;
        // Keeps the mark for the next round of a full collection. A step that plans again may elide
        // more turns, so its mark is dropped.
        let goes_on = !is_last && !purpose.is_step();
        known = goes_on.then(|| marker.into_previous()).flatten();
        collected.steps += 1;
        collected.written_bytes += written_bytes;
        collected.replaced_bytes += freed_bytes;
        if is_last {
            collected.protected_packs += complete_derived(repo, purpose, &collection)?;
            return Ok(collected);
        }
    }
}

/// Returns true if a step that has packed the journal may find sessions over their budgets. If
/// budgets cover the whole store, the bytes of all files decide.
fn may_be_over(repo: &Repository, purpose: Purpose) -> Result<bool> {
    if !purpose.is_step() || !Policies::load(repo.store(), &repo.refs())?.has_budget() {
        return Ok(false);
    }
    let fullness = Fullness::of(repo)?;
    Ok(purpose == Purpose::Settle || fullness.bound_bytes.is_none() || fullness.is_over())
}

/// Builds the derived files of packs; returns the number of packs that got another parity.
fn complete_derived(
    repo: &Repository,
    purpose: Purpose,
    collection: &Collection<'_>,
) -> Result<u64> {
    let protected = if purpose.may_free() { 0 } else { collection.complete_parity()? };
    complete_history_index(repo, collection);
    Ok(protected)
}

/// The inventory, its marked objects, and the plan for its files.
pub(in crate::maintenance) struct Survey<'a> {
    inventory: &'a Inventory<'a>,
    pub(in crate::maintenance) roots: Roots,
    pub(in crate::maintenance) marker: Marker<'a>,
    pub(in crate::maintenance) plan: CollectionPlan,
    /// The numbers of the files that are replaced.
    pub(in crate::maintenance) chosen: Vec<usize>,
    /// The last round that marked the newest contexts.
    now_round: u32,
    gone: Vec<(ObjectId, Kind, Tombstone)>,
}

impl<'a> Survey<'a> {
    /// Marks all objects that must stay, in addition to the mark of an earlier step, and makes a
    /// plan.
    pub(in crate::maintenance) fn new(
        inventory: &'a Inventory<'a>,
        purpose: Purpose,
        now: Time,
        known: Option<PreviousMark>,
    ) -> Result<Self> {
        let roots = Roots::find(inventory, inventory.refs(), now.micros)?;
        Self::with_roots(inventory, roots, purpose, now, known)
    }

    /// Returns true if turns of a session without branches are freed.
    fn may_free_session(&self) -> bool {
        may_free_session(self.inventory, &self.marker, &self.chosen)
    }

    /// Plans a collection that has not yet recorded the forgotten content: operations up to
    /// `through` and the sessions `tombstones` count as forgotten.
    fn planned(
        inventory: &'a Inventory<'a>,
        purpose: Purpose,
        now: Time,
        (through, gone): (u64, Vec<ForgottenSession>),
    ) -> Result<CollectionPlan> {
        let mut forgotten = ForgottenContent::load(inventory, inventory.refs())?;
        if purpose.may_free() {
            forgotten.sessions.iter_mut().for_each(|gone| gone.update_expiry(now.micros));
        }
        let mut refs = inventory.refs().clone();
        let goes = |name: &str| {
            gone.iter().any(|it| ForgottenSession::session_of_ref(name) == Some(&*it.session))
        };
        refs.values.retain(|name| !goes(name));
        forgotten.sessions.extend(gone);
        forgotten.through = forgotten.through.max(through);
        let roots = Roots::find_with_forgotten(inventory, &refs, now.micros, forgotten)?;
        Ok(Self::with_roots(inventory, roots, purpose, now, None)?.plan)
    }

    fn with_roots(
        inventory: &'a Inventory<'a>,
        roots: Roots,
        purpose: Purpose,
        now: Time,
        known: Option<PreviousMark>,
    ) -> Result<Self> {
        let retention = plan_turns(inventory, &roots, purpose, now)?;
        let mut marker = Marker::new(inventory, Arc::clone(&roots.holes));
        if let Some(known) = known {
            marker.reuse(known);
        }
        let now_round = mark(&mut marker, inventory, &roots, &retention)?;
        marker.begin_round();
        marker.mark_possible_children(&|_| true)?;
        let states = file_states(inventory, &marker, purpose);
        let bound = if purpose.is_step() { size_bound(inventory, inventory.refs())? } else { None };
        let limits = Limits {
            is_budgeted: has_budget(&retention),
            bound_bytes: bound,
            room_bytes: Some(inventory.room_for_pack()?),
        };
        let FilesPlan { chosen, tier, partial, files } =
            plan_files(inventory, &states, purpose, limits);
        let (live, garbage) =
            states.iter().fold(<(ObjectsSize, ObjectsSize)>::default(), |sum, state| {
                (sum.0.plus(state.live), sum.1.plus(state.garbage))
            });
        let gone = tombstones(inventory, &marker, &roots, &retention, &chosen)?;
        let holes = plan_known_losses(inventory, &marker, &roots.holes);
        let plan = CollectionPlan { retention, live, garbage, files, tier, partial, holes };
        Ok(Self { inventory, roots, marker, plan, chosen, now_round, gone })
    }

    /// Replaces the chosen files; returns the mark for the next step.
    pub(in crate::maintenance) fn apply(
        self,
        repo: &Repository,
        collection: &Collection<'_>,
    ) -> Result<(Replaced, Marker<'a>)> {
        let replacement = self.replacement()?;
        let Self { inventory, mut marker, chosen, roots, plan, .. } = self;
        // Frees the memory of the plan before writing needs memory.
        drop((roots, plan));
        let mut arrived = |ids: &[ObjectId]| {
            marker.begin_round();
            let added = marker.mark_arrivals(repo.store(), ids)?;
            let lost = |id: &ObjectId| {
                let file = inventory.find(id).and_then(|position| inventory.file_of(position));
                file.is_some_and(|file| chosen.contains(&file))
            };
            let needed = added.into_iter().filter(|(id, _)| lost(id));
            Ok(needed.map(|(id, kind)| PackItem { id, kind, placement: 0, cohort: 0 }).collect())
        };
        let replaced = collection.replace(&replacement, &mut arrived)?;
        drop(replacement);
        Ok((replaced, marker))
    }

    fn replacement(&self) -> Result<FileReplacement> {
        let (inventory, files, tier) = (self.inventory, self.chosen.clone(), self.plan.tier);
        let kept = self.plan.retention.kept.iter().copied();
        let cohorts = Cohorts::find(inventory, &self.roots, kept, tier)?;
        let items = arrange(inventory, &self.marker, &files, self.now_round, tier, &cohorts);
        Ok(FileReplacement { files, items, gone: self.gone.clone(), tier })
    }
}

/// The files to rewrite, and the fate of each file.
struct FilesPlan {
    chosen: Vec<usize>,
    tier: Tier,
    partial: bool,
    files: Vec<StoreFilePlan>,
}

/// Plans the fate of each file from the objects marked in it.
fn plan_files(
    inventory: &Inventory<'_>,
    states: &[FileState],
    purpose: Purpose,
    limits: Limits,
) -> FilesPlan {
    let (chosen, tier, partial) = choose_files(states, purpose, limits);
    let fate = |number: &usize, state: &FileState| match state.replaceable {
        _ if chosen.contains(number) => Fate::Replaced,
        true => Fate::Kept,
        false => Fate::InUse,
    };
    let files = states.iter().enumerate().zip(inventory.files());
    let files = files.map(|((number, state), file)| StoreFilePlan {
        name: file.name.clone(),
        tier: file.tier,
        bytes: file.bytes,
        live: state.live,
        garbage: state.garbage,
        fate: fate(&number, state),
    });
    FilesPlan { files: files.collect(), chosen, tier, partial }
}

/// Returns the plan for each file that the next collection would make from a mark.
pub(in crate::maintenance) fn files_of_gc(
    inventory: &Inventory<'_>,
    marker: &Marker<'_>,
    retention: &RetentionPlan,
) -> Vec<StoreFilePlan> {
    let states = file_states(inventory, marker, Purpose::Gc);
    let limits = Limits { is_budgeted: has_budget(retention), bound_bytes: None, room_bytes: None };
    plan_files(inventory, &states, Purpose::Gc, limits).files
}

/// Returns true if some session has a budget of bytes.
fn has_budget(retention: &RetentionPlan) -> bool {
    retention.sessions.iter().any(|session| session.bytes.is_some())
}

impl ObjectsSize {
    fn plus(self, other: Self) -> Self {
        Self { objects: self.objects + other.objects, bytes: self.bytes + other.bytes }
    }
}

/// Marks everything that must stay; returns the round of the newest contexts.
pub(in crate::maintenance) fn mark(
    marker: &mut Marker<'_>,
    inventory: &Inventory<'_>,
    roots: &Roots,
    retention: &RetentionPlan,
) -> Result<u32> {
    let kept = newest_first(retention, roots);
    let is_tip = |commit: &&&GraphCommit| {
        let reasons = roots.commits.get(&commit.id).into_iter().flatten();
        reasons.into_iter().any(|reason| matches!(reason, Reason::Branch(_) | Reason::Head))
    };
    let tips: Vec<ObjectId> = kept.iter().filter(is_tip).map(|commit| commit.tree).collect();
    let now_round = marker.begin_round();
    marker.mark_contexts(&tips)?;
    marker.mark(kept.iter().map(|commit| commit.id))?;
    marker.mark(unkept_commits(retention, roots))?;
    marker.mark(roots.operations.iter().copied())?;
    let objects: Vec<ObjectId> = roots.objects.keys().copied().collect();
    marker.mark(objects.iter().copied())?;
    for commits in kept.chunks(COMMITS_PER_ROUND) {
        marker.begin_round();
        let trees: Vec<ObjectId> = commits.iter().map(|commit| commit.tree).collect();
        marker.mark_contexts(&trees)?;
    }
    marker.begin_round();
    marker.mark_closure(inventory, &objects)?;
    for (number, file) in inventory.files().iter().enumerate() {
        if !file.replaceable {
            let entries =
                (file.first..file.first + file.objects).filter_map(|at| inventory.entry(at));
            let ids: Vec<ObjectId> = entries.filter(|e| e.file == number).map(|e| e.id).collect();
            marker.mark(ids.iter().copied())?;
            marker.mark_closure(inventory, &ids)?;
        }
    }
    Ok(now_round)
}

/// Returns the kept commits: sessions by their newest turn, and the turns of each session newest
/// first. Packs have this order, so that listing sessions or turns by time reads a pack front to
/// back. In the order of ids or names, each commit would be in a block of its own.
fn newest_first<'r>(retention: &RetentionPlan, roots: &'r Roots) -> Vec<&'r GraphCommit> {
    let graph = &roots.graph;
    let numbers = retention.kept.iter().filter_map(|id| graph.find(id));
    let mut kept: Vec<&GraphCommit> =
        numbers.filter_map(|number| graph.commits().get(number)).collect();
    let mut newest: HashMap<usize, (i64, ObjectId)> = HashMap::new();
    for commit in &kept {
        let time = (commit.time_micros, commit.id);
        newest.entry(commit.session).and_modify(|known| *known = time.max(*known)).or_insert(time);
    }
    kept.sort_by_key(|commit| Reverse(newest.get(&commit.session)));
    kept
}

/// Returns the other commits: the commit object stays, its context does not.
fn unkept_commits(retention: &RetentionPlan, roots: &Roots) -> Vec<ObjectId> {
    let kept: HashSet<&ObjectId> = retention.kept.iter().collect();
    let others = roots.graph.commits().iter().map(|commit| commit.id);
    others.filter(|id| !kept.contains(id)).collect()
}

/// Plans for the known losses and the objects that stay because of them.
fn plan_known_losses(
    inventory: &Inventory<'_>,
    marker: &Marker<'_>,
    holes: &KnownLosses,
) -> KnownLossesPlan {
    let lost = holes.lost.keys().filter(|id| inventory.find(id).is_none()).count() as u64;
    let spared =
        marker.spared().iter().filter_map(|marked| inventory.entry(marked.position as usize));
    let spared = spared.fold(ObjectsSize::default(), |sum, entry| {
        sum.plus(ObjectsSize { objects: 1, bytes: entry.stored_bytes })
    });
    KnownLossesPlan { lost, spared }
}

/// Counts the live objects of each file, and finds archives of an outdated form.
fn file_states(inventory: &Inventory<'_>, marker: &Marker<'_>, purpose: Purpose) -> Vec<FileState> {
    let archives = purpose == Purpose::Repack(Tier::Archive);
    let state = |file: &crate::store::InventoryFile| {
        let mut state = FileState {
            tier: file.tier,
            bytes: file.bytes,
            replaceable: file.replaceable,
            outdated: archives && file.replaceable && inventory.has_outdated_form(file),
            live: ObjectsSize::default(),
            garbage: ObjectsSize::default(),
        };
        inventory.release_pages();
        for position in file.first..file.first + file.objects {
            let Some(entry) = inventory.entry(position) else { continue };
            let amount = ObjectsSize { objects: 1, bytes: entry.stored_bytes };
            if marker.is_marked(position) {
                state.live = state.live.plus(amount);
            } else {
                state.garbage = state.garbage.plus(amount);
            }
        }
        state
    };
    inventory.files().iter().map(state).collect()
}

/// Returns the tombstones of the new pack: elided contexts and dropped operations, old and new,
/// unless a file that stays has the tombstone. Tombstones of redacted objects stay forever.
pub(in crate::maintenance) fn tombstones(
    inventory: &Inventory<'_>,
    marker: &Marker<'_>,
    roots: &Roots,
    retention: &RetentionPlan,
    chosen: &[usize],
) -> Result<Vec<(ObjectId, Kind, Tombstone)>> {
    let mut redacted = Vec::new();
    let mut answered = HashSet::new();
    for file in 0..inventory.files().len() {
        for (id, kind, why) in inventory.tombstones_in(file) {
            if !chosen.contains(&file) {
                answered.insert(id);
            } else if why == Tombstone::Redacted {
                redacted.push((id, kind, why));
            }
        }
    }
    let turns = retention.elided.iter().chain(&retention.gone);
    let trees = turns.map(|turn| (turn.tree, Kind::Node, Tombstone::Elided));
    let ends = log_ends(inventory, marker, chosen)?;
    let floor = roots.floor.iter().chain(&ends);
    let floor = floor.map(|id| (*id, Kind::Operation, Tombstone::Elided));
    let is_live = |id: &ObjectId| inventory.find(id).is_some_and(|at| marker.is_marked(at));
    let mut gone: Vec<_> = redacted
        .into_iter()
        .chain(trees)
        .chain(floor)
        .filter(|(id, ..)| !answered.contains(id) && !is_live(id))
        .collect();
    // `Redacted` is first in the stable sort and wins over other reasons.
    gone.sort_by_key(|(id, ..)| *id);
    gone.dedup_by_key(|(id, ..)| *id);
    Ok(gone)
}

/// Returns the parents at which the operation log ends: files that are not rewritten hold more
/// operations than are kept, and a reader of the log needs a tombstone at its end.
fn log_ends(
    inventory: &Inventory<'_>,
    marker: &Marker<'_>,
    chosen: &[usize],
) -> Result<Vec<ObjectId>> {
    let stays = |id: &ObjectId| {
        inventory.find(id).is_some_and(|at| {
            marker.is_marked(at)
                || !inventory.file_of(at).is_some_and(|file| chosen.contains(&file))
        })
    };
    let mut ends = Vec::new();
    for id in inventory.operations().filter(stays) {
        let bytes = inventory.read_as(Kind::Operation, &id)?;
        let parents = Operation::decode(&bytes).map_err(|error| error.at(id))?.parents;
        ends.extend(parents.into_iter().filter(|parent| !stays(parent)));
    }
    Ok(ends)
}
