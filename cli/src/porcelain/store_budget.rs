//! The budget of the store: which sessions go for it, and why others stay.

use std::collections::BTreeSet;
use std::io::Write;

use turntree::maintenance::{
    BudgetPlan, BudgetedSession, Purpose, apply_store_budget, collect, plan_store_budget,
    store_budget,
};
use turntree::object::Time;
use turntree::repo::{Repository, Signature};
use turntree::store::Tier;
use turntree_exchange::origin;

use crate::view::error::Result;
use crate::view::output::{FAINT, NAME, Output};
use crate::view::render::table::{Cell, Table};
use crate::view::render::{count, size};
use crate::view::{clock, json};

/// Sessions that are named.
const MAX_NAMED: usize = 10;

/// What was done for the budget of a store.
#[derive(Debug)]
pub(crate) struct Enforced {
    pub(crate) plan: BudgetPlan,
    /// The number of the operation that let sessions go.
    pub(crate) operation: Option<u64>,
}

/// Plans for a budget: the newest session of every directory stays.
pub(crate) fn plan(repo: &Repository, budget: u64, now: Time) -> turntree::Result<BudgetPlan> {
    let mut seen: BTreeSet<String> = BTreeSet::new();
    let mut is_first = true;
    plan_store_budget(repo, budget, now, &mut |_, tip| {
        let directories = origin(repo, tip)?.directories;
        let is_newest = std::mem::take(&mut is_first);
        let new: Vec<String> = directories.into_iter().filter(|dir| !seen.contains(dir)).collect();
        let newest = is_newest.then(|| "the newest".to_owned());
        let why = new.first().map(|dir| format!("the newest of {dir}")).or(newest);
        seen.extend(new);
        Ok(why)
    })
}

/// The plan for the budget that the store has; nothing when it has none, or is within it.
pub(crate) fn planned(repo: &Repository, now: Time) -> turntree::Result<Option<BudgetPlan>> {
    let Some(budget) = store_budget(repo.store(), &repo.refs())? else { return Ok(None) };
    if repo.store().summary()?.file_bytes <= budget {
        return Ok(None);
    }
    plan(repo, budget, now).map(Some)
}

/// Lets the oldest sessions go when the store is over its budget, packed.
pub(crate) fn enforce(repo: &Repository, stamp: &Signature) -> turntree::Result<Option<Enforced>> {
    let Some(budget) = store_budget(repo.store(), &repo.refs())? else { return Ok(None) };
    if repo.store().summary()?.file_bytes <= budget {
        return Ok(None);
    }
    // What is not packed takes several times more, and no session goes for that.
    collect(repo, Purpose::Repack(Tier::Compacted), stamp, &mut |_| ())?;
    if repo.store().summary()?.file_bytes <= budget {
        return Ok(None);
    }
    let plan = plan(repo, budget, stamp.time)?;
    let operation = apply_store_budget(repo, &plan, stamp)?.map(|done| done.sequence);
    Ok(Some(Enforced { plan, operation }))
}

/// Writes each session with what it takes and what becomes of it.
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

/// Writes how the sizes and the budget compare, and what becomes of it: `operation` let sessions go.
pub(crate) fn write_sum(out: &mut Output, plan: &BudgetPlan, operation: Option<u64>) -> Result<()> {
    let budget = size(plan.budget_bytes);
    let going: Vec<&str> = plan.going().map(|session| session.own.session.as_str()).collect();
    let freed = size(plan.going().map(|session| session.own.size.bytes).sum());
    let stays = size(plan.staying_bytes());
    match (going.len() as u64, operation) {
        (0, _) => writeln!(out, "no session goes for the budget of {budget}: {stays} stay")?,
        (n, None) => {
            let goes = if n == 1 { "goes" } else { "go" };
            let sessions = count(n, "session");
            writeln!(
                out,
                "{sessions} {goes} for the budget of {budget}, with {freed}; {stays} stay"
            )?;
        }
        (n, Some(operation)) => {
            let sessions = count(n, "session");
            writeln!(
                out,
                "forgot {sessions} for the budget of {budget}: {freed} come free with the first collection after a day, 'turntree undo {operation}' takes it back until then"
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
            "that is over the budget: {sessions} and what they share must stay, see 'retention set --whole-store --dry-run'"
        )?;
    }
    Ok(())
}

/// The record of a plan.
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
