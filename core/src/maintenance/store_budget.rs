//! The budget of a store: the oldest sessions go, whole, until what stays fits.
//!
//! A session that must go is [forgotten](crate::repo::ForgottenSession), and its content comes free
//! [`GRACE_MICROS`] later, so an undo takes it back until then. Sessions with a tag or a pin stay,
//! those that HEAD or a place is at, those of the last day, and the newest of each directory. What
//! several sessions share counts for the newest, or for those that stay.
//!
//! [`enforce_store_budget`] does it. Collections of the whole store and [automatic maintenance](super::auto)
//! call it, so every program that looks after a store keeps its budget.

use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet};

use super::budget_plan::{BudgetPlan, BudgetedSession, EnforcedBudget};
use super::budget_setting::store_budget;
use super::collect::{Collected, run};
use super::collection_plan::{CollectionPlan, Purpose};
use super::expire_sessions::{GRACE_MICROS, MAX_ROUNDS};
use super::newest_time::newest_time;
use super::session_sizes::{SessionSizes, measure_packed_sessions};
use crate::error::{Error, ErrorKind, Result};
use crate::object::{ObjectId, RefValue, Time};
use crate::repo::{BranchName, HEAD, Repository, Signature, is_place};
use crate::store::{CollectorLock, Committed, Tier};

/// A session whose newest turn is no older stays.
const RECENT_MICROS: i64 = 24 * 60 * 60 * 1_000_000;

/// Plans which sessions go so that the store fits into a budget, at the moment `now`.
///
/// Sizes are those of the store when it is packed, with ids and index; history indexes count as they are.
///
/// # Errors
/// Those of [`measure_sessions`](super::measure_sessions).
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
    // Counted among the files of the store too; they are some percent of a pack, whoever goes.
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

/// Lets the sessions of a plan go, as one operation; nothing when none goes.
///
/// # Errors
/// `Conflict` when one went on since, `InvalidInput` or `NotFound` when one was tagged, pinned or removed
/// since, and those of a commit.
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
                let message =
                    format!("session {} went on meanwhile: plan again", session.own.session);
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

/// The plan for the budget that the store has; nothing when it has none, or is within it.
///
/// # Errors
/// Those of [`store_budget`] and of [`plan_store_budget`].
pub fn planned_store_budget(repo: &Repository, now: Time) -> Result<Option<BudgetPlan>> {
    match exceeded(repo)? {
        Some(budget) => plan_store_budget(repo, budget, now).map(Some),
        None => Ok(None),
    }
}

/// Lets the oldest sessions go when the store is over its budget, packed; nothing when it has none, or
/// is within it, which costs a look at the sizes of files.
///
/// # Errors
/// Those of [`store_budget`], of a collection, `Locked` among them, and of [`apply_store_budget`].
pub fn enforce_store_budget(
    repo: &Repository,
    stamp: &Signature,
) -> Result<Option<EnforcedBudget>> {
    enforce_under(repo, &repo.store().lock_collector()?, stamp)
}

/// [`enforce_store_budget`], under a lock that the caller has.
pub(super) fn enforce_under(
    repo: &Repository,
    lock: &CollectorLock,
    stamp: &Signature,
) -> Result<Option<EnforcedBudget>> {
    if exceeded(repo)?.is_none() {
        return Ok(None);
    }
    // What is not packed takes several times more, and no session goes for that.
    run(repo, lock, Purpose::Repack(Tier::Compacted), stamp, &mut |_| ())?;
    let Some(budget) = exceeded(repo)? else { return Ok(None) };
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

/// The budget of the store, if its files take more.
fn exceeded(repo: &Repository) -> Result<Option<u64>> {
    let Some(budget) = store_budget(repo.store(), &repo.refs())? else { return Ok(None) };
    Ok((repo.store().summary()?.file_bytes > budget).then_some(budget))
}

/// Collects, step by step until nothing is left to do; a [`Purpose::Step`] is one step. A
/// [`Purpose::Gc`], or one like it, keeps the budget of the store afterwards, if it has one.
///
/// `before_step` sees the plan of each step before it is applied.
///
/// # Errors
/// Those of [`plan_collection`](super::plan_collection) and of [`enforce_store_budget`], `Locked`
/// while another collection goes on unless the handle
/// [waits](crate::store::Store::wait_for_collections), and those of writing a pack; then the store is
/// as it was before the step.
pub fn collect(
    repo: &Repository,
    purpose: Purpose,
    stamp: &Signature,
    before_step: &mut dyn FnMut(&CollectionPlan),
) -> Result<Collected> {
    // First of all, so that nothing is planned or changed while another collection goes on.
    let lock = repo.store().lock_collector()?;
    let collected = run(repo, &lock, purpose, stamp, before_step)?;
    // Afterwards: what is garbage is not to cost a session.
    let budget = if purpose.is_gc() { enforce_under(repo, &lock, stamp)? } else { None };
    Ok(Collected { budget, ..collected })
}

/// The sessions that HEAD and the places are at.
fn sessions_of_places(repo: &Repository) -> BTreeSet<String> {
    let refs = repo.refs();
    let named = refs.values.iter().filter(|(name, _)| *name == HEAD || is_place(name));
    let branches = named.filter_map(|(_, value)| match value {
        RefValue::Symbolic(full) => BranchName::from_full(full),
        RefValue::Object(_) => None,
    });
    branches.map(|branch| branch.session().to_owned()).collect()
}
