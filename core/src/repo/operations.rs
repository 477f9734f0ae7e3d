//! The operation log: every change of refs, newest first.

use super::{HEAD, Repository};
use crate::error::Result;
use crate::object::{Kind, ObjectId, ObjectSource, Operation, RefValue};

/// An operation with its id.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct OperationEntry {
    /// Its id.
    pub id: ObjectId,
    /// What it says.
    pub operation: Operation,
}

impl Repository {
    /// Every operation, newest first. One object read for each.
    pub fn operations(&self) -> impl Iterator<Item = Result<OperationEntry>> {
        let mut next = self.refs().operation;
        std::iter::from_fn(move || {
            let id = next.take()?;
            let operation = self
                .store()
                .read_as(Kind::Operation, &id)
                .and_then(|bytes| Operation::decode(&bytes))
                .map_err(|error| error.at(id));
            if let Ok(operation) = &operation {
                next = operation.parents.first().copied();
            }
            Some(operation.map(|operation| OperationEntry { id, operation }))
        })
    }

    /// The value a ref had `n` changes ago: 0 is the present one.
    ///
    /// # Errors
    /// What reading operations reports.
    pub fn ref_before(&self, name: &str, n: usize) -> Result<Option<RefValue>> {
        if n == 0 {
            return Ok(self.refs().value(name).cloned());
        }
        let mut left = n;
        for entry in self.operations() {
            for change in entry?.operation.changes {
                if change.name == name {
                    left -= 1;
                    if left == 0 {
                        return Ok(change.old);
                    }
                }
            }
        }
        Ok(None)
    }

    /// The value a ref had at a moment, in microseconds since the Unix epoch.
    ///
    /// # Errors
    /// What reading operations reports.
    pub fn ref_at(&self, name: &str, micros: i64) -> Result<Option<RefValue>> {
        let mut value = self.refs().value(name).cloned();
        for entry in self.operations() {
            let operation = entry?.operation;
            if operation.time_micros <= micros {
                break;
            }
            if let Some(change) = operation.changes.into_iter().find(|change| change.name == name) {
                value = change.old;
            }
        }
        Ok(value)
    }

    /// The branch HEAD was at `n` switches ago, by its full name.
    ///
    /// # Errors
    /// What reading operations reports.
    pub fn head_before(&self, n: usize) -> Result<Option<String>> {
        Ok(match self.ref_before(HEAD, n)? {
            Some(RefValue::Symbolic(full)) => Some(full),
            _ => None,
        })
    }
}
