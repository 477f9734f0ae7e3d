//! The budget of the store: the sessions forgotten for it, and why others are kept.

use std::io::Write;

use turntree::maintenance::{BudgetPlan, BudgetedSession};
use turntree::object::Time;

use crate::view::error::Result;
use crate::view::output::{FAINT, NAME, Output};
use crate::view::render::table::{Cell, Table};
use crate::view::render::{count, size};
use crate::view::{clock, json};

/// Maximum number of sessions to name.
const MAX_NAMED: usize = 10;

/// Writes each session with its size and whether it stays.
pub(crate) fn write_sessions(out: &mut Output, plan: &BudgetPlan, now: Time) -> Result<()> {
    let mut table = Table::new(&["session", "turns", "newest", "takes", ""]);
    for session in &plan.sessions {
        let fate = match (&session.kept_by, session.goes) {
            (Some(why), _) => format!("stays: {why}"),
            (None, true) => "goes".to_owned(),
            (None, false) => "stays".to_owned(),
        };
        table.row(vec![
            Cell::styled(NAME, &session.own.session),
            session.own.turns.to_string().into(),
            Cell::styled(FAINT, clock::relative(session.time, now)),
            size(session.own.size.bytes).into(),
            fate.into(),
        ]);
    }
    table.write(out)?;
    Ok(())
}

/// Compares the sizes with the budget, and reports the result; `operation` forgot sessions.
pub(crate) fn write_sum(out: &mut Output, plan: &BudgetPlan, operation: Option<u64>) -> Result<()> {
    let budget = size(plan.budget_bytes);
    let going: Vec<&str> = plan.going().map(|session| session.own.session.as_str()).collect();
    let freed = size(plan.going().map(|session| session.own.size.bytes).sum());
    let stays = size(plan.staying_bytes());
    match (going.len() as u64, operation) {
        (0, _) => {
            writeln!(out, "no session is forgotten for the budget of {budget}: {stays} stay")?;
        }
        (n, None) => {
            let sessions = count(n, "session");
            writeln!(
                out,
                "{sessions} would be forgotten for the budget of {budget}, with {freed}; {stays} stay"
            )?;
        }
        (n, Some(operation)) => {
            let sessions = count(n, "session");
            writeln!(
                out,
                "forgot {sessions} for the budget of {budget}: the first collection after a day frees {freed}, 'turntree undo {operation}' restores them until then"
            )?;
        }
    }
    for name in going.iter().take(MAX_NAMED) {
        writeln!(out, "  {}", out.paint.paint(NAME, name))?;
    }
    if let Some(more) = going.len().checked_sub(MAX_NAMED).filter(|more| *more > 0) {
        writeln!(out, "  and {more} more")?;
    }
    if plan.leaving.bytes > 0 {
        writeln!(out, "{} of sessions that were forgotten do not count", size(plan.leaving.bytes))?;
    }
    if plan.staying_bytes() > plan.budget_bytes {
        let kept = plan.sessions.iter().filter(|session| session.kept_by.is_some()).count() as u64;
        let sessions = count(kept, "session");
        writeln!(
            out,
            "that is over the budget: {sessions} and their shared content must stay, see 'retention set --whole-store --dry-run'"
        )?;
    }
    Ok(())
}

/// The JSON record of a plan.
pub(crate) fn record(plan: &BudgetPlan, operation: Option<u64>) -> json::StoreBudget {
    json::StoreBudget {
        budget_bytes: plan.budget_bytes,
        staying_bytes: plan.staying_bytes(),
        shared_bytes: plan.rest.bytes,
        leaving_bytes: plan.leaving.bytes,
        operation,
        sessions: plan.sessions.iter().map(session).collect(),
    }
}

fn session(session: &BudgetedSession) -> json::BudgetedSession {
    json::BudgetedSession {
        session: session.own.session.clone(),
        turns: session.own.turns,
        bytes: session.own.size.bytes,
        time: clock::rfc3339(session.time),
        kept_by: session.kept_by.clone(),
        goes: session.goes,
    }
}
