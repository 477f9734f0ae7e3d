//! Plans of changes: made and shown first, carried out once, and refused if the state has changed
//! since.
//!
//! A waiting plan is the requested change with the state that it was made for. To carry it out, the
//! change is prepared again, in a separate store handle that no other request refreshes. If the
//! state is the same, the result is the planned one; a branch that moves at that moment fails the
//! commit.

use std::collections::VecDeque;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use getrandom::getrandom;
use hyper::StatusCode;
use serde::{Deserialize, Serialize};
use turntree::Error;
use turntree_exchange::SecretFilter;

use super::change::{Change, Done, Plan};
use super::lines::status;
use crate::loopback::Refusal;
use crate::program::invocation::{Location, Opened, open};
use crate::view::error::{Failure, Result};

/// The number of waiting plans; the oldest is dropped first.
const WAITING: usize = 8;

/// Bytes of the id of a plan.
const NAME_BYTES: usize = 16;

/// The changes of a store, if the server allows any.
pub(super) struct Changes {
    location: Location,
    /// Whether maintenance runs after a change.
    maintains: bool,
    waiting: Mutex<VecDeque<WaitingPlan>>,
    /// Held while a plan is made or carried out.
    changing: Mutex<()>,
}

struct WaitingPlan {
    name: String,
    change: Change,
    state: String,
}

/// A plan as sent to a page.
#[derive(Serialize)]
pub(super) struct NamedPlan {
    plan_id: String,
    #[serde(flatten)]
    plan: Plan,
}

/// The plan that a page confirms.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Wanted {
    plan_id: String,
}

impl Changes {
    pub(super) fn new(location: Location, maintains: bool) -> Self {
        Self { location, maintains, waiting: Mutex::default(), changing: Mutex::default() }
    }

    /// Waits for the change in progress, and blocks other changes.
    pub(super) fn quiet(&self) -> MutexGuard<'_, ()> {
        lock(&self.changing)
    }

    /// Plans the change that a page asks for.
    pub(super) fn plan(&self, asked: &[u8]) -> Result<NamedPlan, Refusal> {
        let change: Change = parsed(asked)?;
        let _turn = self.quiet();
        let planned = || {
            let opened = self.open()?;
            let prepared = change.clone().prepare(&opened.repo)?;
            Ok::<_, Failure>((prepared.plan, prepared.state))
        };
        let (plan, state) = planned().map_err(|failure| refused(&failure))?;
        let name = new_name().map_err(|failure| refused(&failure))?;
        let mut waiting = lock(&self.waiting);
        if waiting.len() >= WAITING {
            waiting.pop_front();
        }
        waiting.push_back(WaitingPlan { name: name.clone(), change, state });
        Ok(NamedPlan { plan_id: name, plan })
    }

    /// Carries out the plan that a page confirms, and deletes it, whatever the result.
    pub(super) fn carry_out(&self, asked: &[u8]) -> Result<Done, Refusal> {
        let Wanted { plan_id } = parsed(asked)?;
        let _turn = self.quiet();
        let WaitingPlan { change, state, .. } = self.take(&plan_id)?;
        let opened = self.open().map_err(|failure| refused(&failure))?;
        let done = {
            let repo = &*opened.repo;
            // A change that could be prepared before and now cannot: the state differs, too.
            let prepared = change.prepare(repo).map_err(|failure| stale(&failure.message()))?;
            if prepared.state != state {
                return Err(stale("a branch has moved, or a file was changed"));
            }
            prepared.apply(repo).map_err(|failure| refused(&failure))?
        };
        if self.maintains {
            opened.look_after_and_reap();
        }
        Ok(done)
    }

    fn take(&self, name: &str) -> Result<WaitingPlan, Refusal> {
        let mut waiting = lock(&self.waiting);
        let place = waiting.iter().position(|plan| plan.name == name);
        let found = place.and_then(|place| waiting.remove(place));
        found.ok_or_else(|| {
            let message = "this plan was already done or has expired: make a new plan";
            Refusal::new(StatusCode::NOT_FOUND, message)
        })
    }

    fn open(&self) -> Result<Opened> {
        let repo = open(&self.location)?.filtering(Arc::new(SecretFilter::new(false)));
        Ok(Opened::new(Arc::new(repo), self.location.dir.clone()))
    }
}

/// Parses a change that a page sent.
fn parsed<'a, T: Deserialize<'a>>(asked: &'a [u8]) -> Result<T, Refusal> {
    let malformed = |error| {
        let message = format!("this is not a change that a page can request: {error}");
        Refusal::new(StatusCode::BAD_REQUEST, message)
    };
    serde_json::from_slice(asked).map_err(malformed)
}

fn stale(why: &str) -> Refusal {
    let message = format!("nothing was done, because the plan is outdated: {why}");
    Refusal::new(StatusCode::CONFLICT, message)
}

/// The refusal for a failed change. A change that lost against another process can be requested
/// again.
fn refused(failure: &Failure) -> Refusal {
    let status = match status(failure) {
        StatusCode::SERVICE_UNAVAILABLE => StatusCode::CONFLICT,
        status => status,
    };
    Refusal::new(status, failure.message())
}

/// A random id that cannot be guessed.
fn new_name() -> Result<String> {
    let mut bytes = [0; NAME_BYTES];
    getrandom(&mut bytes).map_err(|error| Error::io("name a plan", std::io::Error::from(error)))?;
    Ok(bytes.iter().map(|byte| format!("{byte:02x}")).collect())
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
