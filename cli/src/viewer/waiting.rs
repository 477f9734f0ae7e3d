//! What waits for a decision, besides conflicts: sessions that retention or the budget of the store
//! forgets soon, and secrets that a scan found.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use turntree::maintenance::{Policies, plan_expired_sessions, plan_store_budget, store_budget};
use turntree::object::{ObjectId, Time};
use turntree::repo::Repository;
use turntree_exchange::known_secrets;

use crate::view::error::Result;

const HOUR_MICROS: i64 = 3600 * 1_000_000;

/// The time for which the plan of a budget is kept: it measures every object of the store.
const PLAN_MICROS: i64 = 60 * 1_000_000;

/// How long before a session is forgotten it waits for a decision.
const NOTICE_MICROS: i64 = 7 * 24 * HOUR_MICROS;

/// The sessions that wait.
pub(super) struct Waiting {
    /// The moment from which a collection forgets a session.
    pub(super) expiring: Arc<BTreeMap<String, Time>>,
    /// The number of open secrets of a session, as far as scans have found them.
    pub(super) secrets: BTreeMap<String, u64>,
}

/// The sessions that expire soon, by the newest operation and the hour that they were read at, and
/// those that do not fit into the budget of the store, by the minute.
#[derive(Debug, Default)]
pub(super) struct KnownExpiries {
    expiring: Mutex<Option<KnownAt>>,
    over_budget: Mutex<Option<KnownOverBudget>>,
}

/// The sessions that do not fit into a budget.
#[derive(Debug)]
struct KnownOverBudget {
    budget: u64,
    minute: i64,
    going: BTreeMap<String, Time>,
}

#[derive(Debug, Clone)]
struct KnownAt {
    operation: Option<ObjectId>,
    hour: i64,
    expiring: Arc<BTreeMap<String, Time>>,
}

impl KnownExpiries {
    /// Returns what waits in a store.
    pub(super) fn waiting(&self, repo: &Repository, now: Time) -> Result<Waiting> {
        let (operation, hour) = (repo.refs().operation, now.micros / HOUR_MICROS);
        let known = lock(&self.expiring).clone();
        let is_current = |known: &KnownAt| (known.operation, known.hour) == (operation, hour);
        let expiring = match known.filter(is_current) {
            Some(known) => known.expiring,
            None => Arc::new(self.expiring(repo, now)?),
        };
        let known = KnownAt { operation, hour, expiring: Arc::clone(&expiring) };
        *lock(&self.expiring) = Some(known);
        Ok(Waiting { expiring, secrets: known_secrets(repo)? })
    }

    fn expiring(&self, repo: &Repository, now: Time) -> Result<BTreeMap<String, Time>> {
        let mut ends = self.over_budget(repo, now)?;
        ends.extend(expiring(repo, now)?);
        Ok(ends)
    }

    /// Returns the sessions that the next collection forgets because the store exceeds its budget.
    fn over_budget(&self, repo: &Repository, now: Time) -> Result<BTreeMap<String, Time>> {
        let Some(budget) = store_budget(repo, &repo.refs())? else { return Ok(BTreeMap::new()) };
        // A store that is smaller as it is written is smaller packed, too.
        if repo.store().summary()?.used_bytes <= budget {
            return Ok(BTreeMap::new());
        }
        let minute = now.micros / PLAN_MICROS;
        let mut known = lock(&self.over_budget);
        let of_now = |it: &&KnownOverBudget| (it.budget, it.minute) == (budget, minute);
        let mut going = match known.as_ref().filter(of_now) {
            Some(known) => known.going.clone(),
            None => {
                let plan = plan_store_budget(repo, budget, now)?;
                let going = plan.going().map(|session| (session.own.session.clone(), now));
                let going: BTreeMap<String, Time> = going.collect();
                *known = Some(KnownOverBudget { budget, minute, going: going.clone() });
                going
            }
        };
        // Tags and pins since then keep their sessions.
        let kept = repo.kept_sessions(now.micros)?;
        for session in going.keys().cloned().collect::<Vec<_>>() {
            if repo.names_of_session(&session)?.iter().any(|name| kept.contains_key(name)) {
                going.remove(&session);
            }
        }
        Ok(going)
    }
}

fn lock<T>(known: &Mutex<T>) -> MutexGuard<'_, T> {
    known.lock().unwrap_or_else(PoisonError::into_inner)
}

fn expiring(repo: &Repository, now: Time) -> Result<BTreeMap<String, Time>> {
    let policies = Policies::load(repo, &repo.refs())?;
    let soon = Time { micros: now.micros.saturating_add(NOTICE_MICROS), ..now };
    let expired = plan_expired_sessions(repo, &policies, soon)?.into_iter();
    let ends = expired.filter_map(|it| {
        let age = policies.of(&it.session)?.expire_session?;
        let end = Time { micros: it.time.micros.saturating_add(age), ..it.time };
        Some((it.session, end))
    });
    Ok(ends.collect())
}
