//! Defines the plan of a store budget: sessions that stay, sessions to forget, and their sizes.

use super::collection_plan::ObjectsSize;
use crate::object::Time;

/// The size of one session.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct SessionSize {
    /// The name of the session.
    pub session: String,
    /// Commits that are reachable neither from the rest nor from a session before this one.
    pub turns: u64,
    /// The size that these commits and their contexts add.
    pub size: ObjectsSize,
}

/// The effect of a store budget on each session.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct BudgetPlan {
    /// The budget.
    pub budget_bytes: u64,
    /// Objects that belong to no single session: shared by several sessions that stay, or of tags
    /// and operations.
    pub rest: ObjectsSize,
    /// Content of sessions that are already forgotten, which a later collection frees.
    pub leaving: ObjectsSize,
    /// The sessions: first those that stay under any budget, then the rest, each newest first.
    pub sessions: Vec<BudgetedSession>,
}

/// A session under a budget.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct BudgetedSession {
    /// The size that the session adds to the sessions before it.
    pub own: SessionSize,
    /// The time of the newest turn.
    pub time: Time,
    /// The reason why the session stays under any budget, in words.
    pub kept_by: Option<String>,
    /// True if the session has to be forgotten.
    pub goes: bool,
}

impl BudgetPlan {
    /// Returns the bytes of everything that stays.
    #[must_use]
    pub fn staying_bytes(&self) -> u64 {
        let stay = self.sessions.iter().filter(|session| !session.goes);
        stay.fold(self.rest.bytes, |sum, session| sum + session.own.size.bytes)
    }

    /// Returns the sessions to forget, newest first.
    pub fn going(&self) -> impl Iterator<Item = &BudgetedSession> {
        self.sessions.iter().filter(|session| session.goes)
    }
}

/// The outcome of enforcing a store budget.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct EnforcedBudget {
    /// The plan.
    pub plan: BudgetPlan,
    /// The number of the operation that forgot the sessions.
    pub operation: Option<u64>,
}
