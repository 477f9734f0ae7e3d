//! What waits for a decision, besides conflicts: sessions that retention forgets soon, and secrets
//! that a scan found.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, PoisonError};

use turntree::maintenance::{Policies, plan_expired_sessions};
use turntree::object::{ObjectId, Time};
use turntree::repo::Repository;
use turntree_exchange::known_secrets;

use crate::view::error::Result;

const HOUR_MICROS: i64 = 3600 * 1_000_000;

/// How long before a session is forgotten it waits for a decision.
const NOTICE_MICROS: i64 = 7 * 24 * HOUR_MICROS;

/// The sessions that wait.
pub(super) struct Waiting {
    /// The moment from which a collection forgets a session.
    pub(super) expiring: Arc<BTreeMap<String, Time>>,
    /// The number of open secrets of a session, as far as scans have found them.
    pub(super) secrets: BTreeMap<String, u64>,
}

/// The sessions that expire soon, by the newest operation and the hour that they were read at.
#[derive(Debug, Default)]
pub(super) struct KnownExpiries(Mutex<Option<KnownAt>>);

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
        let known = self.0.lock().unwrap_or_else(PoisonError::into_inner).clone();
        let is_current = |known: &KnownAt| (known.operation, known.hour) == (operation, hour);
        let expiring = match known.filter(is_current) {
            Some(known) => known.expiring,
            None => Arc::new(expiring(repo, now)?),
        };
        let known = KnownAt { operation, hour, expiring: Arc::clone(&expiring) };
        *self.0.lock().unwrap_or_else(PoisonError::into_inner) = Some(known);
        Ok(Waiting { expiring, secrets: known_secrets(repo)? })
    }
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
