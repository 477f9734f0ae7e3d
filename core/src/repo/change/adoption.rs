//! Adoptions: work that commits session by session, so that a stopped process leaves complete
//! sessions, and that one undo reverts as a whole.
//!
//! The reason of the first operation is `adopt NAME`, and that of each further one
//! `adopt NAME with N`, where N is the number of the first. All have the same actor.

use std::sync::{Mutex, PoisonError};

use crate::error::Result;
use crate::object::Operation;
use crate::repo::{OperationEntry, Repository, Signature, Transaction};
use crate::store::Committed;

const ADOPT: &str = "adopt";
const WITH: &str = "with";

/// A running adoption, used from any number of threads and handles.
#[derive(Debug, Default)]
pub struct Adoption {
    /// The number of the first operation.
    first: Mutex<Option<u64>>,
}

impl Adoption {
    /// Commits a change as part of the adoption; `name` is a word without spaces for the adopted
    /// content.
    ///
    /// # Errors
    /// Errors of [`Transaction::commit`].
    pub fn commit(
        &self,
        change: Transaction<'_>,
        stamp: &Signature,
        name: &str,
    ) -> Result<Committed> {
        let mut first = self.first.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(number) = *first {
            drop(first);
            return change.commit(stamp, &format!("{ADOPT} {name} {WITH} {number}"));
        }
        // The lock makes other threads wait for the number of the first operation.
        let committed = change.commit(stamp, &format!("{ADOPT} {name}"))?;
        *first = Some(committed.sequence);
        Ok(committed)
    }
}

/// Returns the number of the first operation of the adoption that an operation belongs to.
pub(super) fn first_operation(operation: &Operation) -> Option<u64> {
    let words: Vec<&str> = operation.reason.split(' ').collect();
    match words[..] {
        [ADOPT, _] => Some(operation.sequence),
        [ADOPT, _, WITH, first] => first.parse().ok().filter(|first| *first < operation.sequence),
        _ => None,
    }
}

/// Returns true if two operations belong to one adoption.
pub(super) fn is_same_adoption(a: &Operation, b: &Operation) -> bool {
    let first = first_operation(a);
    first.is_some() && first == first_operation(b) && a.actor == b.actor
}

impl Repository {
    /// Returns the operations of the adoption that `entry` belongs to, newest first; only `entry`
    /// if it belongs to none.
    ///
    /// # Errors
    /// Errors of reading operations.
    pub fn adoption_of(&self, entry: &OperationEntry) -> Result<Vec<OperationEntry>> {
        let Some(first) = first_operation(&entry.operation) else { return Ok(vec![entry.clone()]) };
        let mut found = Vec::new();
        for other in self.operations() {
            let other = other?;
            if other.operation.sequence < first {
                break;
            }
            if is_same_adoption(&other.operation, &entry.operation) {
                found.push(other);
            }
        }
        Ok(found)
    }
}
