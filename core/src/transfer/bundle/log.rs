//! Selects the operations of a store that go into a bundle, and reduces them to its refs.
//!
//! The operation log covers all sessions of a store, but a bundle only some of them. So a bundle
//! has only the changes of its own refs, and no name of another session, not even in the reason of
//! an operation.

use std::collections::{BTreeSet, HashMap, HashSet};

use super::ancestry::Ancestry;
use super::operations::{BundledChange, BundledOperation, Held};
use super::request::BundleRequest;
use crate::error::Result;
use crate::object::{Kind, ObjectId, ObjectSource, Operation, RefChange, RefValue};
use crate::repo::{BranchName, OperationEntry, Repository, check_full_name, is_session_ref};

/// The scope of the operations in a bundle.
pub(super) struct BundleScope<'a> {
    pub(super) repo: &'a Repository,
    pub(super) wanted: &'a [BundleRequest],
    /// Commits that the recipient has.
    pub(super) without: &'a [ObjectId],
    /// Commits in the bundle.
    pub(super) chosen: &'a HashSet<ObjectId>,
    /// The ancestors of its branches, with these.
    pub(super) reach: &'a Ancestry<'a>,
    /// Sessions named by its refs and commits.
    pub(super) sessions: &'a BTreeSet<String>,
    /// Operations that an earlier bundle included, if known.
    pub(super) told: Option<&'a SentOperations>,
}

/// Identifies operations on branches that an earlier push already sent: those older than the
/// operation in which this store recorded that the branch on the remote is at one of `tips`.
pub(in crate::transfer) struct SentOperations {
    /// The branches already pushed, each with its remote-tracking ref.
    pub(in crate::transfer) branches: Vec<(BranchName, String)>,
    pub(in crate::transfer) tips: HashSet<ObjectId>,
}

/// Branches with possibly unsent operations, while operations are read newest first.
struct UnsentBranches<'a> {
    tips: &'a HashSet<ObjectId>,
    /// By the full name of the branch.
    open: HashMap<String, OpenBranch<'a>>,
}

struct OpenBranch<'a> {
    on_remote: &'a str,
    /// True for operations older than the one that recorded the state of the remote.
    is_there: bool,
}

impl<'a> UnsentBranches<'a> {
    fn new(told: &'a SentOperations) -> Self {
        let open = told
            .branches
            .iter()
            .map(|(branch, on_remote)| (branch.full(), OpenBranch { on_remote, is_there: false }));
        Self { tips: &told.tips, open: open.collect() }
    }

    /// Removes changes of branches that an earlier push sent, and closes branches whose unsent
    /// operations are complete. An operation made during a push is older than the record of this
    /// push, but sets a commit of the bundle, so it is kept.
    fn drop_sent(&mut self, changes: &mut Vec<BundledChange>, chosen: &HashSet<ObjectId>) {
        changes.retain(|change| {
            if session_of(&change.name).is_none() {
                return true;
            }
            let Some(open) = self.open.get(&change.name) else { return false };
            let is_new = matches!(&change.new, Some(Held::Object(id)) if chosen.contains(id));
            if open.is_there && !is_new {
                self.open.remove(&change.name);
                return false;
            }
            true
        });
    }

    /// Records which branches the remote had, according to an operation.
    fn note_remote_tips(&mut self, operation: &Operation) {
        for RefChange { name, new, .. } in &operation.changes {
            let is_told = matches!(new, Some(RefValue::Object(id)) if self.tips.contains(id));
            let mut open = self.open.values_mut();
            if is_told && let Some(open) = open.find(|open| open.on_remote == name) {
                open.is_there = true;
            }
        }
    }
}

/// An operation, reduced to the refs of the bundle.
struct ReducedOperation {
    operation: Operation,
    changes: Vec<BundledChange>,
    /// True if it also changed a branch, tag or pin outside of the bundle.
    is_shared: bool,
}

impl ReducedOperation {
    /// Returns true if its reason may name a session outside of the bundle.
    fn may_name_other_sessions(&self) -> bool {
        !self.is_shared && self.operation.reason.contains(' ')
    }
}

impl BundleScope<'_> {
    /// Returns the retained operations that changed branches, tags or pins of the bundle, oldest
    /// first. Reads every operation of the store, or only those since the last push.
    ///
    /// If commits are excluded because the recipient has them, the operations on a session begin
    /// after the first one that set one of its branches to such a commit, or with the first one
    /// that set a branch to a commit in the bundle. The operations on tags and pins begin with the
    /// first of these. Operations after a known push begin immediately.
    ///
    /// # Errors
    /// Errors of reading operations.
    pub(super) fn operations(&self) -> Result<Vec<BundledOperation>> {
        let (mut kept, mut sequences, mut others) = (Vec::new(), HashMap::new(), HashSet::new());
        let mut untold = self.told.map(UnsentBranches::new);
        let mut entries = self.repo.operations();
        for entry in entries.by_ref() {
            let OperationEntry { id, operation } = entry?;
            sequences.insert(id, operation.sequence);
            self.add_other_sessions(&operation, &mut others);
            if let Some(untold) = &mut untold {
                untold.note_remote_tips(&operation);
            }
            if let Some(mut own) = self.reduce(operation)? {
                if let Some(untold) = &mut untold {
                    untold.drop_sent(&mut own.changes, self.chosen);
                }
                kept.extend((!own.changes.is_empty()).then_some(own));
            }
            if untold.as_ref().is_some_and(|untold| untold.open.is_empty()) {
                break;
            }
        }
        kept.reverse();
        if untold.is_none() {
            self.drop_known(&mut kept);
        } else if kept.iter().any(ReducedOperation::may_name_other_sessions) {
            // Reasons of kept operations may also name sessions of older operations.
            for entry in entries {
                self.add_other_sessions(&entry?.operation, &mut others);
            }
        }
        let present = self.repo.branches().into_iter();
        let names = present.map(|(branch, _)| branch.session().to_owned());
        others.extend(names.filter(|session| !self.sessions.contains(session)));
        let tell = |ReducedOperation { operation, changes, is_shared }| BundledOperation {
            sequence: operation.sequence,
            time_micros: operation.time_micros,
            actor: operation.actor,
            reason: shareable_reason(&operation.reason, is_shared, &others).to_owned(),
            undoes: operation.undoes.map(|id| self.sequence_of(&id, &sequences)),
            changes,
        };
        Ok(kept.into_iter().map(tell).collect())
    }

    fn add_other_sessions(&self, operation: &Operation, others: &mut HashSet<String>) {
        let names = operation.changes.iter().filter_map(|change| session_of(&change.name));
        others.extend(names.filter(|session| !self.sessions.contains(session)));
    }

    /// Returns the sequence number of an operation; 0 for a collected operation.
    fn sequence_of(&self, id: &ObjectId, known: &HashMap<ObjectId, u64>) -> u64 {
        let read = || {
            let bytes = self.repo.store().read_as(Kind::Operation, id).ok()?;
            let sequence = Operation::decode(&bytes).ok()?.sequence;
            (sequence > self.repo.forgotten_operations().ok()?).then_some(sequence)
        };
        known.get(id).copied().or_else(read).unwrap_or_default()
    }

    fn reduce(&self, operation: Operation) -> Result<Option<ReducedOperation>> {
        let (mut changes, mut is_shared) = (Vec::new(), false);
        for change in &operation.changes {
            match self.own_change(change)? {
                Some(own) => changes.push(own),
                None => is_shared |= is_session_ref(&change.name),
            }
        }
        Ok((!changes.is_empty()).then_some(ReducedOperation { operation, changes, is_shared }))
    }

    /// Returns the change if its ref belongs to the bundle. A deleted branch belongs to it if its
    /// session does; a deleted tag or pin if it pointed into the bundle.
    fn own_change(
        &self,
        RefChange { name, old, new }: &RefChange,
    ) -> Result<Option<BundledChange>> {
        let (Some(old), Some(new)) = (object(old), object(new)) else { return Ok(None) };
        let is_own = match BranchName::from_full(name) {
            Some(branch) => self.wanted.iter().any(|wanted| match wanted {
                BundleRequest::Session(session) => session == branch.session(),
                BundleRequest::Branch(wanted) | BundleRequest::BranchAt(wanted, _) => {
                    *wanted == branch
                }
                BundleRequest::Commit(_) => false,
            }),
            None if is_session_ref(name) && check_full_name(name).is_ok() => {
                self.is_in_bundle(old)? || self.is_in_bundle(new)?
            }
            None => false,
        };
        let (old, new) = (old.map(Held::Object), new.map(Held::Object));
        Ok(is_own.then(|| BundledChange { name: name.clone(), old, new }))
    }

    fn is_in_bundle(&self, held: Option<ObjectId>) -> Result<bool> {
        let commit = held.map(|id| self.repo.peel(&id));
        commit.and_then(Result::ok).map_or(Ok(false), |commit| self.reach.contains(&commit))
    }

    /// Removes changes that the recipient knows.
    fn drop_known(&self, kept: &mut Vec<ReducedOperation>) {
        if self.without.is_empty() {
            return;
        }
        let starts = self.first_sequences(kept);
        let first = starts.values().min().copied().unwrap_or(u64::MAX);
        for ReducedOperation { operation, changes, .. } in kept.iter_mut() {
            changes.retain(|change| {
                let start = match session_of(&change.name) {
                    Some(session) => starts.get(&session).copied().unwrap_or(u64::MAX),
                    None => first,
                };
                operation.sequence >= start
            });
        }
        kept.retain(|kept| !kept.changes.is_empty());
    }

    /// Returns the sequence number of the first operation to keep, by session.
    fn first_sequences(&self, kept: &[ReducedOperation]) -> HashMap<String, u64> {
        let (mut starts, mut built_on) = (HashMap::new(), HashMap::new());
        for ReducedOperation { operation, changes, .. } in kept {
            for change in changes {
                let Some(session) = session_of(&change.name) else { continue };
                let sets = |holds: &dyn Fn(&ObjectId) -> bool| match &change.new {
                    Some(Held::Object(id)) => holds(id),
                    _ => false,
                };
                if built_on.get(&session).is_some_and(|known| *known < operation.sequence)
                    || sets(&|id| self.chosen.contains(id))
                {
                    starts.entry(session).or_insert(operation.sequence);
                } else if sets(&|id| self.without.contains(id)) {
                    built_on.entry(session).or_insert(operation.sequence);
                }
            }
        }
        starts
    }
}

/// Returns the value of a ref if it is unset or an object.
#[expect(clippy::option_option, reason = "a ref may hold the name of another ref")]
fn object(value: &Option<RefValue>) -> Option<Option<ObjectId>> {
    match value {
        None => Some(None),
        Some(RefValue::Object(id)) => Some(Some(*id)),
        Some(RefValue::Symbolic(_)) => None,
    }
}

/// Returns the session of a branch.
fn session_of(name: &str) -> Option<String> {
    BranchName::from_full(name).map(|branch| branch.session().to_owned())
}

/// Returns the reason of an operation, or only its command (the first word) if the rest may name
/// something outside of the bundle.
fn shareable_reason<'r>(reason: &'r str, is_shared: bool, others: &HashSet<String>) -> &'r str {
    let (command, rest) = reason.split_once(' ').unwrap_or((reason, ""));
    // A name ends at a character that no name has, and at the slash after a session.
    let ends = |c: char| c.is_whitespace() || "/,:;\"'()[]~^@".contains(c);
    let names_other = rest.split(ends).any(|word| others.contains(word));
    if is_shared || names_other { command } else { reason }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_reason_says_nothing_of_other_sessions() {
        let others: HashSet<String> = ["secret".to_owned()].into();
        for (reason, told) in [
            ("snapshot", "snapshot"),
            ("merge plan-b into work/main", "merge plan-b into work/main"),
            ("unbundle work, secret", "unbundle"),
            ("fork secret/plan", "fork"),
            ("undo 4: finish 'secret'", "undo"),
            ("secretly", "secretly"),
            ("make it secretly", "make it secretly"),
        ] {
            assert_eq!(shareable_reason(reason, false, &others), told, "{reason}");
        }
        assert_eq!(shareable_reason("delete tag a, b", true, &others), "delete");
    }
}
