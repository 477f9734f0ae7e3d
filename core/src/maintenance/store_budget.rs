//! The budget of a store: the oldest sessions go, whole, until what stays fits.
//!
//! ```text
//! refs/retention-store   {"version":1,"budget_bytes":500000000}
//! ```
//!
//! A session that must go is [forgotten](crate::repo::ForgottenSession), and its content comes free
//! [`GRACE_MICROS`] later, so an undo takes it back until then. Sessions with a tag or a pin stay,
//! those that HEAD or a place is at, those of the last day, and whatever the caller keeps. What
//! several sessions share counts for the newest, or for those that stay.

use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet};

use serde::{Deserialize, Serialize};

use super::collection_plan::ObjectsSize;
use super::session_sizes::{SessionSize, SessionSizes, measure_sessions};
use crate::error::{Error, Result};
use crate::object::{Kind, ObjectId, ObjectSink, ObjectSource, RefValue, Time};
use crate::repo::{
    BranchName, HEAD, Repository, Signature, Transaction, decode_versioned, is_place,
};
use crate::store::{Committed, Expected, RefTable};

/// The time for which an undo brings back what went for the budget.
pub const GRACE_MICROS: i64 = 24 * 60 * 60 * 1_000_000;

/// A session whose newest turn is no older stays.
const RECENT_MICROS: i64 = 24 * 60 * 60 * 1_000_000;

const BUDGET_REF: &str = "refs/retention-store";
const WHAT: &str = "the budget of the store";
const VERSION: u64 = 1;

/// The blob behind the ref, its fields in this order.
#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Stored {
    version: u64,
    budget_bytes: u64,
}

/// What a budget means for each session.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct BudgetPlan {
    /// The budget.
    pub budget_bytes: u64,
    /// What is of no session alone: what several of those that stay share, tags, operations.
    pub rest: ObjectsSize,
    /// What went already and is freed in the end.
    pub leaving: ObjectsSize,
    /// The sessions: those that stay whatever the budget is, then the others, each newest first.
    pub sessions: Vec<BudgetedSession>,
}

/// A session under a budget.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct BudgetedSession {
    /// What it adds to those before it.
    pub own: SessionSize,
    /// When its newest turn was made.
    pub time: Time,
    /// Why it stays whatever the budget is, in words.
    pub kept_by: Option<String>,
    /// Whether it goes.
    pub goes: bool,
}

impl BudgetPlan {
    /// The bytes of everything that stays.
    #[must_use]
    pub fn staying_bytes(&self) -> u64 {
        let stay = self.sessions.iter().filter(|session| !session.goes);
        stay.fold(self.rest.bytes, |sum, session| sum + session.own.size.bytes)
    }

    /// The sessions that go, newest first.
    pub fn going(&self) -> impl Iterator<Item = &BudgetedSession> {
        self.sessions.iter().filter(|session| session.goes)
    }
}

/// Returns the budget of a store with these refs, in bytes, if it has one.
///
/// # Errors
/// `NotFound`, `Corrupt` or `Unsupported`, naming the ref: nothing may go while it cannot be read.
pub fn store_budget(source: &dyn ObjectSource, refs: &RefTable) -> Result<Option<u64>> {
    let Some(value) = refs.value(BUDGET_REF) else { return Ok(None) };
    let RefValue::Object(id) = value else {
        return Err(Error::corrupt(BUDGET_REF, "a budget", "a link to a ref"));
    };
    let read = || -> Result<u64> {
        let bytes = source.read_as(Kind::Blob, id)?;
        let Stored { budget_bytes, .. } = decode_versioned(WHAT, VERSION, &bytes)?;
        match budget_bytes {
            0 => Err(Error::corrupt(WHAT, "a number from 1 on", "0")),
            budget => Ok(budget),
        }
    };
    read().map(Some).map_err(|error| error.at(BUDGET_REF))
}

/// Sets the budget of the store in bytes, or removes it. It takes effect with the next collection of
/// a caller who enforces it.
///
/// # Errors
/// `InvalidInput` for 0.
pub fn set_store_budget(change: &mut Transaction<'_>, budget_bytes: Option<u64>) -> Result<()> {
    let Some(budget_bytes) = budget_bytes else {
        change.set_ref(BUDGET_REF, Expected::Any, None);
        return Ok(());
    };
    if budget_bytes == 0 {
        return Err(Error::invalid(format!("{WHAT} is not above zero")));
    }
    let stored = serde_json::to_vec(&Stored { version: VERSION, budget_bytes })
        .map_err(|source| Error::invalid(WHAT).with_source(source))?;
    let id = change.write(Kind::Blob, stored.into())?;
    change.set_ref(BUDGET_REF, Expected::Any, Some(RefValue::Object(id)));
    Ok(())
}

/// Plans which sessions go so that the store fits into a budget, at the moment `now`. `keeps` is
/// asked about each session with its newest turn, newest first, and may say why it stays.
///
/// Sizes are those of what is stored now: content that is not packed yet takes several times more.
///
/// # Errors
/// Those of [`measure_sessions`] and of `keeps`.
pub fn plan_store_budget(
    repo: &Repository,
    budget_bytes: u64,
    now: Time,
    keeps: &mut dyn FnMut(&str, &ObjectId) -> Result<Option<String>>,
) -> Result<BudgetPlan> {
    let mut newest: BTreeMap<String, (Time, ObjectId)> = BTreeMap::new();
    for (branch, tip) in repo.branches() {
        let time = repo.commit(&tip)?.time;
        let known = newest.entry(branch.session().to_owned()).or_insert((time, tip));
        if time.micros > known.0.micros {
            *known = (time, tip);
        }
    }
    let mut sessions: Vec<(String, (Time, ObjectId))> = newest.into_iter().collect();
    sessions.sort_by_key(|(_, (time, _))| Reverse(time.micros));
    let (named, at) = (repo.kept_sessions(now.micros)?, sessions_of_places(repo));
    let mut ordered = Vec::new();
    for (session, (time, tip)) in sessions {
        // Asked in any case: what it keeps may depend on what it was asked before.
        let asked = keeps(&session, &tip)?;
        let names = repo.names_of_session(&session)?;
        let name = names.iter().find_map(|name| named.get(name)?.first()).cloned();
        let is_recent = time.micros > now.micros.saturating_sub(RECENT_MICROS);
        let kept_by = name
            .or_else(|| at.contains(&session).then(|| "switched to".to_owned()))
            .or_else(|| is_recent.then(|| "of the last day".to_owned()))
            .or(asked);
        ordered.push((session, time, kept_by));
    }
    // Stable: each part stays newest first.
    ordered.sort_by_key(|(_, _, kept_by)| kept_by.is_none());
    let order: Vec<String> = ordered.iter().map(|(session, ..)| session.clone()).collect();
    let SessionSizes { rest, sessions, leaving } = measure_sessions(repo, &order, now)?;
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
/// `InvalidInput` or `NotFound` when one was tagged, pinned or removed since, and those of a commit.
pub fn apply_store_budget(
    repo: &Repository,
    plan: &BudgetPlan,
    stamp: &Signature,
) -> Result<Option<Committed>> {
    let mut change = repo.begin();
    let free_micros = stamp.time.micros.saturating_add(GRACE_MICROS);
    let mut gone = 0_u64;
    for session in plan.going() {
        change.forget_session(repo, &session.own.session, stamp, Some(free_micros))?;
        gone += 1;
    }
    let are = if gone == 1 { "session" } else { "sessions" };
    let reason = format!("forget {gone} {are} over the budget of the store");
    if gone == 0 { Ok(None) } else { change.commit(stamp, &reason).map(Some) }
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
