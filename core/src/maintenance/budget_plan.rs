//! What a budget of the store means for each session, and what was done for it.

use super::collection_plan::ObjectsSize;
use crate::object::Time;

/// What one session takes.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct SessionSize {
    /// Its name.
    pub session: String,
    /// Commits that neither the rest nor a session before it leads to.
    pub turns: u64,
    /// What these and their contexts add.
    pub size: ObjectsSize,
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

/// What was done for the budget of a store.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct EnforcedBudget {
    /// The plan.
    pub plan: BudgetPlan,
    /// The number of the operation that let sessions go.
    pub operation: Option<u64>,
}
