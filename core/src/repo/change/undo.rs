//! Undo and redo: an operation is reverted by another operation, so neither ever loses anything.
//!
//! ```text
//! 5 fork   6 snapshot   7 undo 6   8 undo 5   9 redo (undo 8)
//!                                              in force: 5, 7, 9; the next undo takes 5 back
//! ```
//!
//! An operation is in force unless an operation in force reverts it. Undo reverts the newest
//! operation that was made or redone; redo reverts the newest undo in force. Reverting an operation
//! restores the old value of each ref that it changed. Undo refuses if a later operation changed
//! one of these refs, so it never reverts other work by accident. Undo never changes the following
//! refs:
//!
//! - `refs/maintenance`: maintenance, which describes the store.
//! - `refs/watch`: the observed use of contexts.
//! - `refs/captures`: files that wait for their tool calls.
//! - `refs/before`: earlier states of workspaces.
//! - `refs/forgotten`: the records of forgotten sessions.
//! - `refs/remotes`, `refs/remote-heads` and `refs/distant`: the known state of remotes.
//!
//! [`prepare_undo`](crate::workspace::prepare_undo) restores the files of a workspace;
//! [`Repository::undo`] alone leaves them as they are. Storing payloads cannot be undone, because a
//! conversation may cite them by now; evicting them can.
//!
//! The operations of one [`Adoption`](crate::repo::Adoption) are reverted together, by an operation that
//! names the newest of them, and redone together.

use std::collections::{BTreeMap, HashMap, HashSet};

use super::adoption::{first_operation, is_same_adoption};
use crate::error::{Error, ErrorKind, Result};
use crate::object::{Kind, Object, ObjectId, ObjectSource, Operation, RefChange, RefValue};
use crate::repo::history::earlier_turns::BEFORE;
use crate::repo::refs::remote_refs::{REMOTE_BRANCHES, REMOTE_HEADS};
use crate::repo::session::forgotten::FORGOTTEN;
use crate::repo::vfs::PAYLOADS_REF;
use crate::repo::watch::WATCHES;
use crate::repo::{BranchName, OperationEntry, Repository, Signature, Transaction};
use crate::store::{Committed, DISTANT_REFS, Expected};

/// The prefix of refs of maintenance.
const MAINTENANCE: &str = "refs/maintenance/";

/// The prefix of refs to files that wait for their tool calls.
const CAPTURES: &str = "refs/captures/";

/// The longest chain of undos of undos that is followed.
const MAX_DEPTH: usize = 1 << 12;

/// The changes of refs that revert an operation.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct UndoPlan {
    /// The operation to revert.
    pub undone: OperationEntry,
    /// The refs that change, with their current and their new values.
    pub changes: Vec<RefChange>,
    /// The workspace files that the operation moved.
    pub moved: Option<MovedFiles>,
}

/// Workspace files that an operation moved.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct MovedFiles {
    /// The branch of the workspace.
    pub branch: BranchName,
    /// The commit that keeps the earlier state of the workspace.
    pub before: ObjectId,
}

/// The last undo or redo, if later operations changed only workspace files.
#[derive(Debug, Clone)]
#[non_exhaustive]
pub struct LastUndo {
    /// The operation.
    pub entry: OperationEntry,
    /// The operation that it reverted.
    pub undone: OperationEntry,
    /// True for a redo.
    pub is_redo: bool,
    /// The earlier state of the workspace.
    pub moved: MovedFiles,
    /// The commit with the files to restore.
    pub target: ObjectId,
}

/// The operation log, prepared for undo.
struct OperationLog {
    /// The entries, newest first.
    entries: Vec<OperationEntry>,
    /// Operations that an operation in force has reverted.
    undone: HashSet<ObjectId>,
    /// The reverted operation of each undo or redo.
    undoes: HashMap<ObjectId, ObjectId>,
}

impl OperationLog {
    fn read(repo: &Repository) -> Result<Self> {
        let (mut entries, mut undone, mut undoes) = (Vec::new(), HashSet::new(), HashMap::new());
        for entry in repo.operations() {
            let entry = entry?;
            entries.push(entry);
        }
        for (at, entry) in entries.iter().enumerate() {
            let Some(target) = entry.operation.undoes else { continue };
            undoes.insert(entry.id, target);
            if undone.contains(&entry.id) {
                continue;
            }
            undone.insert(target);
            // Earlier operations of the same adoption are reverted with it.
            let older = entries.get(at + 1..).unwrap_or_default();
            if let Some(target) = older.iter().find(|older| older.id == target)
                && first_operation(&target.operation).is_some()
            {
                // The plan of an undo did not cover operations committed between the plan and the
                // undo.
                let seen = target.operation.sequence;
                let of_one = older.iter().filter(|it| {
                    it.operation.sequence <= seen
                        && is_same_adoption(&it.operation, &target.operation)
                });
                undone.extend(of_one.map(|it| it.id));
            }
        }
        Ok(Self { entries, undone, undoes })
    }

    /// Returns the operations that an undo of `entry` reverts: the entry itself, or all operations
    /// of its adoption that are in force, oldest first.
    fn undone_together<'a>(&'a self, entry: &'a OperationEntry) -> Vec<&'a OperationEntry> {
        if first_operation(&entry.operation).is_none() {
            return vec![entry];
        }
        let of_one = self.entries.iter().rev().filter(|other| {
            !self.undone.contains(&other.id) && is_same_adoption(&other.operation, &entry.operation)
        });
        of_one.collect()
    }

    /// Follows an operation to the one that it reverts, and so on to the subject of the chain.
    fn chain(&self, id: ObjectId) -> impl Iterator<Item = ObjectId> {
        std::iter::successors(Some(id), |id| self.undoes.get(id).copied()).take(MAX_DEPTH)
    }

    /// Returns the last operation with the effect of `entry`: itself, or the newest redo of it.
    fn newest_redo<'a>(&'a self, entry: &'a OperationEntry) -> &'a Operation {
        let does = |other: &&OperationEntry| {
            let place = self.chain(other.id).position(|id| id == entry.id);
            place.is_some_and(|place| place.is_multiple_of(2))
        };
        self.entries.iter().find(does).map_or(&entry.operation, |newest| &newest.operation)
    }

    /// Returns the operations in force of `actor`, or of all actors, newest first.
    fn in_force(&self, actor: Option<&str>) -> impl Iterator<Item = &OperationEntry> {
        let is_own =
            move |entry: &&OperationEntry| actor.is_none_or(|a| a == entry.operation.actor);
        self.entries.iter().filter(is_own).filter(|entry| !self.undone.contains(&entry.id))
    }
}

impl Repository {
    /// Returns the operations that are not in force because one in force reverts them. Reads the
    /// whole log.
    ///
    /// # Errors
    /// Errors of reading operations.
    pub fn undone_operations(&self) -> Result<HashSet<ObjectId>> {
        OperationLog::read(self).map(|log| log.undone)
    }

    /// Returns the operation that an undo would revert: the newest one in force that was made or
    /// redone, changed a ref and is not an undo, of `actor` or of all actors. `None` if there is no
    /// such operation in the log.
    ///
    /// # Errors
    /// Errors of reading operations.
    pub fn undoable(&self, actor: Option<&str>) -> Result<Option<OperationEntry>> {
        let log = OperationLog::read(self)?;
        for entry in log.in_force(actor) {
            let chain: Vec<ObjectId> = log.chain(entry.id).collect();
            // The undo of an undo redoes the operation.
            let made = chain.last().filter(|_| chain.len() % 2 == 1);
            let Some(made) = made.filter(|id| !log.undone.contains(id)) else { continue };
            let found = log.entries.iter().find(|entry| entry.id == *made);
            let found = found.filter(|entry| {
                let changes = reverse_changes(&entry.operation);
                changes.iter().any(|change| change.name != PAYLOADS_REF)
            });
            if found.is_some() {
                return Ok(found.cloned());
            }
        }
        Ok(None)
    }

    /// Returns the undo that a redo would revert: the newest in force, of `actor` or of all actors.
    ///
    /// # Errors
    /// Errors of reading operations.
    pub fn redoable(&self, actor: Option<&str>) -> Result<Option<OperationEntry>> {
        let log = OperationLog::read(self)?;
        let found = log.in_force(actor).find(|entry| log.chain(entry.id).count() % 2 == 0);
        Ok(found.cloned())
    }

    /// Returns the last undo or redo that moved files, if later operations changed only workspace
    /// files.
    ///
    /// # Errors
    /// Errors of reading operations.
    pub fn last_undo(&self) -> Result<Option<LastUndo>> {
        let log = OperationLog::read(self)?;
        let Some(entry) = log.entries.iter().find(|entry| {
            let changes = &entry.operation.changes;
            !changes.iter().all(|change| change.name.starts_with(BEFORE))
        }) else {
            return Ok(None);
        };
        let undone = log.entries.iter().find(|other| Some(other.id) == entry.operation.undoes);
        let Some(undone) = undone.cloned() else { return Ok(None) };
        let target = moved_files(log.newest_redo(&undone));
        let (Some(moved), Some(target)) = (moved_files(&entry.operation), target) else {
            return Ok(None);
        };
        let is_redo = log.chain(entry.id).count() % 2 == 1;
        let (entry, target) = (entry.clone(), target.before);
        Ok(Some(LastUndo { entry, undone, is_redo, moved, target }))
    }

    /// Returns the operation at the end of a chain of undos; the operation itself if it is not an
    /// undo.
    ///
    /// # Errors
    /// `NotFound` when it is not kept, `Corrupt` when it does not verify.
    pub fn undo_subject(&self, entry: &OperationEntry) -> Result<OperationEntry> {
        let mut at = entry.clone();
        for _ in 0..MAX_DEPTH {
            let Some(id) = at.operation.undoes else { break };
            let bytes = self.store().read_as(Kind::Operation, &id)?;
            let operation = Operation::decode(&bytes).map_err(|error| error.at(id))?;
            at = OperationEntry { id, operation };
        }
        Ok(at)
    }

    /// Plans to revert an operation, together with all operations of its adoption.
    ///
    /// # Errors
    /// `InvalidInput` when it changed nothing that undo can revert, or is reverted already.
    /// `Conflict` when a later operation changed one of its refs, which the error names. `Expired`
    /// or `NotFound` when the old value of a ref is not kept.
    pub fn plan_undo(&self, undone: OperationEntry) -> Result<UndoPlan> {
        let number = undone.operation.sequence;
        let log = OperationLog::read(self)?;
        if log.undone.contains(&undone.id) {
            return Err(Error::invalid(format!("operation {number} is undone already")));
        }
        // The change of each ref, and the number of the last operation that changed it.
        let mut reversal: BTreeMap<String, (RefChange, u64)> = BTreeMap::new();
        for OperationEntry { operation, .. } in log.undone_together(&undone) {
            for change in reverse_changes(operation) {
                let name = change.name.clone();
                let Some((whole, last)) = reversal.get_mut(&name) else {
                    reversal.insert(name, (change, operation.sequence));
                    continue;
                };
                if whole.old != change.new {
                    return Err(self.changed_error(&name, *last));
                }
                (whole.old, *last) = (change.old, operation.sequence);
            }
        }
        if reversal.is_empty() {
            return Err(Error::invalid(format!("operation {number} changed no ref")));
        }
        let refs = self.refs();
        for (name, (change, last)) in &reversal {
            if refs.value(name) != change.old.as_ref() {
                return Err(self.changed_error(name, *last));
            }
            if let Some(RefValue::Object(id)) = &change.new {
                self.check_not_freed(&undone.operation, (name, id))?;
                self.check_not_expired(name, id)?;
            }
        }
        let changes = reversal.into_values().map(|(change, _)| change).collect();
        // An undo names the newest of the reverted operations.
        let newest = log.undone_together(&undone).last().map(|&newest| newest.clone());
        let undone = newest.unwrap_or(undone);
        let moved = moved_files(log.newest_redo(&undone));
        Ok(UndoPlan { undone, changes, moved })
    }

    /// Reverts an operation by a new operation. Workspace files stay as they are.
    ///
    /// # Errors
    /// `Conflict` when a ref changed since the plan; then nothing has changed. Errors of writing.
    pub fn undo(&self, plan: &UndoPlan, stamp: &Signature, reason: &str) -> Result<Committed> {
        let mut change = self.begin();
        change.take_back(plan)?;
        change.commit(stamp, reason)
    }

    fn changed_error(&self, name: &str, number: u64) -> Error {
        let later = self.operations().map_while(Result::ok).find(|entry| {
            entry.operation.sequence > number
                && entry.operation.changes.iter().any(|c| c.name == name)
        });
        let later = later.map_or_else(
            || "since".to_owned(),
            |OperationEntry { operation, .. }| {
                format!("by operation {} ({})", operation.sequence, operation.reason)
            },
        );
        let message = format!("{name} was changed {later}, after operation {number}");
        Error::new(ErrorKind::Conflict, message)
    }

    /// Refuses a value whose content expired.
    fn check_not_expired(&self, name: &str, id: &ObjectId) -> Result<()> {
        match self.store().read(id)? {
            None => Err(Error::not_found(format!("{id}, the value of {name} before, is not kept"))),
            Some(Object { kind: Kind::Commit, .. }) => {
                self.context(id).map(drop).map_err(|error| error.at(name))
            }
            Some(_) => Ok(()),
        }
    }
}

impl Transaction<'_> {
    /// Reverts an operation: each ref gets its old value.
    ///
    /// # Errors
    /// `NotFound` when a part of a forgotten session is missing.
    pub fn take_back(&mut self, plan: &UndoPlan) -> Result<()> {
        for RefChange { name, old, new } in &plan.changes {
            // The read guard of this transaction prevents further losses after this check.
            if let Some(RefValue::Object(id)) = new {
                self.repo().check_not_freed(&plan.undone.operation, (name, id))?;
            }
            let expected = old.clone().map_or(Expected::Absent, Expected::Value);
            self.set_ref(name, expected, new.clone());
        }
        self.undo(plan.undone.id);
        Ok(())
    }
}

/// Returns the files that an operation moved, according to its change of the ref for the earlier
/// state.
fn moved_files(operation: &Operation) -> Option<MovedFiles> {
    operation.changes.iter().find_map(|change| {
        let branch = change.name.strip_prefix(BEFORE)?.parse().ok()?;
        let Some(RefValue::Object(before)) = change.new else { return None };
        Some(MovedFiles { branch, before })
    })
}

/// Returns the changes that revert an operation.
fn reverse_changes(operation: &Operation) -> Vec<RefChange> {
    let changes = operation.changes.iter();
    let real = changes.filter(|change| change.old != change.new);
    let kept = [
        MAINTENANCE,
        BEFORE,
        WATCHES,
        CAPTURES,
        FORGOTTEN,
        REMOTE_BRANCHES,
        REMOTE_HEADS,
        DISTANT_REFS,
    ];
    let own = real.filter(|change| !kept.iter().any(|kind| change.name.starts_with(kind)));
    own.map(|RefChange { name, old, new }| RefChange {
        name: name.clone(),
        old: new.clone(),
        new: old.clone(),
    })
    .collect()
}
