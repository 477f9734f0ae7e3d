//! Finds the roots: everything that must stay, with the reasons.
//!
//! ```text
//! refs         branches, HEAD, tags, pins that have not expired, policies, and any other ref
//!                behind a branch whose newest commit is a rollback, what that went back to
//! operations   the newest 1,000 of the last 30 days, and never fewer than the newest 100
//!   newest 20      what refs held before and after each: an undo finds it as it was
//!   the others     what refs held before and no ref reaches any more: the tips of lost branches
//! ```
//!
//! A root is protected together with the content of its turn. Its ancestors stay as commits, and
//! [retention](super::retention) decides about their content. Of a lost line, only the newest turn
//! that a ref named is a tip; older turns are history, as on a branch. Operations before a session
//! was [forgotten](crate::repo::ForgottenSession) do not keep it alive, and
//! [forgotten](crate::repo::Transaction::forget_operations) operations are not kept.

use std::collections::{BTreeMap, BinaryHeap, HashMap, HashSet};
use std::fmt;
use std::sync::Arc;

use super::graph::CommitGraph;
use crate::error::{Error, ErrorKind, Result};
use crate::object::{Commit, Kind, Object, ObjectId, ObjectSource, Operation, RefValue, Tag};
use crate::repo::{
    BranchName, ForgottenSession, Grafts, HEAD, REDACTIONS_REF, Redactions, RollbackTarget,
    forgotten_through, pin_name,
};
use crate::store::{KnownLosses, RefTable};

/// The maximum number of operations kept, if they are not older than `OPERATION_DAYS`.
pub const MAX_OPERATIONS: usize = 1000;

/// The age in days up to which operations are kept.
pub(in crate::maintenance) const OPERATION_DAYS: i64 = 30;

/// The number of newest operations that are kept at any age.
pub const MIN_OPERATIONS: usize = 100;

/// The number of newest operations for which both values of every changed ref are protected like
/// tips.
pub const PROTECTED_OPERATIONS: usize = 20;

const MICROS_PER_DAY: i64 = 24 * 60 * 60 * 1_000_000;
const TAGS: &str = "refs/tags/";
const RETENTION: &str = "refs/retention";

/// Everything that must stay.
#[derive(Debug, Default)]
pub struct Roots {
    /// Commits whose content must stay, with every reason.
    pub commits: BTreeMap<ObjectId, Vec<Reason>>,
    /// Other objects that must stay, with everything reachable from them except the targets of
    /// tags: tag objects, policies, and other values of refs that are not commits.
    pub objects: BTreeMap<ObjectId, Reason>,
    /// The operations that are kept, newest first.
    pub operations: Vec<ObjectId>,
    /// Operations that are not kept although a kept operation names them: the start of the log.
    /// Usually one; none if the log is complete, several if diverged stores were joined.
    pub floor: Vec<ObjectId>,
    /// Every commit reachable from the roots.
    pub(crate) graph: CommitGraph,
    /// The known losses.
    pub(crate) holes: Arc<KnownLosses>,
}

/// The forgotten sessions and operations.
#[derive(Debug, Default)]
pub(in crate::maintenance) struct ForgottenContent {
    pub(in crate::maintenance) sessions: Vec<ForgottenSession>,
    /// The sequence of the newest forgotten operation.
    pub(in crate::maintenance) through: u64,
}

impl ForgottenContent {
    pub(in crate::maintenance) fn load(source: &dyn ObjectSource, refs: &RefTable) -> Result<Self> {
        let sessions = ForgottenSession::load(source, refs)?;
        Ok(Self { sessions, through: forgotten_through(source, refs)? })
    }
}

/// The reason why an object must stay.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub enum Reason {
    /// The tip of a branch, by its name without `refs/heads/`.
    Branch(String),
    /// The tip of HEAD's branch.
    Head,
    /// A tag, by its name.
    Tag(String),
    /// A pin that has not expired.
    Pin(String),
    /// The retention policy at this ref.
    Policy(String),
    /// The target of the rollback at the tip of this branch.
    WentBack(String),
    /// Any other ref.
    Ref(String),
    /// A value in one of the newest operations, by its sequence.
    Operation(u64),
    /// The value of a ref before an operation, which is not reachable from a ref now.
    Lost {
        /// The full name of the ref.
        name: String,
        /// The sequence of the operation.
        sequence: u64,
    },
}

impl Reason {
    /// Returns true if only undo needs the object.
    pub(super) const fn is_undo_only(&self) -> bool {
        matches!(self, Self::Operation(_) | Self::Lost { .. })
    }
}

impl fmt::Display for Reason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Branch(name) => write!(f, "branch {name}"),
            Self::Head => f.write_str("HEAD"),
            Self::Tag(name) => write!(f, "tag {name}"),
            Self::Pin(name) => write!(f, "pin {name}"),
            Self::Policy(name) => write!(f, "retention policy {name}"),
            Self::WentBack(name) => write!(f, "the rollback target of branch {name}"),
            Self::Ref(name) => f.write_str(name),
            Self::Operation(sequence) => write!(f, "operation {sequence}"),
            Self::Lost { name, sequence } => write!(f, "{name} before operation {sequence}"),
        }
    }
}

impl Roots {
    /// Finds the roots of a store with these `refs` at the moment `now`, in microseconds since the
    /// Unix epoch.
    ///
    /// Reads each kept operation and each commit reachable from the roots.
    ///
    /// # Errors
    /// `NotFound` or `Corrupt`, naming the ref or operation with an unreadable target: in a damaged
    /// store the garbage is unknown.
    pub fn find(source: &dyn ObjectSource, refs: &RefTable, now: i64) -> Result<Self> {
        Self::find_since(source, refs, now, None)
    }

    /// Like [`Roots::find`], but keeps no operations before `first`, if it is given.
    pub(in crate::maintenance) fn find_since(
        source: &dyn ObjectSource,
        refs: &RefTable,
        now: i64,
        first: Option<ObjectId>,
    ) -> Result<Self> {
        let holes = Arc::new(KnownLosses::load(source, refs)?);
        Self::find_with_losses(source, refs, now, first, holes)
    }

    /// Like [`Roots::find_since`], with these holes.
    pub(in crate::maintenance) fn find_with_losses(
        source: &dyn ObjectSource,
        refs: &RefTable,
        now: i64,
        first: Option<ObjectId>,
        holes: Arc<KnownLosses>,
    ) -> Result<Self> {
        let forgotten = ForgottenContent::load(source, refs)?;
        Self::find_all(source, refs, now, first, holes, forgotten)
    }

    /// Like [`Roots::find`], with these forgotten sessions and operations instead of the recorded
    /// ones.
    pub(in crate::maintenance) fn find_with_forgotten(
        source: &dyn ObjectSource,
        refs: &RefTable,
        now: i64,
        forgotten: ForgottenContent,
    ) -> Result<Self> {
        let holes = Arc::new(KnownLosses::load(source, refs)?);
        Self::find_all(source, refs, now, None, holes, forgotten)
    }

    fn find_all(
        source: &dyn ObjectSource,
        refs: &RefTable,
        now: i64,
        first: Option<ObjectId>,
        holes: Arc<KnownLosses>,
        forgotten: ForgottenContent,
    ) -> Result<Self> {
        let ForgottenContent { sessions: forgotten, through } = forgotten;
        let grafts = Grafts::load(source, refs)?;
        let graph = CommitGraph::with_holes(Arc::clone(&holes));
        let roots = Self { graph, holes, ..Self::default() };
        let mut finder = Finder { source, grafts, forgotten, now, first, through, roots };
        finder.add_refs(refs)?;
        let operations = finder.add_operations(refs.operation)?;
        let (recent, older) =
            operations.split_at_checked(PROTECTED_OPERATIONS).unwrap_or((&operations, &[]));
        finder.protect_values(recent)?;
        finder.find_lost(older)?;
        Ok(finder.roots)
    }
}

/// Returns true if an operation is kept at the moment `now`, given the number of newer ones.
pub(in crate::maintenance) fn is_kept_operation(newer: u64, time_micros: i64, now: i64) -> bool {
    let oldest = now.saturating_sub(OPERATION_DAYS * MICROS_PER_DAY);
    newer < MIN_OPERATIONS as u64 || (newer < MAX_OPERATIONS as u64 && time_micros >= oldest)
}

struct Finder<'a> {
    source: &'a dyn ObjectSource,
    grafts: Grafts,
    forgotten: Vec<ForgottenSession>,
    now: i64,
    /// The first operation to keep, if it is set explicitly.
    first: Option<ObjectId>,
    /// The sequence of the newest forgotten operation.
    through: u64,
    roots: Roots,
}

impl Finder<'_> {
    /// Adds the values of the refs.
    fn add_refs(&mut self, refs: &RefTable) -> Result<()> {
        for (name, value) in refs.values.iter() {
            let RefValue::Object(id) = value else { continue };
            let added = self.protect(id, &reason_of(name)).map_err(|error| error.at(name))?;
            if !added {
                let message = format!("{name}: object {id} is not in the store");
                return Err(Error::not_found(message));
            }
            if let Some(branch) = BranchName::from_full(name)
                && let Some(back) = self.commit(id)?.as_ref().and_then(RollbackTarget::of)
            {
                self.protect(&back.to, &Reason::WentBack(branch.to_string()))?;
            }
        }
        for id in Redactions::load(self.source, refs)?.replacements() {
            self.protect(id, &Reason::Ref(REDACTIONS_REF.to_owned()))?;
        }
        if let Some(RefValue::Symbolic(branch)) = refs.value(HEAD)
            && let Some(RefValue::Object(id)) = refs.value(branch)
        {
            self.protect(id, &Reason::Head)?;
        }
        Ok(())
    }

    /// Collects the kept operations, from the newest back to the first that is too old.
    fn add_operations(&mut self, newest: Option<ObjectId>) -> Result<Vec<Operation>> {
        let mut operations = Vec::new();
        let mut known: HashMap<ObjectId, Operation> = HashMap::new();
        let mut waiting: BinaryHeap<(u64, ObjectId)> = BinaryHeap::new();
        let mut next: Vec<ObjectId> = newest.into_iter().collect();
        loop {
            for id in next {
                if known.contains_key(&id) || self.roots.floor.contains(&id) {
                    continue;
                }
                match self.operation(&id)? {
                    None => self.roots.floor.push(id),
                    Some(operation) => {
                        waiting.push((operation.sequence, id));
                        known.insert(id, operation);
                    }
                }
            }
            let Some((_, id)) = waiting.pop() else { break };
            let Some(operation) = known.get(&id) else { break };
            let newer = self.roots.operations.len() as u64;
            let is_kept = is_kept_operation(newer, operation.time_micros, self.now);
            if !is_kept || operation.sequence <= self.through {
                self.roots.floor.push(id);
                self.roots.floor.extend(waiting.into_iter().map(|(_, id)| id));
                break;
            }
            next = operation.parents.clone();
            if self.first == Some(id) {
                self.roots.floor.append(&mut next);
            }
            self.roots.operations.push(id);
            operations.push(operation.clone());
        }
        Ok(operations)
    }

    /// Returns the operation `id`, unless an earlier collection dropped it.
    fn operation(&self, id: &ObjectId) -> Result<Option<Operation>> {
        let found = self.source.read_as(Kind::Operation, id);
        match found.and_then(|bytes| Operation::decode(&bytes)) {
            Ok(operation) => Ok(Some(operation)),
            Err(error) if error.kind() == ErrorKind::Expired => Ok(None),
            Err(error) => Err(error.at(id)),
        }
    }

    /// Protects the values of refs before and after the newest operations.
    fn protect_values(&mut self, operations: &[Operation]) -> Result<()> {
        for operation in operations {
            for change in &operation.changes {
                for value in [&change.old, &change.new].into_iter().flatten() {
                    let RefValue::Object(id) = value else { continue };
                    if self.is_of_forgotten_session(operation, &change.name, id)? {
                        continue;
                    }
                    self.protect(id, &Reason::Operation(operation.sequence))?;
                }
            }
        }
        Ok(())
    }

    /// Protects values of refs before these operations that are not reachable now. Newest first, so
    /// that the end of a lost line is met before its middle.
    fn find_lost(&mut self, operations: &[Operation]) -> Result<()> {
        for operation in operations {
            for change in &operation.changes {
                let Some(RefValue::Object(id)) = &change.old else { continue };
                if self.is_of_forgotten_session(operation, &change.name, id)? {
                    continue;
                }
                if !self.roots.graph.contains(id) && !self.is_before(id, change.new.as_ref())? {
                    let (name, sequence) = (change.name.clone(), operation.sequence);
                    self.protect_lost(id, &Reason::Lost { name, sequence })?;
                }
            }
        }
        Ok(())
    }

    /// Returns true if the value belongs to a session that was forgotten since.
    fn is_of_forgotten_session(
        &self,
        operation: &Operation,
        name: &str,
        id: &ObjectId,
    ) -> Result<bool> {
        ForgottenSession::has_forgotten_value(&self.forgotten, self.source, operation, (name, id))
    }

    /// Returns true if the ref only advanced from the commit `old` to `new`: then nothing was lost,
    /// even if commits in between were forgotten since. A missing commit counts as forgotten,
    /// unless it is a known loss: then `old` may be behind it, unreachable.
    fn is_before(&self, old: &ObjectId, new: Option<&RefValue>) -> Result<bool> {
        let (Some(RefValue::Object(new)), Some(before)) = (new, self.commit(old)?) else {
            return Ok(false);
        };
        let mut waiting = vec![*new];
        let mut seen = HashSet::new();
        while let Some(id) = waiting.pop() {
            if id == *old {
                return Ok(true);
            }
            match self.commit(&id)? {
                None if self.roots.holes.is_lost(&id) => {}
                None => return Ok(true),
                Some(commit) if commit.turn > before.turn && seen.insert(id) => {
                    waiting.extend(commit.parents);
                }
                Some(_) => {}
            }
        }
        Ok(false)
    }

    /// Returns the commit `id` if it exists and is a commit.
    fn commit(&self, id: &ObjectId) -> Result<Option<Commit>> {
        match self.read(id)? {
            Some(Object { kind: Kind::Commit, bytes }) => {
                Commit::decode(&bytes).map(Some).map_err(|error| error.at(id))
            }
            _ => Ok(None),
        }
    }

    fn protect_lost(&mut self, id: &ObjectId, reason: &Reason) -> Result<()> {
        match self.follow(id, reason)? {
            Some(commit) if !self.roots.graph.contains(&commit) => self.add_commit(commit, reason),
            _ => Ok(()),
        }
    }

    /// Protects the object `id` and its target; returns `false` if the object is missing.
    fn protect(&mut self, id: &ObjectId, reason: &Reason) -> Result<bool> {
        if let Some(commit) = self.follow(id, reason)? {
            self.add_commit(commit, reason)?;
            return Ok(true);
        }
        Ok(self.roots.objects.contains_key(id))
    }

    fn add_commit(&mut self, commit: ObjectId, reason: &Reason) -> Result<()> {
        self.roots.graph.add(self.source, &self.grafts, &commit)?;
        let reasons = self.roots.commits.entry(commit).or_default();
        if !reasons.contains(reason) {
            reasons.push(reason.clone());
        }
        Ok(())
    }

    /// Returns the commit that `id` names, through tags that have not expired. Keeps every other
    /// object on the way. `None` if there is no commit at the end.
    fn follow(&mut self, id: &ObjectId, reason: &Reason) -> Result<Option<ObjectId>> {
        let mut at = *id;
        loop {
            if self.roots.graph.contains(&at) {
                return Ok(Some(at));
            }
            let Some(Object { kind, bytes }) = self.read(&at)? else { return Ok(None) };
            if kind == Kind::Commit {
                return Ok(Some(at));
            }
            self.roots.objects.entry(at).or_insert_with(|| reason.clone());
            match kind {
                Kind::Tag => {
                    let tag = Tag::decode(&bytes).map_err(|error| error.at(at))?;
                    if tag.has_expired(self.now) {
                        return Ok(None);
                    }
                    at = tag.target;
                }
                _ => return Ok(None),
            }
        }
    }

    /// Returns an object, or `None` if it is missing, expired or redacted: old values of refs
    /// outlive their targets.
    fn read(&self, id: &ObjectId) -> Result<Option<Object>> {
        match self.source.read(id) {
            Err(error) if matches!(error.kind(), ErrorKind::Expired | ErrorKind::Redacted) => {
                Ok(None)
            }
            read => read,
        }
    }
}

/// Returns the reason for the value of the ref `name`.
fn reason_of(name: &str) -> Reason {
    if let Some(branch) = BranchName::from_full(name) {
        Reason::Branch(branch.to_string())
    } else if let Some(tag) = name.strip_prefix(TAGS) {
        Reason::Tag(tag.to_owned())
    } else if let Some(pin) = pin_name(name) {
        Reason::Pin(pin.to_owned())
    } else if name.starts_with(RETENTION) {
        Reason::Policy(name.to_owned())
    } else {
        Reason::Ref(name.to_owned())
    }
}
