//! Enforces the budget of a store: forgets the oldest sessions as a whole until the rest fits.
//!
//! A session over the budget is [forgotten](crate::repo::ForgottenSession), and its content is
//! freed [`GRACE_MICROS`] later, so an undo restores it until then. The following sessions stay:
//! those with a tag or a pin, those that HEAD or a place points to, those of the last day, and the
//! newest of each directory. Shared content counts for the newest session, or for the sessions that
//! stay.
//!
//! [`enforce_locked`] implements it. Collections of the whole store and [automatic
//! maintenance](crate::maintenance::auto) call it, so every program that maintains a store keeps its budget.

use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet};

use crate::error::{Error, ErrorKind, Result};
use crate::maintenance::budget_plan::{BudgetPlan, BudgetedSession, EnforcedBudget};
use crate::maintenance::collect::collection::{Collected, run};
use crate::maintenance::collect::session_sizes::{SessionSizes, measure_packed_sessions};
use crate::maintenance::collection_plan::{CollectionPlan, Purpose};
use crate::maintenance::expire::expire_sessions::{GRACE_MICROS, MAX_ROUNDS};
use crate::maintenance::keep::budget_setting::store_budget;
use crate::maintenance::keep::newest_time::newest_time;
use crate::object::{ObjectId, RefValue, Time};
use crate::repo::{BranchName, HEAD, Repository, Signature, is_place};
use crate::store::{CollectorLock, Committed, Tier};

/// The age up to which a session stays, by its newest turn.
const RECENT_MICROS: i64 = 24 * 60 * 60 * 1_000_000;

/// Plans which sessions to forget so that the store fits into a budget, at the moment `now`.
///
/// Sizes are those of the packed store, with ids and index. History indexes count with their
/// current sizes.
///
/// # Errors
/// Errors of [`measure_sessions`](crate::maintenance::measure_sessions).
pub fn plan_store_budget(repo: &Repository, budget_bytes: u64, now: Time) -> Result<BudgetPlan> {
    let mut tips: BTreeMap<String, Vec<ObjectId>> = BTreeMap::new();
    for (branch, tip) in repo.branches() {
        tips.entry(branch.session().to_owned()).or_default().push(tip);
    }
    let mut sessions: Vec<(String, (Time, ObjectId))> = Vec::new();
    for (session, tips) in tips {
        let (mut newest, time) = (None, newest_time(repo, &tips, now)?);
        for tip in tips {
            let own = repo.commit(&tip)?.time.micros;
            newest = newest.max(Some((own, tip)));
        }
        sessions.extend(time.zip(newest).map(|(time, (_, tip))| (session, (time, tip))));
    }
    sessions.sort_by_key(|(_, (time, _))| Reverse(time.micros));
    let (named, at) = (repo.kept_sessions(now.micros)?, sessions_of_places(repo));
    let (mut ordered, mut directories) = (Vec::new(), BTreeSet::new());
    for (session, (time, tip)) in sessions {
        let own = repo.directories_of(&tip)?;
        let new: Vec<String> = own.into_iter().filter(|dir| !directories.contains(dir)).collect();
        let newest = ordered.is_empty().then(|| "the newest".to_owned());
        let of_directory = new.first().map(|dir| format!("the newest of {dir}")).or(newest);
        directories.extend(new);
        let names = repo.names_of_session(&session)?;
        let name = names.iter().find_map(|name| named.get(name)?.first()).cloned();
        let is_recent = time.micros > now.micros.saturating_sub(RECENT_MICROS);
        let kept_by = name
            .or_else(|| at.contains(&session).then(|| "switched to".to_owned()))
            .or_else(|| is_recent.then(|| "of the last day".to_owned()))
            .or(of_directory);
        ordered.push((session, time, kept_by));
    }
    // Stable: each part stays newest first.
    ordered.sort_by_key(|(_, _, kept_by)| kept_by.is_none());
    let order: Vec<String> = ordered.iter().map(|(session, ..)| session.clone()).collect();
    let SessionSizes { mut rest, sessions, leaving } = measure_packed_sessions(repo, &order, now)?;
    // The derived files count in the bytes of the store too. They take some percent of a pack,
    // whatever sessions go.
    rest.bytes = rest.bytes.saturating_add(repo.store().summary()?.derived_bytes);
    let mut plan = BudgetPlan { budget_bytes, rest, leaving, sessions: Vec::new() };
    let (mut used, mut is_full) = (rest.bytes, false);
    for (own, (_, time, kept_by)) in sessions.into_iter().zip(ordered) {
        used = used.saturating_add(own.size.bytes);
        is_full |= used > budget_bytes && kept_by.is_none();
        let goes = is_full && kept_by.is_none();
        plan.sessions.push(BudgetedSession { own, time, kept_by, goes });
    }
    Ok(plan)
}

/// Forgets the sessions of a plan in one operation; returns `None` if the plan forgets none.
///
/// # Errors
/// `Conflict` when a session has continued since, `InvalidInput` or `NotFound` when one was tagged,
/// pinned or removed since, and errors of a commit.
pub fn apply_store_budget(
    repo: &Repository,
    plan: &BudgetPlan,
    stamp: &Signature,
) -> Result<Option<Committed>> {
    let mut change = repo.begin();
    let free_micros = stamp.time.micros.saturating_add(GRACE_MICROS);
    let mut gone = 0_u64;
    for session in plan.going() {
        for (_, tip) in change.branches_of(&session.own.session) {
            if repo.commit(&tip)?.time.micros > session.time.micros {
                let message = format!(
                    "session {} has advanced since the plan was made: plan again",
                    session.own.session
                );
                return Err(Error::new(ErrorKind::Conflict, message));
            }
        }
        change.expire_session(repo, &session.own.session, stamp, Some(free_micros))?;
        gone += 1;
    }
    let are = if gone == 1 { "session" } else { "sessions" };
    let reason = format!("forget {gone} {are} over the budget of the store");
    if gone == 0 { Ok(None) } else { change.commit(stamp, &reason).map(Some) }
}

/// Plans for the budget of the store; returns `None` if it has none, or is within it.
///
/// # Errors
/// Errors of [`store_budget`] and of [`plan_store_budget`].
pub fn planned_store_budget(repo: &Repository, now: Time) -> Result<Option<BudgetPlan>> {
    match exceeded_budget(repo)? {
        Some(budget) => plan_store_budget(repo, budget, now).map(Some),
        None => Ok(None),
    }
}

/// Forgets the oldest sessions if the packed store exceeds its budget. Returns `None` if it has no
/// budget or is within it, which only costs a look at the sizes of files. The caller holds the lock
/// of the collector.
pub(super) fn enforce_locked(
    repo: &Repository,
    lock: &CollectorLock,
    stamp: &Signature,
) -> Result<Option<EnforcedBudget>> {
    if exceeded_budget(repo)?.is_none() {
        return Ok(None);
    }
    // Unpacked objects take several times more, and must not cost a session.
    run(repo, lock, Purpose::Repack(Tier::Compacted), stamp, &mut |_| ())?;
    let Some(budget) = exceeded_budget(repo)? else { return Ok(None) };
    let mut round = 1;
    loop {
        let plan = plan_store_budget(repo, budget, stamp.time)?;
        match apply_store_budget(repo, &plan, stamp) {
            Err(error) if error.kind() == ErrorKind::Conflict && round < MAX_ROUNDS => round += 1,
            done => {
                let operation = done?.map(|done| done.sequence);
                return Ok(Some(EnforcedBudget { plan, operation }));
            }
        }
    }
}

/// Returns the budget of the store if its files exceed it.
fn exceeded_budget(repo: &Repository) -> Result<Option<u64>> {
    let Some(budget) = store_budget(repo.store(), &repo.refs())? else { return Ok(None) };
    Ok((repo.store().summary()?.file_bytes > budget).then_some(budget))
}

/// Collects in steps until nothing is left to do; a [`Purpose::Step`] is one step. A
/// [`Purpose::Gc`] or a variant of it enforces the budget of the store afterwards, if there is one.
///
/// Calls `before_step` with the plan of each step before it is applied.
///
/// # Errors
/// Errors of [`plan_collection`](crate::maintenance::plan_collection), of [`store_budget`] and of
/// [`apply_store_budget`]; `Locked` while another collection runs, unless the handle
/// [waits](crate::store::Store::wait_for_collections); and errors of writing a pack. After an error
/// the store is as before the step.
pub fn collect(
    repo: &Repository,
    purpose: Purpose,
    stamp: &Signature,
    before_step: &mut dyn FnMut(&CollectionPlan),
) -> Result<Collected> {
    // Taken first, so that nothing is planned or changed while another collection runs.
    let lock = repo.store().lock_collector()?;
    let collected = run(repo, &lock, purpose, stamp, before_step)?;
    // Enforced last: garbage must not cost a session.
    let budget = if purpose.is_gc() { enforce_locked(repo, &lock, stamp)? } else { None };
    Ok(Collected { budget, ..collected })
}

/// Returns the sessions that HEAD and the places point to.
fn sessions_of_places(repo: &Repository) -> BTreeSet<String> {
    let refs = repo.refs();
    let named = refs.values.iter().filter(|(name, _)| *name == HEAD || is_place(name));
    let branches = named.filter_map(|(_, value)| match value {
        RefValue::Symbolic(full) => BranchName::from_full(full),
        RefValue::Object(_) => None,
    });
    branches.map(|branch| branch.session().to_owned()).collect()
}
