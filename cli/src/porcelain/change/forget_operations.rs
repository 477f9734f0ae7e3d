//! Plans to forget operations: the undos that are lost, and the bytes that become free.

use std::io::Write;

use turntree::maintenance::{CollectionPlan, Purpose, plan_collection, plan_collection_after};
use turntree::object::Time;
use turntree::repo::{OperationEntry, Repository};

use crate::view::error::Result;
use crate::view::json;
use crate::view::output::Output;
use crate::view::render::{count, size};

/// A plan to forget operations.
#[derive(Debug, Default)]
pub(crate) struct Forgetting {
    /// The number of operations to forget.
    pub(crate) operations: u64,
    /// The number of the newest of them in the store, if there is one.
    pub(crate) through: Option<u64>,
    /// The number of operations among them that are in force, so that an undo could revert them.
    pub(crate) undoable: u64,
    /// Stored bytes that a collection can free only after this.
    pub(crate) freeable_bytes: u64,
}

impl Forgetting {
    /// Plans to forget the operations up to `newest`, before a collection for `purpose`.
    pub(crate) fn plan(
        repo: &Repository,
        newest: &OperationEntry,
        purpose: Purpose,
        now: Time,
    ) -> Result<Self> {
        let (through, undone) = (newest.operation.sequence, repo.undone_operations()?);
        let mut plan = Self { through: Some(through), ..Self::default() };
        for entry in repo.operations() {
            let entry = entry?;
            if entry.operation.sequence <= through {
                plan.operations += 1;
                plan.undoable += u64::from(!undone.contains(&entry.id));
            }
        }
        let without = plan_collection(repo, purpose, now)?;
        let with = plan_collection_after(repo, purpose, now, through)?;
        let freed = |plan: &CollectionPlan| plan.garbage.bytes;
        plan.freeable_bytes = freed(&with).saturating_sub(freed(&without));
        Ok(plan)
    }

    /// The JSON record of the plan, and of the operation that carried it out.
    pub(crate) fn record(&self, operation: Option<u64>) -> json::OperationsForgotten {
        json::OperationsForgotten {
            dry_run: operation.is_none(),
            operations: self.operations,
            through: self.through,
            undoable: self.undoable,
            freeable_bytes: self.freeable_bytes,
            operation,
        }
    }
}

/// Writes the plan, or its result.
pub(crate) fn write(out: &mut Output, plan: &Forgetting, done: bool) -> Result<()> {
    let (operations, bytes) = (count(plan.operations, "operation"), size(plan.freeable_bytes));
    let undoable = count(plan.undoable, "operation");
    let (verb, could) = if done { ("forgot", "can") } else { ("would forget", "could") };
    writeln!(
        out,
        "{verb} {operations}: {undoable} in force cannot be undone then, and a collection {could} free {bytes} more"
    )?;
    Ok(())
}
