//! Transactions: objects are staged, refs are compared and swapped, and everything becomes durable
//! in one batch.

use std::collections::{BTreeMap, BTreeSet, HashSet};
use std::fmt;
use std::sync::{Arc, PoisonError};

use bytes::Bytes;

use super::vfs::VfsUri;
use super::{BranchName, Repository, Signature, before_ref, links};
use crate::error::{Error, ErrorKind, Result};
use crate::object::{
    Author, Commit, FileRefusal, Kind, Memory, Object, ObjectId, ObjectSink, ObjectSource,
    RefValue, Time, Trigger,
};
use crate::repo::change::filter::ContentFilter;
use crate::repo::change::redactions::{REDACTIONS_REF, redacted_error};
use crate::repo::refs::branch::BRANCHES;
use crate::store::{
    Committed, Expected, Inventory, OperationDraft, ReadGuard, RefTable, RefUpdate, Tombstone,
};
use crate::tree::Link;

/// Bytes and objects staged in memory before [`ObjectSink::make_room`] writes them to the store.
const STAGED_BYTES: usize = 16 << 20;
const STAGED_OBJECTS: usize = 1 << 16;

/// The maximum number of ids known to be in the store that a repository remembers.
const MAX_KNOWN: usize = 1 << 16;

/// Ids that are in the store: consecutive turns refer to the same objects.
#[derive(Debug, Default)]
pub(super) struct KnownIds {
    ids: HashSet<ObjectId>,
    /// The epoch in which they were seen: a later collection may have freed them.
    epoch: u64,
}

impl KnownIds {
    fn prepare(&mut self, epoch: u64) {
        if self.epoch != epoch || self.ids.len() > MAX_KNOWN {
            self.ids.clear();
            self.epoch = epoch;
        }
    }
}

/// A change in progress. Dropping it leaves the store as it was.
///
/// The transaction sees branches as of its beginning, and a commit fails if one has moved since. So
/// read the context to build on after [`Repository::begin`], from [`Transaction::tip`].
#[derive(Debug)]
pub struct Transaction<'r> {
    repo: &'r Repository,
    /// The refs as of the beginning.
    refs: Arc<RefTable>,
    staged: Memory,
    updates: BTreeMap<String, RefUpdate>,
    appended_bytes: u64,
    /// Expired objects that staged objects may still reference.
    elided: HashSet<ObjectId>,
    lease: ReadGuard<'r>,
    /// The operation that this one reverts.
    undoes: Option<ObjectId>,
    /// Payloads that blobs written since the last context cite.
    pub(super) cited: BTreeSet<VfsUri>,
    /// The filter for new content.
    pub(super) filter: Option<&'r dyn ContentFilter>,
}

/// The fields of a commit other than parents, session and turn, which follow from its branch.
#[derive(Debug, Clone)]
pub struct SnapshotDraft {
    /// The root of the context.
    pub tree: ObjectId,
    /// The author.
    pub author: Author,
    /// The time.
    pub time: Time,
    /// The reason for the snapshot.
    pub trigger: Trigger,
    /// The message.
    pub message: String,
    /// Further metadata.
    pub metadata: BTreeMap<String, String>,
}

impl SnapshotDraft {
    /// Creates a snapshot that a user requested, made by the actor of `stamp` now.
    #[must_use]
    pub fn new(tree: ObjectId, message: impl Into<String>, stamp: &Signature) -> Self {
        Self {
            tree,
            author: Author { agent: stamp.actor.clone(), model: String::new() },
            time: stamp.time,
            trigger: Trigger::Manual,
            message: message.into(),
            metadata: BTreeMap::new(),
        }
    }
}

impl<'r> Transaction<'r> {
    pub(super) fn new(repo: &'r Repository) -> Self {
        let (lease, refs) = (repo.store.read_guard(), repo.refs());
        let (staged, updates) = (Memory::new(), BTreeMap::new());
        let elided = HashSet::new();
        let (appended_bytes, undoes, cited) = (0, None, BTreeSet::new());
        let filter = repo.filter.as_deref();
        Self { repo, refs, staged, updates, appended_bytes, elided, lease, undoes, cited, filter }
    }

    /// Returns the sequence of the operation that this one follows, unless another process commits
    /// first.
    pub(super) fn base_sequence(&self) -> u64 {
        self.refs.sequence
    }

    /// Returns the newest commit of a branch, including staged changes.
    #[must_use]
    pub fn tip(&self, branch: &BranchName) -> Option<ObjectId> {
        match self.updates.get(&branch.full()).map(|update| &update.new) {
            Some(Some(RefValue::Object(id))) => Some(*id),
            Some(_) => None,
            None => self.initial_tip(branch),
        }
    }

    /// Returns the branches of a session and their newest commits, including staged changes.
    #[must_use]
    pub fn branches_of(&self, session: &str) -> Vec<(BranchName, ObjectId)> {
        let (main, below) = (format!("{BRANCHES}{session}"), format!("{BRANCHES}{session}/"));
        let is_own = |name: &&str| *name == main || name.starts_with(&below);
        let begun = self.refs.values.starting_with(&below).map(|(name, _)| name);
        let begun = begun.chain(self.refs.values.contains_key(&main).then_some(main.as_str()));
        let changed = self.updates.keys().map(String::as_str).filter(is_own);
        let names: BTreeSet<&str> = begun.chain(changed).collect();
        let branches = names.into_iter().filter_map(BranchName::from_full);
        let branches = branches.filter(|branch| branch.session() == session);
        branches.filter_map(|branch| self.tip(&branch).map(|tip| (branch, tip))).collect()
    }

    /// Returns the main branch of every session as of the beginning, with its newest commit.
    #[must_use]
    pub fn main_branches(&self) -> Vec<(BranchName, ObjectId)> {
        let branches = self.refs.values.keys().filter_map(BranchName::from_full);
        let main = branches.filter(|branch| branch.branch() == super::MAIN_BRANCH);
        main.filter_map(|branch| self.initial_tip(&branch).map(|tip| (branch, tip))).collect()
    }

    /// Returns the commit `id`, staged or stored.
    ///
    /// # Errors
    /// `NotFound` or `Corrupt`, naming the id.
    pub fn read_commit(&self, id: &ObjectId) -> Result<Commit> {
        Commit::decode(&self.read_as(Kind::Commit, id)?).map_err(|error| error.at(id))
    }

    /// Adds a snapshot to a branch, on top of its tip; a new branch begins with it.
    ///
    /// # Errors
    /// Errors of reading the parent.
    pub fn snapshot(&mut self, branch: &BranchName, snapshot: SnapshotDraft) -> Result<ObjectId> {
        let id = self.record(branch, snapshot)?;
        self.move_branch(branch, Some(id));
        Ok(id)
    }

    /// Writes a snapshot that continues a branch, without moving the branch: the caller must add
    /// another ref to it.
    ///
    /// # Errors
    /// Errors of reading the parent.
    pub fn record(&mut self, branch: &BranchName, snapshot: SnapshotDraft) -> Result<ObjectId> {
        self.write_commit(branch, &[], snapshot)
    }

    /// Adds a snapshot to a branch, as a merge of its tip and `others`.
    ///
    /// # Errors
    /// Errors of reading a parent.
    pub(super) fn join(
        &mut self,
        branch: &BranchName,
        others: &[ObjectId],
        snapshot: SnapshotDraft,
    ) -> Result<ObjectId> {
        let id = self.write_commit(branch, others, snapshot)?;
        self.move_branch(branch, Some(id));
        Ok(id)
    }

    fn write_commit(
        &mut self,
        branch: &BranchName,
        others: &[ObjectId],
        snapshot: SnapshotDraft,
    ) -> Result<ObjectId> {
        let parents: Vec<ObjectId> = self.tip(branch).iter().chain(others).copied().collect();
        let mut turn = 1;
        for parent in &parents {
            turn = self.read_commit(parent)?.turn.saturating_add(1).max(turn);
        }
        let SnapshotDraft { tree, author, time, trigger, message, metadata } = snapshot;
        let message = self.filtered_text(message)?;
        let values = metadata.into_iter();
        let metadata = values
            .map(|(name, value)| Ok((name, self.filtered_text(value)?)))
            .collect::<Result<_>>()?;
        let session = branch.session().to_owned();
        let commit =
            Commit { tree, parents, session, turn, author, time, trigger, message, metadata };
        self.write(Kind::Commit, commit.encode().into())
    }

    /// Deletes a branch, the ref to the earlier state of its workspace, and the places at the
    /// branch. If the session was forgotten but has a branch again, it now counts as deleted
    /// instead of forgotten.
    pub fn delete_branch(&mut self, branch: &BranchName) {
        self.remove_branch(branch);
        self.record_return(branch.session());
    }

    pub(super) fn remove_branch(&mut self, branch: &BranchName) {
        self.move_branch(branch, None);
        self.move_places(branch, None);
        self.set_before(branch, None);
    }

    /// Sets the ref to the earlier state of a branch's workspace.
    pub fn set_before(&mut self, branch: &BranchName, commit: Option<ObjectId>) {
        let name = before_ref(branch);
        let expected = match self.initial_value(&name) {
            Some(value) => Expected::Value(value.clone()),
            None if commit.is_none() => return,
            None => Expected::Absent,
        };
        self.set_ref(&name, expected, commit.map(RefValue::Object));
    }

    /// Moves a branch. The commit fails if the branch has moved since the change began.
    pub fn move_branch(&mut self, branch: &BranchName, to: Option<ObjectId>) {
        let expected = match self.initial_tip(branch) {
            Some(id) => Expected::Value(RefValue::Object(id)),
            None => Expected::Absent,
        };
        self.set_ref(&branch.full(), expected, to.map(RefValue::Object));
    }

    /// Renames a branch; HEAD and places follow. Returns its tip.
    ///
    /// # Errors
    /// `NotFound` when there is no branch `from`, `InvalidInput` when there is a branch `to`.
    pub fn rename_branch(&mut self, from: &BranchName, to: &BranchName) -> Result<ObjectId> {
        let Some(tip) = self.tip(from) else {
            return Err(Error::not_found(format!("there is no branch {from}")));
        };
        if self.tip(to).is_some() {
            return Err(Error::invalid(format!("branch {to} exists already")));
        }
        self.delete_branch(from);
        self.move_branch(to, Some(tip));
        self.move_places(from, Some(to));
        if self.repo.shared_head()? == *from {
            self.set_head(to);
        }
        Ok(tip)
    }

    /// Returns true if an object is staged and not stored yet.
    pub(super) fn has_staged(&self, id: &ObjectId) -> Result<bool> {
        self.staged.contains(id)
    }

    /// Returns the repository of the transaction.
    pub(super) fn repo(&self) -> &'r Repository {
        self.repo
    }

    /// Returns the value of a ref when the change began.
    pub(super) fn initial_value(&self, name: &str) -> Option<&RefValue> {
        self.refs.value(name)
    }

    /// Returns the refs whose names begin with `prefix`, as of the beginning.
    pub(super) fn initial_refs<'t>(
        &'t self,
        prefix: &'t str,
    ) -> impl Iterator<Item = (&'t str, &'t RefValue)> {
        self.refs.values.starting_with(prefix)
    }

    /// Returns the newest commit of a branch as of the beginning.
    fn initial_tip(&self, branch: &BranchName) -> Option<ObjectId> {
        match self.initial_value(&branch.full()) {
            Some(RefValue::Object(id)) => Some(*id),
            _ => None,
        }
    }

    /// Sets or deletes a ref; the first expected value of a ref in a transaction applies.
    pub fn set_ref(&mut self, name: &str, expected: Expected, new: Option<RefValue>) {
        self.updates
            .entry(name.to_owned())
            .and_modify(|update| update.new.clone_from(&new))
            .or_insert_with(|| RefUpdate { name: name.to_owned(), expected, new });
    }

    /// Allows staged objects to reference the expired object `id`: a rewritten commit keeps its
    /// elided tree.
    pub(crate) fn allow_elided(&mut self, id: ObjectId) {
        self.elided.insert(id);
    }

    /// Records that this change reverts the operation `id`.
    pub(super) fn undo(&mut self, id: ObjectId) {
        self.undoes = Some(id);
    }

    /// Returns the bytes staged in memory.
    #[must_use]
    pub fn staged_bytes(&self) -> usize {
        self.staged.bytes()
    }

    /// Makes the staged objects durable now, without a ref to them, so that a large change need not
    /// fit into memory. They are garbage until [`Transaction::commit`].
    ///
    /// # Errors
    /// `Io` when they cannot be written.
    pub fn flush(&mut self) -> Result<()> {
        let staged = std::mem::take(&mut self.staged);
        self.notify_filter(&staged)?;
        let (repo, elided, lease) = (self.repo, &self.elided, &self.lease);
        let check = LinkCheck { repo, staged: &staged, refs: &BTreeMap::new(), elided, lease };
        let objects = objects_of(&staged);
        let written = self.repo.store.append_checked(objects, &mut || check.run())?;
        self.appended_bytes += written.stored_bytes;
        Ok(())
    }

    /// Makes everything durable as one operation. On return, it is on disk.
    ///
    /// A context built on an unfinished change references objects that were never stored. Such a
    /// commit is refused: after a failed change, build on the current branch.
    ///
    /// # Errors
    /// `NotFound` when a staged object references a missing one, `Redacted` when it references a
    /// redacted one: nothing has changed. `Conflict` when a ref has another value than expected:
    /// nothing has changed, and the caller can retry on the new value. `InvalidInput` at
    /// [`Repository::at_operation`]. `Io` when it cannot be written: nothing has changed.
    pub fn commit(self, stamp: &Signature, reason: &str) -> Result<Committed> {
        if self.repo.past.is_some() {
            return Err(Error::invalid("cannot write with --at-op: that state is read-only"));
        }
        self.notify_filter(&self.staged)?;
        let draft = self.draft(stamp, reason);
        let (repo, elided, lease) = (self.repo, &self.elided, &self.lease);
        let check = LinkCheck { repo, staged: &self.staged, refs: &self.updates, elided, lease };
        let objects = objects_of(&self.staged);
        let mut committed = self.repo.store.commit_checked(objects, &draft, &mut || check.run())?;
        committed.written.stored_bytes += self.appended_bytes;
        Ok(committed)
    }

    /// Returns the inventory of the store as if this was committed. Writes nothing.
    ///
    /// # Errors
    /// `Io` when the journal cannot be read, and errors of committing.
    pub(crate) fn planned_inventory(
        &self,
        stamp: &Signature,
        reason: &str,
    ) -> Result<Inventory<'r>> {
        let draft = self.draft(stamp, reason);
        self.repo.store.planned_inventory(objects_of(&self.staged), &draft)
    }

    fn draft(&self, stamp: &Signature, reason: &str) -> OperationDraft {
        OperationDraft {
            time_micros: stamp.time.micros,
            actor: stamp.actor.clone(),
            reason: reason.to_owned(),
            changes: self.updates.values().cloned().collect(),
            undoes: self.undoes,
            joins: Vec::new(),
        }
    }

    /// Skips the filter: the content was stored before.
    pub(crate) fn skip_filter(&mut self) {
        self.filter = None;
    }

    /// Returns the replacement of a content by the filter; `None` for the content itself.
    fn apply_filter(&self, content: &[u8]) -> Result<Option<Vec<u8>>> {
        self.filter.map_or(Ok(None), |filter| filter.instead(self.repo, content))
    }

    /// Returns a text after the filter.
    fn filtered_text(&self, text: String) -> Result<String> {
        let instead = self.apply_filter(text.as_bytes())?;
        Ok(instead.and_then(|bytes| String::from_utf8(bytes).ok()).unwrap_or(text))
    }

    /// Notifies the filter of those objects that are new to the store, before they are stored.
    fn notify_filter(&self, staged: &Memory) -> Result<()> {
        let Some(filter) = self.filter else { return Ok(()) };
        for (id, object) in staged.iter() {
            if object.kind == Kind::Blob && !self.repo.store.is_found(id)? {
                filter.stored(self.repo, &object.bytes)?;
            }
        }
        Ok(())
    }
}

fn objects_of(staged: &Memory) -> Vec<(ObjectId, Object)> {
    staged.iter().map(|(id, object)| (*id, object.clone())).collect()
}

/// Checks that the store has everything that staged objects and new values of refs reference.
struct LinkCheck<'a> {
    repo: &'a Repository,
    staged: &'a Memory,
    refs: &'a BTreeMap<String, RefUpdate>,
    elided: &'a HashSet<ObjectId>,
    lease: &'a ReadGuard<'a>,
}

impl LinkCheck<'_> {
    /// Refuses redacted content.
    fn check_redactions(&self) -> Result<()> {
        for (id, object) in self.staged.iter() {
            if object.kind == Kind::Blob && self.repo.is_redacted(id)? {
                return Err(redacted_error(id));
            }
        }
        Ok(())
    }

    /// Refuses references to objects that are neither staged nor stored. Returns referenced objects
    /// that a collection has freed since the transaction began, to be stored again.
    fn run(&self) -> Result<Vec<(ObjectId, Object)>> {
        let mut known = self.repo.known.lock().unwrap_or_else(PoisonError::into_inner);
        known.prepare(self.repo.store.epoch());
        let mut rescued = Vec::new();
        self.check_redactions()?;
        for update in self.refs.values() {
            if let Some(RefValue::Object(target)) = &update.new {
                self.check_link(target, &update.name, &mut known, &mut rescued)?;
            }
        }
        for (id, object) in self.staged.iter() {
            for Link { id: target, .. } in links(object)? {
                let from = format_args!("{} {id}", object.kind);
                self.check_link(&target, &from, &mut known, &mut rescued)?;
            }
        }
        let mut at = 0;
        while let Some((id, object)) = rescued.get(at).cloned() {
            for Link { id: target, .. } in links(&object)? {
                // Objects that expired earlier are not restored.
                if self.repo.store.tombstone(&target) != Some(Tombstone::Elided) {
                    let from = format_args!("{} {id}", object.kind);
                    self.check_link(&target, &from, &mut known, &mut rescued)?;
                }
            }
            at += 1;
        }
        Ok(rescued)
    }

    fn check_link(
        &self,
        target: &ObjectId,
        from: &dyn fmt::Display,
        known: &mut KnownIds,
        rescued: &mut Vec<(ObjectId, Object)>,
    ) -> Result<()> {
        let is_there = known.ids.contains(target) || self.staged.contains(target)?;
        if is_there || self.elided.contains(target) {
            return Ok(());
        }
        if self.repo.store.contains(target)? {
            known.ids.insert(*target);
            return Ok(());
        }
        if self.repo.store.tombstone(target) == Some(Tombstone::Redacted) {
            let message = format!("{from} refers to {target}, which was redacted");
            return Err(Error::new(ErrorKind::Redacted, message));
        }
        if !rescued.iter().any(|(id, _)| id == target) {
            let missing =
                || Error::not_found(format!("{from} refers to {target}, which was never stored"));
            rescued.push((*target, self.lease.read(target)?.ok_or_else(missing)?));
        }
        Ok(())
    }
}

impl ObjectSource for Transaction<'_> {
    fn read(&self, id: &ObjectId) -> Result<Option<Object>> {
        match self.staged.read(id)? {
            Some(object) => Ok(Some(object)),
            None => self.repo.store.read(id),
        }
    }

    fn contains(&self, id: &ObjectId) -> Result<bool> {
        Ok(self.staged.contains(id)? || self.repo.store.contains(id)?)
    }

    fn missing(&self, kind: Kind, id: &ObjectId) -> Error {
        self.repo.store.missing(kind, id)
    }
}

impl ObjectSink for Transaction<'_> {
    fn write(&mut self, kind: Kind, bytes: Bytes) -> Result<ObjectId> {
        if kind != Kind::Blob {
            return self.staged.write(kind, bytes);
        }
        let bytes = self.apply_filter(&bytes)?.map_or(bytes, Bytes::from);
        self.note_citations(&bytes);
        self.staged.write(kind, bytes)
    }

    fn take_citations(&mut self) -> Result<Vec<(String, ObjectId)>> {
        self.take_cited_payloads()
    }

    fn refuses(&self, file: &[u8]) -> Result<Option<FileRefusal>> {
        let has_any = self.refs.value(REDACTIONS_REF).is_some();
        if has_any && self.repo.is_redacted(&ObjectId::of(Kind::Blob, file))? {
            return Ok(Some(FileRefusal::Redacted));
        }
        Ok(self.apply_filter(file)?.map(|_| FileRefusal::Masked))
    }

    fn make_room(&mut self) -> Result<()> {
        if self.staged.bytes() < STAGED_BYTES && self.staged.len() < STAGED_OBJECTS {
            return Ok(());
        }
        self.flush()
    }
}
