//! Records of pins and of retention policies.

use std::collections::BTreeMap;

use schemars::JsonSchema;
use serde::Serialize;
use turntree::repo::Pin;

/// `pin`, and one of `pins`.
#[derive(Serialize, JsonSchema)]
pub(crate) struct PinRecord {
    /// Its name.
    pub(crate) pin: String,
    /// The commit.
    pub(crate) id: String,
    /// Session and turn; `null` if an expired pin's commit was dropped.
    pub(crate) session: Option<String>,
    pub(crate) turn: Option<u64>,
    pub(crate) reason: String,
    pub(crate) actor: String,
    pub(crate) time: String,
    pub(crate) expires: Option<String>,
    /// True if it protects nothing now.
    pub(crate) expired: bool,
}

/// `pins`.
#[derive(Serialize)]
pub(crate) struct Pins {
    pub(crate) pins: Vec<PinRecord>,
}

/// `unpin`.
#[derive(Serialize)]
pub(crate) struct Unpin {
    pub(crate) unpinned: Vec<Unpinned>,
}

/// A removed pin.
#[derive(Serialize, JsonSchema)]
pub(crate) struct Unpinned {
    /// Its name.
    pub(crate) pin: String,
    /// The pinned commit.
    pub(crate) id: String,
}

/// A retention policy; missing rules are `null` or empty.
#[derive(Serialize)]
pub(crate) struct Policy {
    pub(crate) keep_last: Option<u64>,
    pub(crate) keep_within_micros: Option<i64>,
    pub(crate) thin: Vec<String>,
    pub(crate) budget_bytes: Option<u64>,
    /// The age from which the session expires.
    pub(crate) expire_session_micros: Option<i64>,
    /// True if no turn is kept for an undo.
    pub(crate) strict: bool,
}

/// `retention set`.
#[derive(Serialize)]
pub(crate) struct RetentionSet {
    /// The session; `null` for the default.
    pub(crate) session: Option<String>,
    pub(crate) policy: Policy,
    pub(crate) dry_run: bool,
    /// Turns that would expire, with `--dry-run`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) sessions: Option<Vec<SessionPlan>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) notes: Option<Vec<String>>,
    /// Sessions that would expire, with `--dry-run`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) expired_sessions: Option<Vec<ExpiredSession>>,
}

/// A session that expires.
#[derive(Serialize)]
pub(crate) struct ExpiredSession {
    pub(crate) session: String,
    /// The time of its newest turn, or of the last change of its branches, whichever is later.
    pub(crate) time: String,
    /// True if the same collection frees it, not one a day later.
    pub(crate) at_once: bool,
}

/// The effect of a policy on a session.
#[derive(Serialize)]
pub(crate) struct SessionPlan {
    pub(crate) session: String,
    /// Turns that keep their content.
    pub(crate) kept: u64,
    /// Turns that expire.
    pub(crate) expiring: u64,
    /// Turns that expired earlier.
    pub(crate) expired: u64,
    /// The oldest and the newest turn that expire.
    pub(crate) first: Option<u64>,
    pub(crate) last: Option<u64>,
    /// The number of turns kept between these or without a rule, by reason.
    pub(crate) protected: BTreeMap<&'static str, u64>,
    /// Bytes of the kept turns in a pack, if they were measured.
    pub(crate) bytes: Option<u64>,
}

/// The budget of the store, and its effect on each session.
#[derive(Serialize)]
pub(crate) struct StoreBudget {
    pub(crate) budget_bytes: u64,
    /// Bytes of everything that is kept.
    pub(crate) staying_bytes: u64,
    /// Bytes among these that do not belong to a single session.
    pub(crate) shared_bytes: u64,
    /// Bytes of sessions that were already forgotten.
    pub(crate) leaving_bytes: u64,
    /// The number of the operation that forgot sessions; `null` if there is none.
    pub(crate) operation: Option<u64>,
    pub(crate) sessions: Vec<BudgetedSession>,
}

/// A session under the budget of the store.
#[derive(Serialize)]
pub(crate) struct BudgetedSession {
    pub(crate) session: String,
    /// Turns that the sessions before it in the list do not have.
    pub(crate) turns: u64,
    /// Bytes that it adds to the sessions before it.
    pub(crate) bytes: u64,
    /// The time of its newest turn.
    pub(crate) time: String,
    /// Why it is kept under any budget; `null` if it need not be.
    pub(crate) kept_by: Option<String>,
    pub(crate) goes: bool,
}

/// `retention set --whole-store`.
#[derive(Serialize)]
pub(crate) struct StorePolicySet {
    /// The new budget; `null` if only the parity was set.
    pub(crate) budget_bytes: Option<u64>,
    /// The new parity, 0 for none; `null` if only the budget was set.
    pub(crate) parity_percent: Option<u8>,
    pub(crate) dry_run: bool,
    /// The effect, with `--dry-run`.
    pub(crate) plan: Option<StoreBudget>,
}

/// `retention show`.
#[derive(Serialize)]
pub(crate) struct RetentionShow {
    /// The budget of the store in bytes.
    pub(crate) store_budget_bytes: Option<u64>,
    /// The minimum parity of every new pack.
    pub(crate) store_parity_percent: Option<u8>,
    pub(crate) default: Option<Policy>,
    pub(crate) sessions: Vec<SessionPolicy>,
}

/// The policy of a session.
#[derive(Serialize)]
pub(crate) struct SessionPolicy {
    pub(crate) session: String,
    /// True if it is the session's own, not the default.
    pub(crate) own: bool,
    pub(crate) policy: Option<Policy>,
}

/// `retention unset`.
#[derive(Serialize)]
pub(crate) struct RetentionUnset {
    /// The session; `null` for the default.
    pub(crate) session: Option<String>,
}

/// An available turn, in the error about an expired one.
#[derive(Serialize)]
pub(crate) struct AvailableTurn {
    pub(crate) turn: u64,
    pub(crate) id: String,
}

impl From<&Pin> for Unpinned {
    fn from(pin: &Pin) -> Self {
        Self { pin: pin.name.clone(), id: pin.commit.to_string() }
    }
}
