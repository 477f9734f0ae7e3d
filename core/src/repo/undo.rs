//! Undo and redo: an operation is taken back by another operation, so nothing is ever lost by
//! either.
//!
//! ```text
//! 5 fork   6 snapshot   7 undo 6   8 undo 5   9 redo (undo 8)
//!                                              in force: 5, 7, 9; the next undo takes 5 back
//! ```
//!
//! An operation is in force unless one that takes it back is in force. Undo takes back what was
//! made, or made again, last; redo takes back the newest undo that is in force. Taking an operation
//! back gives each ref that it changed its old value, and is refused when a later operation has
//! changed one of them, so nobody's work is undone by chance. An undo leaves these refs alone:
//! those of maintenance under `refs/maintenance`, which describe the store; the observed use of
//! contexts under `refs/watch`; files that wait for their calls under `refs/captures`; and those
//! under `refs/before`, which keep workspaces as they were; and what is known of sessions that were
//! let go, under `refs/forgotten`. Bringing the files of a workspace back
//! is the job of [`prepare_undo`](crate::workspace::prepare_undo); with [`Repository::undo`] alone
//! the files stay. Storing payloads cannot be undone, because a conversation may cite them by now;
//! evicting them can.
//!
//! The operations of one [`Adoption`](super::Adoption) are taken back together, by an operation that
//! names the newest of them, and come again together.

use std::collections::{BTreeMap, HashMap, HashSet};

use super::adoption::{are_one, first_of};
use super::forgotten::FORGOTTEN;
use super::remote_refs::{REMOTE_BRANCHES, REMOTE_HEADS};
use super::rollback::BEFORE;
use super::vfs::PAYLOADS_REF;
use super::watch::WATCHES;
use super::{BranchName, OperationEntry, Repository, Signature, Transaction};
use crate::error::{Error, ErrorKind, Result};
use crate::object::{Kind, Object, ObjectId, ObjectSource, Operation, RefChange, RefValue};
use crate::store::{Committed, DISTANT_REFS, Expected};

/// Refs of maintenance.
const MAINTENANCE: &str = "refs/maintenance/";

/// Files that wait for their calls.
const CAPTURES: &str = "refs/captures/";

/// Undos of undos of undos that are followed.
const MAX_DEPTH: usize = 1 << 12;

/// The changes of refs that take an operation back.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct UndoPlan {
    /// The operation that is taken back.
    pub undone: OperationEntry,
    /// The refs that change: what they hold, and what they will hold.
    pub changes: Vec<RefChange>,
    /// The files of a workspace that the operation has moved.
    pub moved: Option<MovedFiles>,
}

/// Files of a workspace that an operation has moved.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct MovedFiles {
    /// The branch whose workspace it is.
    pub branch: BranchName,
    /// The commit that keeps the workspace as it was before.
    pub before: ObjectId,
}

/// The undo or redo that was the last to do anything but with files of a workspace.
#[derive(Debug, Clone)]
pub struct LastUndo {
    /// The operation.
    pub entry: OperationEntry,
    /// The operation that it took back.
    pub undone: OperationEntry,
    /// True when it is a redo.
    pub is_redo: bool,
    /// The workspace as it was before.
    pub moved: MovedFiles,
    /// The commit that has the files as they are to be.
    pub target: ObjectId,
}

/// The operation log, as far as undo needs it.
struct OperationLog {
    /// Newest first.
    entries: Vec<OperationEntry>,
    /// Operations that an operation in force has taken back.
    undone: HashSet<ObjectId>,
    /// For each operation that takes one back, the one it takes back.
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
            // What the same adoption has brought until then went with it.
            let older = entries.get(at + 1..).unwrap_or_default();
            if let Some(target) = older.iter().find(|older| older.id == target)
                && first_of(&target.operation).is_some()
            {
                // What came between the plan of an undo and the undo was not seen by it.
                let seen = target.operation.sequence;
                let of_one = older.iter().filter(|it| {
                    it.operation.sequence <= seen && are_one(&it.operation, &target.operation)
                });
                undone.extend(of_one.map(|it| it.id));
            }
        }
        Ok(Self { entries, undone, undoes })
    }

    /// What an undo of `entry` takes back: itself, or all of its adoption that is in force, oldest
    /// first.
    fn together<'a>(&'a self, entry: &'a OperationEntry) -> Vec<&'a OperationEntry> {
        if first_of(&entry.operation).is_none() {
            return vec![entry];
        }
        let of_one = self.entries.iter().rev().filter(|other| {
            !self.undone.contains(&other.id) && are_one(&other.operation, &entry.operation)
        });
        of_one.collect()
    }

    /// From an operation over what it takes back to the one that all of it is about.
    fn chain(&self, id: ObjectId) -> impl Iterator<Item = ObjectId> {
        std::iter::successors(Some(id), |id| self.undoes.get(id).copied()).take(MAX_DEPTH)
    }

    /// The operation that did last what `entry` did: itself, or the newest undo of an undo of it.
    fn newest_of<'a>(&'a self, entry: &'a OperationEntry) -> &'a Operation {
        let does = |other: &&OperationEntry| {
            let place = self.chain(other.id).position(|id| id == entry.id);
            place.is_some_and(|place| place.is_multiple_of(2))
        };
        self.entries.iter().find(does).map_or(&entry.operation, |newest| &newest.operation)
    }

    /// Operations in force of `actor`, or of anybody, newest first.
    fn in_force(&self, actor: Option<&str>) -> impl Iterator<Item = &OperationEntry> {
        let is_own =
            move |entry: &&OperationEntry| actor.is_none_or(|a| a == entry.operation.actor);
        self.entries.iter().filter(is_own).filter(|entry| !self.undone.contains(&entry.id))
    }
}

impl Repository {
    /// Operations that are not in force: one in force takes each back. Reads the whole log.
    ///
    /// # Errors
    /// Those of reading operations.
    pub fn undone_operations(&self) -> Result<HashSet<ObjectId>> {
        OperationLog::read(self).map(|log| log.undone)
    }

    /// Returns the operation that an undo would take back: the last one made or redone that is in
    /// force, changed a ref and is no undo, of `actor` or of anyone. `None` when none of those kept
    /// is.
    ///
    /// # Errors
    /// Those of reading operations.
    pub fn undoable(&self, actor: Option<&str>) -> Result<Option<OperationEntry>> {
        let log = OperationLog::read(self)?;
        for entry in log.in_force(actor) {
            let chain: Vec<ObjectId> = log.chain(entry.id).collect();
            // The undo of an undo has made something again.
            let made = chain.last().filter(|_| chain.len() % 2 == 1);
            let Some(made) = made.filter(|id| !log.undone.contains(id)) else { continue };
            let found = log.entries.iter().find(|entry| entry.id == *made);
            let found = found.filter(|entry| {
                let changes = reversed(&entry.operation);
                changes.iter().any(|change| change.name != PAYLOADS_REF)
            });
            if found.is_some() {
                return Ok(found.cloned());
            }
        }
        Ok(None)
    }

    /// Returns the undo that a redo would take back: the newest in force, of `actor` or of anyone.
    ///
    /// # Errors
    /// Those of reading operations.
    pub fn redoable(&self, actor: Option<&str>) -> Result<Option<OperationEntry>> {
        let log = OperationLog::read(self)?;
        let found = log.in_force(actor).find(|entry| log.chain(entry.id).count() % 2 == 0);
        Ok(found.cloned())
    }

    /// The undo or redo that moved files, when nothing but files of a workspace was changed since.
    ///
    /// # Errors
    /// Those of reading operations.
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
        let target = moved_files(log.newest_of(&undone));
        let (Some(moved), Some(target)) = (moved_files(&entry.operation), target) else {
            return Ok(None);
        };
        let is_redo = log.chain(entry.id).count() % 2 == 1;
        let (entry, target) = (entry.clone(), target.before);
        Ok(Some(LastUndo { entry, undone, is_redo, moved, target }))
    }

    /// The operation that an undo, or an undo of undos, is about in the end; itself when it is
    /// none.
    ///
    /// # Errors
    /// `NotFound` when it is not kept any more, `Corrupt` when it does not verify.
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

    /// Plans to take an operation back; with it goes all of its adoption.
    ///
    /// # Errors
    /// `InvalidInput` when it changed nothing that can be taken back, or is taken back already,
    /// `Conflict` when a later operation has changed one of its refs, which the error names, and
    /// `Expired` or `NotFound` when what a ref held is not kept any more.
    pub fn plan_undo(&self, undone: OperationEntry) -> Result<UndoPlan> {
        let number = undone.operation.sequence;
        let log = OperationLog::read(self)?;
        if log.undone.contains(&undone.id) {
            return Err(Error::invalid(format!("operation {number} is taken back already")));
        }
        // What each ref becomes, and the number of the last operation that has changed it.
        let mut reversal: BTreeMap<String, (RefChange, u64)> = BTreeMap::new();
        for OperationEntry { operation, .. } in log.together(&undone) {
            for change in reversed(operation) {
                let name = change.name.clone();
                let Some((whole, last)) = reversal.get_mut(&name) else {
                    reversal.insert(name, (change, operation.sequence));
                    continue;
                };
                if whole.old != change.new {
                    return Err(self.changed_since(&name, *last));
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
                return Err(self.changed_since(name, *last));
            }
            if let Some(RefValue::Object(id)) = &change.new {
                self.check_not_freed(&undone.operation, (name, id))?;
                self.check_kept(name, id)?;
            }
        }
        let changes = reversal.into_values().map(|(change, _)| change).collect();
        // An undo names the newest of what it takes back.
        let newest = log.together(&undone).last().map(|&newest| newest.clone());
        let undone = newest.unwrap_or(undone);
        let moved = moved_files(log.newest_of(&undone));
        Ok(UndoPlan { undone, changes, moved })
    }

    /// Takes an operation back, as an operation. Files of a workspace stay as they are.
    ///
    /// # Errors
    /// `Conflict` when a ref was changed since it was planned; then nothing has changed. Those of
    /// writing.
    pub fn undo(&self, plan: &UndoPlan, stamp: &Signature, reason: &str) -> Result<Committed> {
        let mut change = self.begin();
        change.take_back(plan)?;
        change.commit(stamp, reason)
    }

    fn changed_since(&self, name: &str, number: u64) -> Error {
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

    /// Refuses a value whose content retention has dropped.
    fn check_kept(&self, name: &str, id: &ObjectId) -> Result<()> {
        match self.store().read(id)? {
            None => Err(Error::not_found(format!("{id}, which {name} held, is not kept any more"))),
            Some(Object { kind: Kind::Commit, .. }) => {
                self.context(id).map(drop).map_err(|error| error.at(name))
            }
            Some(_) => Ok(()),
        }
    }
}

impl Transaction<'_> {
    /// Takes an operation back: each ref gets its old value.
    ///
    /// # Errors
    /// `NotFound` when a part of a session that was let go is not there any more.
    pub fn take_back(&mut self, plan: &UndoPlan) -> Result<()> {
        for RefChange { name, old, new } in &plan.changes {
            // Since this change began, nothing is lost to it.
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

/// The files that an operation has moved, as the ref says that keeps them as they were before.
fn moved_files(operation: &Operation) -> Option<MovedFiles> {
    operation.changes.iter().find_map(|change| {
        let branch = change.name.strip_prefix(BEFORE)?.parse().ok()?;
        let Some(RefValue::Object(before)) = change.new else { return None };
        Some(MovedFiles { branch, before })
    })
}

/// The changes that take an operation back.
fn reversed(operation: &Operation) -> Vec<RefChange> {
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
