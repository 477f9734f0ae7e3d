//! The operation log: every change of refs, newest first.

use super::{HEAD, Repository};
use crate::error::{Error, ErrorKind, Result};
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
    /// Every operation that is kept, newest first. One object read for each. The last one has a
    /// parent when a collection has dropped what was before it.
    pub fn operations(&self) -> impl Iterator<Item = Result<OperationEntry>> {
        let mut next = self.refs().operation;
        std::iter::from_fn(move || {
            let id = next.take()?;
            let operation = self
                .store()
                .read_as(Kind::Operation, &id)
                .and_then(|bytes| Operation::decode(&bytes))
                .map_err(|error| error.at(id));
            match &operation {
                Ok(operation) => next = operation.parents.first().copied(),
                Err(error) if error.kind() == ErrorKind::Expired => return None,
                Err(_) => {}
            }
            Some(operation.map(|operation| OperationEntry { id, operation }))
        })
    }

    /// The value a ref had `n` changes ago: 0 is the present one.
    ///
    /// # Errors
    /// `NotFound` when that is before the first operation that is kept, else what reading operations
    /// reports.
    pub fn ref_before(&self, name: &str, n: usize) -> Result<Option<RefValue>> {
        if n == 0 {
            return Ok(self.refs().value(name).cloned());
        }
        let (mut left, mut first) = (n, None);
        for entry in self.operations() {
            let operation = first.insert(entry?.operation);
            for change in operation.changes.drain(..) {
                if change.name == name {
                    left -= 1;
                    if left == 0 {
                        return Ok(change.old);
                    }
                }
            }
        }
        check_whole(first.as_ref()).map(|()| None)
    }

    /// The value a ref had at a moment, in microseconds since the Unix epoch.
    ///
    /// # Errors
    /// `NotFound` when that is before the first operation that is kept, else what reading operations
    /// reports.
    pub fn ref_at(&self, name: &str, micros: i64) -> Result<Option<RefValue>> {
        let (mut value, mut first) = (self.refs().value(name).cloned(), None);
        for entry in self.operations() {
            let operation = first.insert(entry?.operation);
            if operation.time_micros <= micros {
                return Ok(value);
            }
            if let Some(change) = operation.changes.iter().find(|change| change.name == name) {
                value.clone_from(&change.old);
            }
        }
        check_whole(first.as_ref()).map(|()| value)
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

/// Refuses to answer beyond the first operation that is kept, when there were others before it.
fn check_whole(first: Option<&Operation>) -> Result<()> {
    match first {
        Some(Operation { parents, sequence, .. }) if !parents.is_empty() => Err(Error::not_found(
            format!("the operations before number {sequence} are not kept any more"),
        )),
        _ => Ok(()),
    }
}
