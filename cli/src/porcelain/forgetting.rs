//! What forgetting operations gives up, and what can be freed then.

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
    /// Operations that are forgotten.
    pub(crate) operations: u64,
    /// The number in the store of the newest of them, if there is one.
    pub(crate) through: Option<u64>,
    /// Those of them that an undo could take back now, as far as they themselves say.
    pub(crate) undoable: u64,
    /// Bytes, as they lie now, that a collection frees only then.
    pub(crate) freeable_bytes: u64,
}

impl Forgetting {
    /// Plans to forget the operations up to `newest`, before a collection of this purpose.
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

    /// The record of the plan, and of the operation that did it.
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

/// Writes the plan, or what was done by it.
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
