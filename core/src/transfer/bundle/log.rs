//! The operations of a store that go into a bundle, and the parts of them.
//!
//! The log of a store is about all of its sessions, and a bundle is about those in it. So a bundle has
//! of each operation the changes of its own refs, and nothing that names another session: not even
//! in the words of who acted.

use std::collections::{BTreeSet, HashMap, HashSet};

use super::operations::{BundledChange, BundledOperation, Held};
use super::reach::Reach;
use super::request::BundleRequest;
use crate::error::Result;
use crate::object::{Kind, ObjectId, ObjectSource, Operation, RefChange, RefValue};
use crate::repo::{BranchName, OperationEntry, Repository, check_full_name, pin_name, tag_name};

/// The scope of the operations in a bundle.
pub(super) struct BundleScope<'a> {
    pub(super) repo: &'a Repository,
    pub(super) wanted: &'a [BundleRequest],
    /// Commits that whoever reads the bundle has.
    pub(super) without: &'a [ObjectId],
    /// Commits in the bundle.
    pub(super) chosen: &'a HashSet<ObjectId>,
    /// The commits behind its branches, with these.
    pub(super) reach: &'a Reach<'a>,
    /// Sessions that its refs and commits name.
    pub(super) sessions: &'a BTreeSet<String>,
    /// What an earlier bundle has told, if that is known.
    pub(super) told: Option<&'a ToldBefore>,
}

/// What needs no telling again: operations on a branch from before the store learned that a remote has one of
/// some turns on it.
pub(in crate::transfer) struct ToldBefore {
    /// The branches that are told about, each with the ref that says where it was on the remote.
    pub(in crate::transfer) branches: Vec<(BranchName, String)>,
    pub(in crate::transfer) tips: HashSet<ObjectId>,
}

/// Branches about which there may be more to tell, while operations are read, the newest first.
struct Untold<'a> {
    tips: &'a HashSet<ObjectId>,
    /// By the ref of the branch.
    open: HashMap<String, OpenBranch<'a>>,
}

struct OpenBranch<'a> {
    on_remote: &'a str,
    /// True behind the operation by which the store learned what the remote has.
    is_there: bool,
}

impl<'a> Untold<'a> {
    fn new(told: &'a ToldBefore) -> Self {
        let open = told
            .branches
            .iter()
            .map(|(branch, on_remote)| (branch.full(), OpenBranch { on_remote, is_there: false }));
        Self { tips: &told.tips, open: open.collect() }
    }

    /// Takes away changes of branches that were told, and closes branches about which all is told. What was
    /// made while a push was on its way lies behind it, and leads to a commit of the bundle.
    fn take_away(&mut self, changes: &mut Vec<BundledChange>, chosen: &HashSet<ObjectId>) {
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

    /// Notes which branches the remote had, as an operation says.
    fn meet(&mut self, operation: &Operation) {
        for RefChange { name, new, .. } in &operation.changes {
            let is_told = matches!(new, Some(RefValue::Object(id)) if self.tips.contains(id));
            let mut open = self.open.values_mut();
            if is_told && let Some(open) = open.find(|open| open.on_remote == name) {
                open.is_there = true;
            }
        }
    }
}

/// An operation, as far as a bundle has it.
struct KeptOperation {
    operation: Operation,
    changes: Vec<BundledChange>,
    /// True if it changed the branch, tag or pin of somebody else, too.
    is_shared: bool,
}

impl KeptOperation {
    /// Returns true if its reason may have the name of a session that is not in the bundle.
    fn may_name_others(&self) -> bool {
        !self.is_shared && self.operation.reason.contains(' ')
    }
}

impl BundleScope<'_> {
    /// The operations that the store still has and that changed branches, tags or pins of the bundle,
    /// oldest first. Reads every operation of the store, or those since what was told.
    ///
    /// If something is left out because it is known, those on a session begin behind the first one
    /// that set a branch of it to such a commit, or with the first that set one to a commit in the
    /// bundle, and those on tags and pins with the first of these. Behind what was told they begin at once.
    ///
    /// # Errors
    /// Those of reading operations.
    pub(super) fn operations(&self) -> Result<Vec<BundledOperation>> {
        let (mut kept, mut sequences, mut others) = (Vec::new(), HashMap::new(), HashSet::new());
        let mut untold = self.told.map(Untold::new);
        let mut entries = self.repo.operations();
        for entry in entries.by_ref() {
            let OperationEntry { id, operation } = entry?;
            sequences.insert(id, operation.sequence);
            self.add_others(&operation, &mut others);
            if let Some(untold) = &mut untold {
                untold.meet(&operation);
            }
            if let Some(mut own) = self.keep(operation)? {
                if let Some(untold) = &mut untold {
                    untold.take_away(&mut own.changes, self.chosen);
                }
                kept.extend((!own.changes.is_empty()).then_some(own));
            }
            if untold.as_ref().is_some_and(|untold| untold.open.is_empty()) {
                break;
            }
        }
        kept.reverse();
        if untold.is_none() {
            self.leave_out_known(&mut kept);
        } else if kept.iter().any(KeptOperation::may_name_others) {
            // Those of before may name a session, too.
            for entry in entries {
                self.add_others(&entry?.operation, &mut others);
            }
        }
        let present = self.repo.branches().into_iter();
        let names = present.map(|(branch, _)| branch.session().to_owned());
        others.extend(names.filter(|session| !self.sessions.contains(session)));
        let tell = |KeptOperation { operation, changes, is_shared }| BundledOperation {
            sequence: operation.sequence,
            time_micros: operation.time_micros,
            actor: operation.actor,
            reason: own_words(&operation.reason, is_shared, &others).to_owned(),
            undoes: operation.undoes.map(|id| self.sequence_of(&id, &sequences)),
            changes,
        };
        Ok(kept.into_iter().map(tell).collect())
    }

    fn add_others(&self, operation: &Operation, others: &mut HashSet<String>) {
        let names = operation.changes.iter().filter_map(|change| session_of(&change.name));
        others.extend(names.filter(|session| !self.sessions.contains(session)));
    }

    /// The number of an operation; 0 for one that is not kept.
    fn sequence_of(&self, id: &ObjectId, known: &HashMap<ObjectId, u64>) -> u64 {
        let read = || {
            let bytes = self.repo.store().read_as(Kind::Operation, id).ok()?;
            let sequence = Operation::decode(&bytes).ok()?.sequence;
            (sequence > self.repo.forgotten_operations().ok()?).then_some(sequence)
        };
        known.get(id).copied().or_else(read).unwrap_or_default()
    }

    fn keep(&self, operation: Operation) -> Result<Option<KeptOperation>> {
        let (mut changes, mut is_shared) = (Vec::new(), false);
        for change in &operation.changes {
            match self.own(change)? {
                Some(own) => changes.push(own),
                None => is_shared |= is_of_sessions(&change.name),
            }
        }
        Ok((!changes.is_empty()).then_some(KeptOperation { operation, changes, is_shared }))
    }

    /// The change, if it is one of a ref of the bundle. Branches that are gone are, when their session
    /// is in it; tags and pins when they led into it.
    fn own(&self, RefChange { name, old, new }: &RefChange) -> Result<Option<BundledChange>> {
        let (Some(old), Some(new)) = (object(old), object(new)) else { return Ok(None) };
        let is_own = match BranchName::from_full(name) {
            Some(branch) => self.wanted.iter().any(|wanted| match wanted {
                BundleRequest::Session(session) => session == branch.session(),
                BundleRequest::Branch(wanted) | BundleRequest::BranchAt(wanted, _) => {
                    *wanted == branch
                }
                BundleRequest::Commit(_) => false,
            }),
            None if is_of_sessions(name) && check_full_name(name).is_ok() => {
                self.leads_into_it(old)? || self.leads_into_it(new)?
            }
            None => false,
        };
        let (old, new) = (old.map(Held::Object), new.map(Held::Object));
        Ok(is_own.then(|| BundledChange { name: name.clone(), old, new }))
    }

    fn leads_into_it(&self, held: Option<ObjectId>) -> Result<bool> {
        let commit = held.map(|id| self.repo.peel(&id));
        commit.and_then(Result::ok).map_or(Ok(false), |commit| self.reach.contains(&commit))
    }

    /// Takes away what whoever takes the bundle in knows.
    fn leave_out_known(&self, kept: &mut Vec<KeptOperation>) {
        if self.without.is_empty() {
            return;
        }
        let starts = self.starts(kept);
        let first = starts.values().min().copied().unwrap_or(u64::MAX);
        for KeptOperation { operation, changes, .. } in kept.iter_mut() {
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

    /// The number of the first operation on each session that counts.
    fn starts(&self, kept: &[KeptOperation]) -> HashMap<String, u64> {
        let (mut starts, mut built_on) = (HashMap::new(), HashMap::new());
        for KeptOperation { operation, changes, .. } in kept {
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

/// Returns the value of a ref, if that is nothing or an object.
#[expect(clippy::option_option, reason = "a ref may hold the name of another one")]
fn object(value: &Option<RefValue>) -> Option<Option<ObjectId>> {
    match value {
        None => Some(None),
        Some(RefValue::Object(id)) => Some(Some(*id)),
        Some(RefValue::Symbolic(_)) => None,
    }
}

/// The session of a branch.
fn session_of(name: &str) -> Option<String> {
    BranchName::from_full(name).map(|branch| branch.session().to_owned())
}

/// Returns true if a ref is a branch, tag or pin.
fn is_of_sessions(name: &str) -> bool {
    BranchName::from_full(name).is_some() || tag_name(name).is_some() || pin_name(name).is_some()
}

/// The reason of an operation, or only the command that it begins with when the rest may name what is
/// not in the bundle.
fn own_words<'r>(reason: &'r str, is_shared: bool, others: &HashSet<String>) -> &'r str {
    let (command, rest) = reason.split_once(' ').unwrap_or((reason, ""));
    // A name ends where no name goes on, and at a slash behind a session.
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
            assert_eq!(own_words(reason, false, &others), told, "{reason}");
        }
        assert_eq!(own_words("delete tag a, b", true, &others), "delete");
    }
}
