//! Changes: objects are staged, refs are compared and swapped, all durable in one batch.

use std::collections::{BTreeMap, BTreeSet, HashSet};
use std::fmt;
use std::sync::{Arc, PoisonError};

use bytes::Bytes;

use super::filter::ContentFilter;
use super::redactions::{REDACTIONS_REF, refused};
use super::vfs::VfsUri;
use super::{BranchName, Repository, Signature, before_ref, links};
use crate::error::{Error, ErrorKind, Result};
use crate::object::{
    Author, Commit, FileRefusal, Kind, Memory, Object, ObjectId, ObjectSink, ObjectSource,
    RefValue, Time, Trigger,
};
use crate::store::{
    Committed, Expected, Inventory, OperationDraft, ReadGuard, RefTable, RefUpdate, Tombstone,
};
use crate::tree::Link;

/// Bytes and objects that are staged in memory before [`ObjectSink::make_room`] puts them into the
/// store.
const STAGED_BYTES: usize = 16 << 20;
const STAGED_OBJECTS: usize = 1 << 16;

/// Ids that a repository remembers to be in the store, at most.
const MAX_KNOWN: usize = 1 << 16;

/// Some ids that are in the store: what one turn refers to, the next refers to again.
#[derive(Debug, Default)]
pub(super) struct KnownIds {
    ids: HashSet<ObjectId>,
    /// The epoch in which they were seen: a collection may have taken them away since.
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

/// A change in the making. Dropping it leaves the store as it was.
///
/// It sees branches as they were when it began, and that is what they must still be when it is
/// finished: read the context to build on after [`Repository::begin`], from [`Transaction::tip`].
#[derive(Debug)]
pub struct Transaction<'r> {
    repo: &'r Repository,
    /// The refs as they were when it began.
    refs: Arc<RefTable>,
    staged: Memory,
    updates: BTreeMap<String, RefUpdate>,
    appended_bytes: u64,
    /// Ids that staged objects may refer to although they were dropped.
    elided: HashSet<ObjectId>,
    lease: ReadGuard<'r>,
    /// The operation that it takes back.
    undoes: Option<ObjectId>,
    /// Payloads that blobs written since the last context cite.
    pub(super) cited: BTreeSet<VfsUri>,
    /// What looks at content that comes in.
    pub(super) filter: Option<&'r dyn ContentFilter>,
}

/// The fields of a commit other than parents, session and turn, which follow from its branch.
#[derive(Debug, Clone)]
pub struct SnapshotDraft {
    /// The root of the context.
    pub tree: ObjectId,
    /// The author.
    pub author: Author,
    /// When.
    pub time: Time,
    /// Why.
    pub trigger: Trigger,
    /// In words.
    pub message: String,
    /// Anything else.
    pub metadata: BTreeMap<String, String>,
}

impl SnapshotDraft {
    /// A snapshot that somebody asked for, made by the actor of `stamp` now.
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

    /// The sequence of the operation that this one follows, unless another one is faster.
    pub(super) fn base_sequence(&self) -> u64 {
        self.refs.sequence
    }

    /// The newest commit of a branch, as this transaction would leave it.
    #[must_use]
    pub fn tip(&self, branch: &BranchName) -> Option<ObjectId> {
        match self.updates.get(&branch.full()).map(|update| &update.new) {
            Some(Some(RefValue::Object(id))) => Some(*id),
            Some(_) => None,
            None => self.begun_at(branch),
        }
    }

    /// The branches of a session and their newest commits, as this transaction would leave them.
    #[must_use]
    pub fn branches_of(&self, session: &str) -> Vec<(BranchName, ObjectId)> {
        let begun = self.refs.values.keys().map(String::as_str);
        let names: BTreeSet<&str> = begun.chain(self.updates.keys().map(String::as_str)).collect();
        let branches = names.into_iter().filter_map(BranchName::from_full);
        let of_session = branches.filter(|branch| branch.session() == session);
        of_session.filter_map(|branch| self.tip(&branch).map(|tip| (branch, tip))).collect()
    }

    /// The main branch of every session as it was when the change began, with its newest commit.
    #[must_use]
    pub fn main_branches(&self) -> Vec<(BranchName, ObjectId)> {
        let branches = self.refs.values.keys().filter_map(|name| BranchName::from_full(name));
        let main = branches.filter(|branch| branch.branch() == super::MAIN_BRANCH);
        main.filter_map(|branch| self.begun_at(&branch).map(|tip| (branch, tip))).collect()
    }

    /// The commit `id`, staged or stored.
    ///
    /// # Errors
    /// `NotFound` or `Corrupt`, naming the id.
    pub fn read_commit(&self, id: &ObjectId) -> Result<Commit> {
        Commit::decode(&self.read_as(Kind::Commit, id)?).map_err(|error| error.at(id))
    }

    /// Puts a snapshot on a branch, on top of what is there; a new branch begins with it.
    ///
    /// # Errors
    /// Those of reading the parent.
    pub fn snapshot(&mut self, branch: &BranchName, snapshot: SnapshotDraft) -> Result<ObjectId> {
        let id = self.record(branch, snapshot)?;
        self.move_branch(branch, Some(id));
        Ok(id)
    }

    /// Writes a snapshot that continues a branch, and leaves the branch where it is: a ref must
    /// lead to it.
    ///
    /// # Errors
    /// Those of reading the parent.
    pub fn record(&mut self, branch: &BranchName, snapshot: SnapshotDraft) -> Result<ObjectId> {
        self.write_commit(branch, &[], snapshot)
    }

    /// Puts a snapshot on a branch that continues what is there and, as a merge, `others` too.
    ///
    /// # Errors
    /// Those of reading a parent.
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

    /// Deletes a branch, with what keeps its workspace as it was before the last restore, and with
    /// the places that were at it. A session that was forgotten and has a branch has come back: it
    /// is deleted from now on, and not forgotten.
    pub fn delete_branch(&mut self, branch: &BranchName) {
        self.remove_branch(branch);
        self.note_return(branch.session());
    }

    pub(super) fn remove_branch(&mut self, branch: &BranchName) {
        self.move_branch(branch, None);
        self.move_places(branch, None);
        self.set_before(branch, None);
    }

    /// Sets the ref that keeps the workspace of a branch as it was.
    pub fn set_before(&mut self, branch: &BranchName, commit: Option<ObjectId>) {
        let name = before_ref(branch);
        let expected = match self.begun_with(&name) {
            Some(value) => Expected::Value(value.clone()),
            None if commit.is_none() => return,
            None => Expected::Absent,
        };
        self.set_ref(&name, expected, commit.map(RefValue::Object));
    }

    /// Moves a branch, which must still be where it was when the change began.
    pub fn move_branch(&mut self, branch: &BranchName, to: Option<ObjectId>) {
        let expected = match self.begun_at(branch) {
            Some(id) => Expected::Value(RefValue::Object(id)),
            None => Expected::Absent,
        };
        self.set_ref(&branch.full(), expected, to.map(RefValue::Object));
    }

    /// Gives a branch another name; HEAD and places go with it. Returns where it is.
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

    /// Returns whether an object is staged and not stored yet.
    pub(super) fn has_staged(&self, id: &ObjectId) -> Result<bool> {
        self.staged.contains(id)
    }

    /// Returns the repository that it changes.
    pub(super) fn repo(&self) -> &'r Repository {
        self.repo
    }

    /// Returns the value of a ref when the change began.
    pub(super) fn begun_with(&self, name: &str) -> Option<&RefValue> {
        self.refs.value(name)
    }

    /// The refs whose names begin with `prefix`, as they were when the change began.
    pub(super) fn begun_with_prefix(
        &self,
        prefix: &str,
    ) -> impl Iterator<Item = (&str, &RefValue)> {
        let from = self.refs.values.range(prefix.to_owned()..);
        let named = from.map(|(name, value)| (name.as_str(), value));
        named.take_while(move |(name, _)| name.starts_with(prefix))
    }

    /// The newest commit of a branch when the change began.
    fn begun_at(&self, branch: &BranchName) -> Option<ObjectId> {
        match self.begun_with(&branch.full()) {
            Some(RefValue::Object(id)) => Some(*id),
            _ => None,
        }
    }

    /// Sets or deletes a ref; the first expectation of a ref in a transaction holds.
    pub fn set_ref(&mut self, name: &str, expected: Expected, new: Option<RefValue>) {
        self.updates
            .entry(name.to_owned())
            .and_modify(|update| update.new.clone_from(&new))
            .or_insert_with(|| RefUpdate { name: name.to_owned(), expected, new });
    }

    /// Lets staged objects refer to `id`, which was dropped: a commit that is written again keeps
    /// the tree that it lost.
    pub(crate) fn allow_elided(&mut self, id: ObjectId) {
        self.elided.insert(id);
    }

    /// Says that this change takes the operation `id` back.
    pub(super) fn undo(&mut self, id: ObjectId) {
        self.undoes = Some(id);
    }

    /// Bytes staged in memory.
    #[must_use]
    pub fn staged_bytes(&self) -> usize {
        self.staged.bytes()
    }

    /// Makes the staged objects durable now, without a ref to them: a large change need not fit
    /// into memory. They are garbage until [`Transaction::commit`].
    ///
    /// # Errors
    /// `Io` when they cannot be written.
    pub fn flush(&mut self) -> Result<()> {
        let staged = std::mem::take(&mut self.staged);
        self.tell_filter(&staged)?;
        let (repo, elided, lease) = (self.repo, &self.elided, &self.lease);
        let check = LinkCheck { repo, staged: &staged, refs: &BTreeMap::new(), elided, lease };
        let objects = objects_of(&staged);
        let written = self.repo.store.append_checked(objects, &mut || check.run())?;
        self.appended_bytes += written.stored_bytes;
        Ok(())
    }

    /// Makes everything durable as one operation. When this returns, it is on disk.
    ///
    /// A context that was built on a change which was never finished refers to objects that are
    /// nowhere. Such a commit is refused: after a failed change, build on the branch as it is now.
    ///
    /// # Errors
    /// `NotFound` when a staged object refers to one that is not there, `Redacted` when one was
    /// redacted: nothing has changed. `Conflict` when a ref is not where it was expected: nothing
    /// has changed, and the change can be made again on the new value. `InvalidInput` at
    /// [`Repository::at_operation`]. `Io` when it cannot be written: nothing has changed.
    pub fn commit(self, stamp: &Signature, reason: &str) -> Result<Committed> {
        if self.repo.past.is_some() {
            return Err(Error::invalid("cannot write with --at-op: that state is read-only"));
        }
        self.tell_filter(&self.staged)?;
        let draft = self.draft(stamp, reason);
        let (repo, elided, lease) = (self.repo, &self.elided, &self.lease);
        let check = LinkCheck { repo, staged: &self.staged, refs: &self.updates, elided, lease };
        let objects = objects_of(&self.staged);
        let mut committed = self.repo.store.commit_checked(objects, &draft, &mut || check.run())?;
        committed.written.stored_bytes += self.appended_bytes;
        Ok(committed)
    }

    /// Takes an inventory of the store as it would be if this were committed. Writes nothing.
    ///
    /// # Errors
    /// `Io` when the journal cannot be read, and what the commit would be refused with.
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

    /// Passes the filter by: what is written was stored before.
    pub(crate) fn pass_filter(&mut self) {
        self.filter = None;
    }

    /// Returns what is stored in the place of a content; `None` for that itself.
    fn filtered(&self, content: &[u8]) -> Result<Option<Vec<u8>>> {
        self.filter.map_or(Ok(None), |filter| filter.instead(self.repo, content))
    }

    /// Returns a text as it is stored.
    fn filtered_text(&self, text: String) -> Result<String> {
        let instead = self.filtered(text.as_bytes())?;
        Ok(instead.and_then(|bytes| String::from_utf8(bytes).ok()).unwrap_or(text))
    }

    /// Tells the filter which of these objects are new to the store, which does not have them yet.
    fn tell_filter(&self, staged: &Memory) -> Result<()> {
        let Some(filter) = self.filter else { return Ok(()) };
        for (id, object) in staged.iter() {
            if object.kind == Kind::Blob && !self.repo.store.finds(id)? {
                filter.stored(self.repo, &object.bytes)?;
            }
        }
        Ok(())
    }
}

fn objects_of(staged: &Memory) -> Vec<(ObjectId, Object)> {
    staged.iter().map(|(id, object)| (*id, object.clone())).collect()
}

/// Finds out whether everything that staged objects and new values of refs refer to is there.
struct LinkCheck<'a> {
    repo: &'a Repository,
    staged: &'a Memory,
    refs: &'a BTreeMap<String, RefUpdate>,
    elided: &'a HashSet<ObjectId>,
    lease: &'a ReadGuard<'a>,
}

impl LinkCheck<'_> {
    /// Refuses content that was redacted.
    fn check_redactions(&self) -> Result<()> {
        for (id, object) in self.staged.iter() {
            if object.kind == Kind::Blob && self.repo.is_redacted(id)? {
                return Err(refused(id));
            }
        }
        Ok(())
    }

    /// Refuses what refers to something that is neither staged nor stored. What a collection has
    /// taken away since the transaction began is given back, to be stored again.
    fn run(&self) -> Result<Vec<(ObjectId, Object)>> {
        let mut known = self.repo.known.lock().unwrap_or_else(PoisonError::into_inner);
        known.prepare(self.repo.store.epoch());
        let mut rescued = Vec::new();
        self.check_redactions()?;
        for update in self.refs.values() {
            if let Some(RefValue::Object(target)) = &update.new {
                self.rely_on(target, &update.name, &mut known, &mut rescued)?;
            }
        }
        for (id, object) in self.staged.iter() {
            for Link { id: target, .. } in links(object)? {
                let from = format_args!("{} {id}", object.kind);
                self.rely_on(&target, &from, &mut known, &mut rescued)?;
            }
        }
        let mut at = 0;
        while let Some((id, object)) = rescued.get(at).cloned() {
            for Link { id: target, .. } in links(&object)? {
                // What had expired before need not come back.
                if self.repo.store.tombstone(&target) != Some(Tombstone::Elided) {
                    let from = format_args!("{} {id}", object.kind);
                    self.rely_on(&target, &from, &mut known, &mut rescued)?;
                }
            }
            at += 1;
        }
        Ok(rescued)
    }

    fn rely_on(
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
        let bytes = self.filtered(&bytes)?.map_or(bytes, Bytes::from);
        self.note_citations(&bytes);
        self.staged.write(kind, bytes)
    }

    fn take_cited(&mut self) -> Result<Vec<(String, ObjectId)>> {
        self.take_cited_payloads()
    }

    fn refuses(&self, file: &[u8]) -> Result<Option<FileRefusal>> {
        let has_any = self.refs.value(REDACTIONS_REF).is_some();
        if has_any && self.repo.is_redacted(&ObjectId::of(Kind::Blob, file))? {
            return Ok(Some(FileRefusal::Redacted));
        }
        Ok(self.filtered(file)?.map(|_| FileRefusal::Masked))
    }

    fn make_room(&mut self) -> Result<()> {
        if self.staged.bytes() < STAGED_BYTES && self.staged.len() < STAGED_OBJECTS {
            return Ok(());
        }
        self.flush()
    }
}
