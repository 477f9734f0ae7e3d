//! Records of what is kept: pins, and policies of what expires.

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
    /// Session and turn of the commit; `null` when an expired pin's commit is gone.
    pub(crate) session: Option<String>,
    pub(crate) turn: Option<u64>,
    pub(crate) reason: String,
    pub(crate) actor: String,
    pub(crate) time: String,
    pub(crate) expires: Option<String>,
    /// True when it protects nothing any more.
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

/// A pin that was removed.
#[derive(Serialize, JsonSchema)]
pub(crate) struct Unpinned {
    /// Its name.
    pub(crate) pin: String,
    /// The commit it was on.
    pub(crate) id: String,
}

/// A retention policy; a rule that it does not have is `null` or empty.
#[derive(Serialize)]
pub(crate) struct Policy {
    pub(crate) keep_last: Option<u64>,
    pub(crate) keep_within_micros: Option<i64>,
    pub(crate) thin: Vec<String>,
    pub(crate) budget_bytes: Option<u64>,
    /// The age from which on the session goes.
    pub(crate) expire_session_micros: Option<i64>,
    /// True when no turn is spared for an undo.
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
    /// When its newest turn was made, or its branches were changed, whichever is later.
    pub(crate) time: String,
    /// True when it is freed by the same collection, and not a day later.
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
    /// The number of turns that stay between these, or though no rule keeps them, by reason.
    pub(crate) protected: BTreeMap<&'static str, u64>,
    /// Bytes of what stays as it will lie in a pack, where they were measured.
    pub(crate) bytes: Option<u64>,
}

/// The budget of the store, and what it means for each session.
#[derive(Serialize)]
pub(crate) struct StoreBudget {
    pub(crate) budget_bytes: u64,
    /// What everything takes that stays.
    pub(crate) staying_bytes: u64,
    /// What of that is of no session alone.
    pub(crate) shared_bytes: u64,
    /// What sessions take that went already.
    pub(crate) leaving_bytes: u64,
    /// The number of the operation that let sessions go; `null` when none did.
    pub(crate) operation: Option<u64>,
    pub(crate) sessions: Vec<BudgetedSession>,
}

/// A session under the budget of the store.
#[derive(Serialize)]
pub(crate) struct BudgetedSession {
    pub(crate) session: String,
    /// Turns that those before it in the list do not have.
    pub(crate) turns: u64,
    /// What it adds to those before it.
    pub(crate) bytes: u64,
    /// When its newest turn was made.
    pub(crate) time: String,
    /// Why it stays whatever the budget is; `null` when it need not.
    pub(crate) kept_by: Option<String>,
    pub(crate) goes: bool,
}

/// `retention set --whole-store`.
#[derive(Serialize)]
pub(crate) struct StorePolicySet {
    /// The budget that was set; `null` when only the parity was.
    pub(crate) budget_bytes: Option<u64>,
    /// The parity that was set, 0 for none; `null` when only the budget was.
    pub(crate) parity_percent: Option<u8>,
    pub(crate) dry_run: bool,
    /// What it means, with `--dry-run`.
    pub(crate) plan: Option<StoreBudget>,
}

/// `retention show`.
#[derive(Serialize)]
pub(crate) struct RetentionShow {
    /// The budget of the store in bytes.
    pub(crate) store_budget_bytes: Option<u64>,
    /// The least parity of every new pack.
    pub(crate) store_parity_percent: Option<u8>,
    pub(crate) default: Option<Policy>,
    pub(crate) sessions: Vec<SessionPolicy>,
}

/// The policy of a session.
#[derive(Serialize)]
pub(crate) struct SessionPolicy {
    pub(crate) session: String,
    /// True when it is its own and not the default.
    pub(crate) own: bool,
    pub(crate) policy: Option<Policy>,
}

/// `retention unset`.
#[derive(Serialize)]
pub(crate) struct RetentionUnset {
    /// The session; `null` for the default.
    pub(crate) session: Option<String>,
}

/// A turn that can still be read, in the error about one that expired.
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
