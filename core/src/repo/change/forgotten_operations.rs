//! Forgotten operations: an explicit start of the operation log, regardless of age and number.
//!
//! ```text
//! refs/maintenance/operations   {"version":1,"through":41}
//! ```
//!
//! Operations up to `through` count as not kept: undo cannot revert them, a collection does not
//! keep objects alive for them, and the next collection drops them. Writing the ref is itself an
//! operation, the first kept one. An older value must not be restored: its objects may be freed.

use serde::{Deserialize, Serialize};

use crate::error::{Error, Result};
use crate::object::{Kind, ObjectSink, ObjectSource, RefValue};
use crate::repo::versioned_json::decode_versioned;
use crate::repo::{Repository, Transaction};
use crate::store::{Expected, RefTable};

/// The ref that records the forgotten operations.
const FORGOTTEN_OPERATIONS: &str = "refs/maintenance/operations";

const WHAT: &str = "the forgotten operations";
const VERSION: u64 = 1;

/// The blob of the ref, its fields in this order.
#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct StoredBoundary {
    version: u64,
    through: u64,
}

/// Returns the sequence of the newest forgotten operation in a store with these refs; 0 if there is
/// none.
///
/// # Errors
/// `NotFound`, `Corrupt` or `Unsupported`, naming the ref.
pub(crate) fn forgotten_through(source: &dyn ObjectSource, refs: &RefTable) -> Result<u64> {
    let Some(value) = refs.value(FORGOTTEN_OPERATIONS) else { return Ok(0) };
    let read = || {
        let RefValue::Object(id) = value else {
            return Err(Error::corrupt(WHAT, "a blob", "a symbolic ref"));
        };
        let bytes = source.read_as(Kind::Blob, id)?;
        let StoredBoundary { through, .. } = decode_versioned(WHAT, VERSION, &bytes)?;
        Ok(through)
    };
    read().map_err(|error: Error| error.at(FORGOTTEN_OPERATIONS))
}

impl Transaction<'_> {
    /// Forgets the operations up to the sequence `through`. Undo cannot revert them from then on,
    /// and the next collection frees objects that only they referenced.
    ///
    /// # Errors
    /// `InvalidInput` when `through` is newer than all operations, and errors of reading the
    /// previous value.
    pub fn forget_operations(&mut self, through: u64) -> Result<()> {
        if through > self.base_sequence() {
            let message = format!("there is no operation {through} yet");
            return Err(Error::invalid(message));
        }
        let refs = self.repo().refs();
        let through = through.max(forgotten_through(self.repo().store(), &refs)?);
        let bytes = serde_json::to_vec(&StoredBoundary { version: VERSION, through })
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
    /// Returns the sequence of the newest forgotten operation; 0 if there is none.
    ///
    /// # Errors
    /// `NotFound`, `Corrupt` or `Unsupported`, naming the ref.
    pub fn forgotten_operations(&self) -> Result<u64> {
        forgotten_through(self.store(), &self.store().refs())
    }
}
