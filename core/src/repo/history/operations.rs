//! The operation log: every change of refs, newest first.

use std::sync::Arc;

use crate::error::{Error, ErrorKind, Result};
use crate::object::{IdPrefix, Kind, ObjectId, ObjectSource, Operation, RefChange, RefValue};
use crate::repo::Repository;
use crate::store::RefTable;

/// An operation with its id.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct OperationEntry {
    /// The id of the operation.
    pub id: ObjectId,
    /// The operation.
    pub operation: Operation,
}

impl Repository {
    /// Returns every kept operation, newest first. Reads one object per operation. The oldest one
    /// has a parent if the operations before it were forgotten or collected.
    pub fn operations(&self) -> impl Iterator<Item = Result<OperationEntry>> {
        let mut next = self.refs().operation;
        let mut forgotten = Some(self.forgotten_operations());
        let mut through = 0;
        std::iter::from_fn(move || {
            let id = next.take()?;
            match forgotten.take() {
                Some(Err(error)) => return Some(Err(error)),
                Some(Ok(found)) => through = found,
                None => {}
            }
            let operation = self
                .store()
                .read_as(Kind::Operation, &id)
                .and_then(|bytes| Operation::decode(&bytes))
                .map_err(|error| error.at(id));
            match &operation {
                Ok(operation) if operation.sequence <= through => return None,
                Ok(operation) => next = operation.parents.first().copied(),
                Err(error) if error.kind() == ErrorKind::Expired => return None,
                Err(_) => {}
            }
            Some(operation.map(|operation| OperationEntry { id, operation }))
        })
    }

    /// Returns the same store as of an operation: every ref has its value of that time. Content
    /// that expired since cannot be read, and the handle is read-only.
    ///
    /// # Errors
    /// `NotFound` when the operation is not kept, and errors of reading operations.
    pub fn at_operation(mut self, id: &ObjectId) -> Result<Self> {
        self.past = Some(Arc::new(self.refs_after(id)?));
        Ok(self)
    }

    /// Returns true for a handle of [`Repository::at_operation`].
    #[must_use]
    pub fn is_past(&self) -> bool {
        self.past.is_some()
    }

    fn refs_after(&self, id: &ObjectId) -> Result<RefTable> {
        let mut refs = (*self.refs()).clone();
        for entry in self.operations() {
            let OperationEntry { id: at, operation } = entry?;
            if at == *id {
                (refs.operation, refs.sequence) = (Some(at), operation.sequence);
                return Ok(refs);
            }
            for RefChange { name, old, .. } in operation.changes {
                match old {
                    Some(value) => refs.values.insert(name, value),
                    None => refs.values.remove(&name),
                };
            }
        }
        Err(Error::not_found(format!("operation {id} is not kept")))
    }

    /// Finds an operation by its number, or by at least 4 digits of its id.
    ///
    /// # Errors
    /// `InvalidInput` when the name is neither, `NotFound` when no kept operation has it,
    /// `Ambiguous` when several begin with the digits.
    pub fn find_operation(&self, name: &str) -> Result<OperationEntry> {
        let number = name.parse::<u64>().ok();
        let prefix = number.map_or_else(|| name.parse().map(Some), |_| Ok(None))?;
        let mut found: Option<OperationEntry> = None;
        for entry in self.operations() {
            let entry = entry?;
            if number == Some(entry.operation.sequence) {
                return Ok(entry);
            }
            if prefix.as_ref().is_some_and(|prefix: &IdPrefix| prefix.matches(&entry.id)) {
                if found.is_some() {
                    let message = format!("several operation ids begin with {name}");
                    return Err(Error::new(ErrorKind::Ambiguous, message));
                }
                found = Some(entry);
            }
        }
        found.ok_or_else(|| Error::not_found(format!("no operation {name} is kept")))
    }

    /// Returns the newest operation that changed the ref `name`; `None` if no kept operation did.
    /// Reads the operations since.
    ///
    /// # Errors
    /// Errors of reading operations.
    pub fn last_change(&self, name: &str) -> Result<Option<OperationEntry>> {
        let is_change = |change: &RefChange| change.name == name && change.old != change.new;
        for entry in self.operations() {
            let entry = entry?;
            if entry.operation.changes.iter().any(is_change) {
                return Ok(Some(entry));
            }
        }
        Ok(None)
    }

    /// Returns the value of a ref `n` changes ago: 0 is the current value.
    ///
    /// # Errors
    /// `NotFound` when that is before the first kept operation, and errors of reading operations.
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
        check_complete(first.as_ref()).map(|()| None)
    }

    /// Returns the value of a ref at a moment, in microseconds since the Unix epoch.
    ///
    /// # Errors
    /// `NotFound` when that is before the first kept operation, and errors of reading operations.
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
        check_complete(first.as_ref()).map(|()| value)
    }
}

/// Refuses to answer for times before the first kept operation, if there were earlier ones.
fn check_complete(first: Option<&Operation>) -> Result<()> {
    match first {
        Some(Operation { parents, sequence, .. }) if !parents.is_empty() => {
            Err(Error::not_found(format!("the operations before number {sequence} were forgotten")))
        }
        _ => Ok(()),
    }
}
