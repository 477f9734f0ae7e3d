//! Expires sessions by the policy for the age of their newest turn.
//!
//! The next collection [forgets](crate::repo::ForgottenSession) an expired session as a whole. Its
//! content is freed [`GRACE_MICROS`] later, so an undo restores it until then; under a strict
//! policy it is freed immediately. A tag or a pin on one of its turns keeps the session.

use std::collections::{BTreeMap, HashMap};

use crate::error::{Error, ErrorKind, Result};
use crate::maintenance::collection_plan::Purpose;
use crate::maintenance::keep::newest_time::newest_time;
use crate::maintenance::keep::policy::Policies;
use crate::object::{ObjectId, ObjectSource, Time};
use crate::repo::{BranchName, Repository, Signature};
use crate::store::RefTable;

/// The maximum number of plans. A plan is made again when another process changed an expired
/// session.
pub(in crate::maintenance) const MAX_ROUNDS: usize = 3;

/// The time for which an undo restores sessions that a policy expired.
pub const GRACE_MICROS: i64 = 24 * 60 * 60 * 1_000_000;

/// An expired session.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct ExpiredSession {
    /// The name of the session.
    pub session: String,
    /// The time of its newest turn, or of the last change of its branches, whichever is later.
    pub time: Time,
    /// True if its content is freed immediately.
    pub at_once: bool,
}

/// Finds the sessions that these policies expire at the moment `now`, by name.
///
/// Reads the newest turn of each branch, all turns of the sessions without a young enough newest
/// turn, and the operations if any session is old enough.
///
/// # Errors
/// Errors of reading commits, operations, tags and pins.
pub fn plan_expired_sessions(
    repo: &Repository,
    policies: &Policies,
    now: Time,
) -> Result<Vec<ExpiredSession>> {
    let age_of = |session: &str| policies.of(session).and_then(|policy| policy.expire_session);
    let is_over = |session: &str, time: i64| {
        age_of(session).is_some_and(|age| time < now.micros.saturating_sub(age))
    };
    let mut tips: BTreeMap<String, Vec<ObjectId>> = BTreeMap::new();
    for (branch, tip) in repo.branches() {
        if age_of(branch.session()).is_some() {
            tips.entry(branch.session().to_owned()).or_default().push(tip);
        }
    }
    let mut newest: BTreeMap<String, Time> = BTreeMap::new();
    for (session, tips) in tips {
        let mut is_young = false;
        for tip in &tips {
            let time = repo.commit(tip)?.time.micros;
            is_young |= time <= now.micros && !is_over(&session, time);
        }
        if is_young {
            continue;
        }
        let time = newest_time(repo, &tips, now)?.filter(|time| is_over(&session, time.micros));
        newest.extend(time.map(|time| (session, time)));
    }
    if newest.is_empty() {
        return Ok(Vec::new());
    }
    let changed = last_changes(repo)?;
    let kept = repo.kept_sessions(now.micros)?;
    let mut expired = Vec::new();
    for (session, mut time) in newest {
        if let Some(changed) = changed.get(&session).filter(|changed| **changed > time.micros) {
            time = Time { micros: *changed, ..time };
        }
        let names = repo.names_of_session(&session)?;
        let is_kept = names.iter().any(|name| kept.contains_key(name));
        if is_over(&session, time.micros) && !is_kept {
            let at_once = policies.of(&session).is_some_and(|policy| policy.strict);
            expired.push(ExpiredSession { session, time, at_once });
        }
    }
    Ok(expired)
}

/// Finds the sessions that a collection of this purpose would expire at the moment `now`.
///
/// # Errors
/// Errors of [`plan_expired_sessions`] and of reading the policies.
pub fn plan_expiring(
    repo: &Repository,
    purpose: Purpose,
    now: Time,
) -> Result<Vec<ExpiredSession>> {
    let policies = policies_for(repo.store(), &repo.refs(), purpose)?;
    plan_expired_sessions(repo, &policies, now)
}

/// Forgets expired sessions in one operation; returns them.
///
/// # Errors
/// Errors of finding them and of a commit; `Conflict` when one of them keeps changing concurrently.
pub(in crate::maintenance) fn expire_sessions(
    repo: &Repository,
    purpose: Purpose,
    stamp: &Signature,
) -> Result<Vec<ExpiredSession>> {
    for _ in 0..MAX_ROUNDS {
        // Begun before reading anything, so that a concurrent turn is a conflict.
        let mut change = repo.begin();
        let expired = plan_expiring(repo, purpose, stamp.time)?;
        if expired.is_empty() {
            return Ok(expired);
        }
        for ExpiredSession { session, at_once, .. } in &expired {
            let grace = stamp.time.micros.saturating_add(GRACE_MICROS);
            change.expire_session(repo, session, stamp, (!at_once).then_some(grace))?;
        }
        let are = if expired.len() == 1 { "session" } else { "sessions" };
        match change.commit(stamp, &format!("expire {} {are}", expired.len())) {
            Err(error) if error.kind() == ErrorKind::Conflict => {}
            done => return done.map(|_| expired),
        }
    }
    Err(Error::new(ErrorKind::Conflict, "expiring sessions keep changing: run it again"))
}

/// Returns the policies that a collection of this purpose applies.
pub(super) fn policies_for(
    source: &dyn ObjectSource,
    refs: &RefTable,
    purpose: Purpose,
) -> Result<Policies> {
    Ok(match purpose {
        Purpose::Repack(_) => Policies::default(),
        Purpose::Gc | Purpose::Step | Purpose::Settle => Policies::load(source, refs)?,
        Purpose::StrictGc | Purpose::GcNow => Policies::load(source, refs)?.strict(),
    })
}

/// Returns the time when the branches of each session last changed, according to the kept
/// operations.
fn last_changes(repo: &Repository) -> Result<HashMap<String, i64>> {
    let mut changed = HashMap::new();
    for entry in repo.operations() {
        let operation = entry?.operation;
        let branches = operation.changes.iter().filter_map(|it| BranchName::from_full(&it.name));
        for branch in branches {
            let known = changed.entry(branch.session().to_owned()).or_insert(i64::MIN);
            *known = operation.time_micros.max(*known);
        }
    }
    Ok(changed)
}
