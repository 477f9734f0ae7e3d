//! Operations that were forgotten: from which one on the log is kept, whatever their age and number.
//!
//! ```text
//! refs/maintenance/operations   {"version":1,"through":41}
//! ```
//!
//! Operations up to that one count as not kept from then on: no undo takes one back, no collection
//! keeps what only they lead to, and the next one drops them. Writing the ref is an operation, the
//! first that is kept. An older value must not be set again: what it leads to may be gone.

use serde::{Deserialize, Serialize};

use super::versioned_json::decode_versioned;
use super::{Repository, Transaction};
use crate::error::{Error, Result};
use crate::object::{Kind, ObjectSink, ObjectSource, RefValue};
use crate::store::{Expected, RefTable};

/// The ref that says which operations were forgotten.
const FORGOTTEN_OPERATIONS: &str = "refs/maintenance/operations";

const WHAT: &str = "the forgotten operations";
const VERSION: u64 = 1;

/// The blob behind the ref, its fields in this order.
#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Stored {
    version: u64,
    through: u64,
}

/// Returns the sequence of the newest operation that was forgotten in a store with these refs; 0 when
/// none was.
///
/// # Errors
/// `NotFound`, `Corrupt` or `Unsupported`, naming the ref.
pub(crate) fn forgotten_through(source: &dyn ObjectSource, refs: &RefTable) -> Result<u64> {
    let Some(value) = refs.value(FORGOTTEN_OPERATIONS) else { return Ok(0) };
    let read = || {
        let RefValue::Object(id) = value else {
            return Err(Error::corrupt(WHAT, "a blob", "the name of another ref"));
        };
        let bytes = source.read_as(Kind::Blob, id)?;
        let Stored { through, .. } = decode_versioned(WHAT, VERSION, &bytes)?;
        Ok(through)
    };
    read().map_err(|error: Error| error.at(FORGOTTEN_OPERATIONS))
}

impl Transaction<'_> {
    /// Forgets the operations up to the one with the sequence `through`, but for this one. No undo
    /// takes them back from then on, and the next collection frees what only they led to.
    ///
    /// # Errors
    /// `InvalidInput` when `through` is newer than all of them, those of reading what was forgotten
    /// before.
    pub fn forget_operations(&mut self, through: u64) -> Result<()> {
        if through > self.base_sequence() {
            let message = format!("there is no operation {through} yet");
            return Err(Error::invalid(message));
        }
        let refs = self.repo().refs();
        let through = through.max(forgotten_through(self.repo().store(), &refs)?);
        let bytes = serde_json::to_vec(&Stored { version: VERSION, through })
            .map_err(|error| Error::invalid(WHAT).with_source(error))?;
        let expected = match refs.value(FORGOTTEN_OPERATIONS) {
            Some(value) => Expected::Value(value.clone()),
            None => Expected::Absent,
        };
        let value = RefValue::Object(self.write(Kind::Blob, bytes.into())?);
        self.set_ref(FORGOTTEN_OPERATIONS, expected, Some(value));
        Ok(())
    }
}

impl Repository {
    /// Returns the sequence of the newest operation that was forgotten; 0 when none was.
    ///
    /// # Errors
    /// `NotFound`, `Corrupt` or `Unsupported`, naming the ref.
    pub fn forgotten_operations(&self) -> Result<u64> {
        forgotten_through(self.store(), &self.store().refs())
    }
}
