//! The setting of the budget of a store.
//!
//! ```text
//! refs/retention-store   {"version":1,"budget_bytes":500000000}
//! ```

use serde::{Deserialize, Serialize};

use crate::error::{Error, Result};
use crate::object::{Kind, ObjectSink, ObjectSource, RefValue};
use crate::repo::{Transaction, decode_versioned};
use crate::store::{Expected, RefTable};

const BUDGET_REF: &str = "refs/retention-store";
const WHAT: &str = "the budget of the store";
const VERSION: u64 = 1;

/// The blob of the ref, its fields in this order.
#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct StoredBudget {
    version: u64,
    budget_bytes: u64,
}

/// Returns the budget of a store with these refs, in bytes, if it has one.
///
/// # Errors
/// `NotFound`, `Corrupt` or `Unsupported`, naming the ref: nothing may be forgotten while the
/// budget cannot be read.
pub fn store_budget(source: &dyn ObjectSource, refs: &RefTable) -> Result<Option<u64>> {
    let Some(value) = refs.value(BUDGET_REF) else { return Ok(None) };
    let RefValue::Object(id) = value else {
        return Err(Error::corrupt(BUDGET_REF, "a budget", "a symbolic ref"));
    };
    let read = || -> Result<u64> {
        let bytes = source.read_as(Kind::Blob, id)?;
        let StoredBudget { budget_bytes, .. } = decode_versioned(WHAT, VERSION, &bytes)?;
        match budget_bytes {
            0 => Err(Error::corrupt(WHAT, "a number of 1 or more", "0")),
            budget => Ok(budget),
        }
    };
    read().map(Some).map_err(|error| error.at(BUDGET_REF))
}

/// Sets the budget of the store in bytes, or removes it. It takes effect with the next collection of
/// the whole store or the next step of automatic maintenance.
///
/// # Errors
/// `InvalidInput` for 0.
pub fn set_store_budget(change: &mut Transaction<'_>, budget_bytes: Option<u64>) -> Result<()> {
    let Some(budget_bytes) = budget_bytes else {
        change.set_ref(BUDGET_REF, Expected::Any, None);
        return Ok(());
    };
    if budget_bytes == 0 {
        return Err(Error::invalid(format!("{WHAT} must be above zero")));
    }
    let stored = serde_json::to_vec(&StoredBudget { version: VERSION, budget_bytes })
        .map_err(|source| Error::invalid(WHAT).with_source(source))?;
    let id = change.write(Kind::Blob, stored.into())?;
    change.set_ref(BUDGET_REF, Expected::Any, Some(RefValue::Object(id)));
    Ok(())
}
