//! Plans the turns to expire in a store, from its policies and the sizes that budgets need.

use super::expire_sessions::policies_for;
use super::packed_cost::{MeasuredSessions, PackedCost};
use crate::error::Result;
use crate::maintenance::collection_plan::Purpose;
use crate::maintenance::keep::forget_choice::choose_forgotten;
use crate::maintenance::keep::policy::Policies;
use crate::maintenance::keep::retention::plan_retention;
use crate::maintenance::keep::retention_plan::RetentionPlan;
use crate::maintenance::keep::roots::Roots;
use crate::object::{ObjectId, Time};
use crate::repo::{Signature, Transaction};
use crate::store::Inventory;

/// Plans which turns the next collection would expire if `change`, which sets policies, was
/// committed now for this reason. The operation itself counts too: undo can revert it, and it has a
/// size. Writes nothing.
///
/// # Errors
/// Errors of [`plan_collection`](crate::maintenance::plan_collection), and errors of committing the change.
pub fn plan_policies(
    change: &Transaction<'_>,
    stamp: &Signature,
    reason: &str,
) -> Result<RetentionPlan> {
    let inventory = change.planned_inventory(stamp, reason)?;
    let roots = Roots::find(&inventory, inventory.refs(), stamp.time.micros)?;
    let policies = Policies::load(&inventory, inventory.refs())?;
    measured(&inventory, &roots, &policies, MeasuredSessions::All, stamp.time)
}

/// Plans the retention: only `gc` and steps expire turns.
pub(in crate::maintenance) fn plan_turns(
    inventory: &Inventory<'_>,
    roots: &Roots,
    purpose: Purpose,
    now: Time,
) -> Result<RetentionPlan> {
    let policies = policies_for(inventory, inventory.refs(), purpose)?;
    let measure = match purpose {
        Purpose::Step => MeasuredSessions::Step,
        Purpose::Settle => MeasuredSessions::Settle,
        _ => MeasuredSessions::Doubtful,
    };
    let mut plan = measured(inventory, roots, &policies, measure, now)?;
    let forgotten = choose_forgotten(roots, &plan).len();
    if forgotten > 0 && !policies.is_empty() {
        plan.notes.push(format!(
            "{forgotten} turns that expired long ago are forgotten, including their commits"
        ));
    }
    Ok(plan)
}

fn measured(
    inventory: &Inventory<'_>,
    roots: &Roots,
    policies: &Policies,
    measure: MeasuredSessions,
    now: Time,
) -> Result<RetentionPlan> {
    let is_gone = |tree: &ObjectId| is_dropped(inventory, tree);
    let mut cost = PackedCost::new(inventory, roots, measure);
    plan_retention(roots, policies, now.micros, &is_gone, Some(&mut cost))
}

/// Returns true if a context was elided on purpose. A lost context is missing too, but must not
/// count as expired.
pub(in crate::maintenance) fn is_dropped(inventory: &Inventory<'_>, tree: &ObjectId) -> bool {
    inventory.find(tree).is_none() && inventory.tombstone(tree).is_some()
}
