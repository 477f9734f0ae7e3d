//! A change that is buffered in memory: edits of any sections of one or more branches, committed as
//! one operation.
//!
//! A [`Turn`](super::Turn) is bound to the newest snapshot at its beginning. A change reads the
//! store only at commit, so it can be repeated after a concurrent commit: appending a record or
//! setting an entry means the same on top of any snapshot. A change that depends on content read
//! before requires its snapshot with [`BranchChange::expect`].

use std::collections::BTreeMap;

use bytes::Bytes;

use super::Repo;
use super::edit::Edit;
use super::preview::Preview;
use super::records::Contents;
use super::turn::check_file;
use crate::context::sections::{FILES, MESSAGES, is_conversation, is_transcript_section};
use crate::context::{Builder, Context, FileMode, Role, agent_section, split};
use crate::error::{Error, ErrorKind, Result};
use crate::object::{ObjectId, Trigger};
use crate::repo::{BranchName, SnapshotDraft, Transaction};
use crate::tree::MAX_KEY_BYTES;

/// Maximum number of repetitions of a change after concurrent commits.
const MAX_ATTEMPTS: usize = 1000;

/// An uncommitted change of branches. Dropping it leaves the store unchanged.
#[derive(Debug, Clone)]
pub struct Change {
    repo: Repo,
    branches: BTreeMap<BranchName, BranchChange>,
}

/// The change of one branch.
#[derive(Debug, Clone, Default)]
pub struct BranchChange {
    expected: Option<Option<ObjectId>>,
    base: Base,
    edits: Vec<Edit>,
    title: Option<String>,
    metadata: BTreeMap<String, String>,
    /// The branch as the change will leave it, once it was read.
    preview: Option<Preview>,
}

/// The base of the new snapshot.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
enum Base {
    #[default]
    Newest,
    At(ObjectId),
    Nothing,
    Gone,
}

impl Repo {
    /// Begins a change that is buffered in memory until it is committed.
    #[must_use]
    pub fn change(&self) -> Change {
        Change { repo: self.clone(), branches: BTreeMap::new() }
    }

    /// Reads the commits of other handles and processes.
    ///
    /// # Errors
    /// `Io` if the journal cannot be read, `Locked` if collections follow each other too fast.
    pub fn refresh(&self) -> Result<()> {
        self.inner.store().refresh()
    }
}

impl Change {
    /// Returns the part of the change for `branch`.
    pub fn on(&mut self, branch: &BranchName) -> &mut BranchChange {
        self.branches.entry(branch.clone()).or_default()
    }

    /// Iterates over the branches of the change, ordered by name.
    pub fn branches(&self) -> impl Iterator<Item = &BranchName> {
        self.branches.keys()
    }

    /// Returns true if the change is empty.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.branches.values().all(BranchChange::is_empty)
    }

    /// Commits the change durably as one operation, with a snapshot of this title on each changed
    /// branch. Unchanged branches get no snapshot. Returns the new tip of each branch. Costs in
    /// proportion to the change, and one sync; after a concurrent commit the change is repeated on
    /// top of it.
    ///
    /// # Errors
    /// `Conflict` if a branch does not have the expected tip, `InvalidInput` for a section of
    /// another shape or a bad key or path, `Expired` if the newest snapshot of a branch was
    /// dropped, `Io` if writing fails. Nothing has changed after an error.
    pub fn commit(&self, title: &str) -> Result<Vec<(BranchName, Option<ObjectId>)>> {
        let mut attempt = 1;
        loop {
            match self.attempt(title) {
                // Read other commits first: the handle may not have been refreshed for a long time.
                Err(error) if error.kind() == ErrorKind::Conflict && attempt < MAX_ATTEMPTS => {
                    if attempt > 1 && self.has_condition() {
                        return Err(error);
                    }
                    self.repo.refresh()?;
                    attempt += 1;
                }
                outcome => return outcome,
            }
        }
    }

    /// Reads `branch` as this change will leave it: its newest snapshot at the first read, with the
    /// edits so far. A later commit requires that the branch is still at that snapshot, because the
    /// edits may depend on it; [`BranchChange::expect`] names another snapshot.
    ///
    /// Costs the edits since the last read.
    ///
    /// # Errors
    /// As for [`Change::commit`] and [`Repo::refresh`].
    pub fn contents(&mut self, branch: &BranchName) -> Result<Contents<'_>> {
        let change = self.branches.entry(branch.clone()).or_default();
        change.advance_preview(&self.repo, branch)?;
        let preview = change.preview.as_ref();
        preview.map(Preview::contents).ok_or_else(|| Error::not_found(format!("branch {branch}")))
    }

    fn has_condition(&self) -> bool {
        self.branches.values().any(|change| change.expected.is_some())
    }

    fn attempt(&self, title: &str) -> Result<Vec<(BranchName, Option<ObjectId>)>> {
        let mut transaction = self.repo.inner.begin();
        let mut moved = false;
        for (branch, change) in &self.branches {
            moved |= change.make(&self.repo, &mut transaction, branch, title)?;
        }
        let tips = self.branches.keys();
        let tips = tips.map(|branch| (branch.clone(), transaction.tip(branch))).collect();
        if moved {
            transaction.commit(&self.repo.stamp(), title)?;
        }
        Ok(tips)
    }
}

impl BranchChange {
    /// Commits only if the newest snapshot is this one; `None` expects that the branch does not
    /// exist.
    pub fn expect(&mut self, tip: Option<ObjectId>) -> &mut Self {
        self.expected = Some(tip);
        self
    }

    /// Continues the branch from a snapshot of any session, without a copy. Previous snapshots of
    /// the branch stay reachable from other branches and for an undo.
    pub fn go_on_from(&mut self, snapshot: ObjectId) -> &mut Self {
        self.base = Base::At(snapshot);
        self.preview = None;
        self
    }

    /// Restarts the branch without its history and its sections.
    pub fn start_over(&mut self) -> &mut Self {
        self.base = Base::Nothing;
        self.preview = None;
        self
    }

    /// Deletes the branch. A collection deletes content that only this branch references, once no
    /// undo can restore it.
    pub fn delete(&mut self) -> &mut Self {
        self.base = Base::Gone;
        self.preview = None;
        self
    }

    /// Sets a separate title for the snapshot of this branch.
    pub fn titled(&mut self, title: impl Into<String>) -> &mut Self {
        self.title = Some(title.into());
        self
    }

    /// Adds metadata to the snapshot.
    pub fn with(&mut self, name: impl Into<String>, value: impl Into<String>) -> &mut Self {
        self.metadata.insert(name.into(), value.into());
        self
    }

    /// Sets an entry of a map section; creates the section if needed.
    ///
    /// # Errors
    /// `InvalidInput` for an invalid section or key.
    pub fn put(&mut self, section: &str, key: &str, content: impl Into<Bytes>) -> Result<()> {
        self.set(section, key, content.into(), false)
    }

    /// Sets an entry of a map section unless it exists at commit.
    ///
    /// # Errors
    /// As for [`BranchChange::put`].
    pub fn put_new(&mut self, section: &str, key: &str, content: impl Into<Bytes>) -> Result<()> {
        self.set(section, key, content.into(), true)
    }

    fn set(&mut self, section: &str, key: &str, content: Bytes, only_new: bool) -> Result<()> {
        check_entry(section, key)?;
        let (section, key) = (section.to_owned(), key.to_owned());
        self.edits.push(Edit::Put { section, key, content, only_new });
        Ok(())
    }

    /// Sets a file of the workspace with its mode; [`BranchChange::put`] always sets a regular
    /// file. The content of a link is its target.
    ///
    /// # Errors
    /// `InvalidInput` for a path that cannot be checked out below a directory.
    pub fn put_file(
        &mut self,
        path: &str,
        mode: FileMode,
        content: impl Into<Bytes>,
    ) -> Result<()> {
        check_entry(FILES, path)?;
        self.edits.push(Edit::File { path: path.to_owned(), mode, content: content.into() });
        Ok(())
    }

    /// Removes an entry of a map section, if it exists.
    ///
    /// # Errors
    /// As for [`BranchChange::put`].
    pub fn remove(&mut self, section: &str, key: &str) -> Result<()> {
        check_entry(section, key)?;
        self.edits.push(Edit::Remove { section: section.to_owned(), key: key.to_owned() });
        Ok(())
    }

    /// Appends a record to a list section; creates the section if needed.
    ///
    /// # Errors
    /// `InvalidInput` for an invalid section, and for a conversation, whose records need a role.
    pub fn push(&mut self, section: &str, content: impl Into<Bytes>) -> Result<()> {
        check_section(section)?;
        if is_conversation(section) {
            let message = format!("{section} is a conversation: its records are messages");
            return Err(Error::invalid(message));
        }
        self.edits.push(Edit::Push { section: section.to_owned(), content: content.into() });
        Ok(())
    }

    /// Appends a record in the format `media` to the conversation of `agent`.
    ///
    /// # Errors
    /// `InvalidInput` for an invalid agent name.
    pub fn push_message(
        &mut self,
        agent: &str,
        role: Role,
        media: &str,
        record: impl Into<Bytes>,
    ) -> Result<()> {
        agent_section(agent, MESSAGES)?;
        let (agent, media, record) = (agent.to_owned(), media.to_owned(), record.into());
        self.edits.push(Edit::Message { agent, role, media, record });
        Ok(())
    }

    /// Truncates a list section to its first `len` records. A shorter list stays unchanged.
    ///
    /// # Errors
    /// `InvalidInput` for an invalid section.
    pub fn cut(&mut self, section: &str, len: u64) -> Result<()> {
        check_section(section)?;
        self.edits.push(Edit::Cut { section: section.to_owned(), len });
        Ok(())
    }

    /// Replaces a section of any shape with one blob.
    ///
    /// # Errors
    /// `InvalidInput` for an invalid section.
    pub fn set_blob(&mut self, section: &str, content: impl Into<Bytes>) -> Result<()> {
        check_section(section)?;
        self.edits.push(Edit::Blob { section: section.to_owned(), content: content.into() });
        Ok(())
    }

    /// Removes a section, if it exists.
    ///
    /// # Errors
    /// `InvalidInput` for an invalid section.
    pub fn drop_section(&mut self, section: &str) -> Result<()> {
        check_section(section)?;
        self.edits.push(Edit::Drop { section: section.to_owned() });
        Ok(())
    }

    /// Brings the preview up to date.
    fn advance_preview(&mut self, repo: &Repo, branch: &BranchName) -> Result<()> {
        let mut preview = match self.preview.take() {
            Some(preview) => preview,
            None => Preview::begin(repo, self.base_to_read(repo, branch)?)?,
        };
        preview.advance(&self.edits)?;
        self.preview = Some(preview);
        Ok(())
    }

    /// Returns the snapshot that the edits are read on. The newest one becomes the expected one:
    /// edits that depend on it must not be applied on top of another.
    fn base_to_read(&mut self, repo: &Repo, branch: &BranchName) -> Result<Option<ObjectId>> {
        match self.base {
            Base::Nothing | Base::Gone => return Ok(None),
            Base::At(id) => return repo.inner.peel(&id).map(Some),
            Base::Newest => {}
        }
        if self.expected.is_none() {
            repo.refresh()?;
            self.expected = Some(repo.inner.tip(branch));
        }
        Ok(self.expected.flatten())
    }

    fn is_empty(&self) -> bool {
        self.base == Base::Newest && self.edits.is_empty()
    }

    /// Stages the change of `branch`. Returns true if the branch moves.
    fn make(
        &self,
        repo: &Repo,
        change: &mut Transaction<'_>,
        branch: &BranchName,
        title: &str,
    ) -> Result<bool> {
        let tip = change.tip(branch);
        if let Some(expected) = self.expected.filter(|expected| *expected != tip) {
            return Err(unexpected(branch, expected, tip));
        }
        let base = match self.base {
            Base::Newest => tip,
            Base::At(id) => Some(repo.inner.peel(&id)?),
            Base::Nothing | Base::Gone => None,
        };
        if self.base == Base::Gone {
            if tip.is_some() {
                change.delete_branch(branch);
            }
            return Ok(tip.is_some());
        }
        if base != tip {
            change.move_branch(branch, base);
        }
        if self.edits.is_empty() && self.base != Base::Nothing {
            return Ok(base != tip);
        }
        let before = base.map(|id| change.read_commit(&id)).transpose()?.map(|commit| commit.tree);
        let mut builder = Builder::from(match &base {
            Some(id) => repo.inner.context(id)?,
            None => Context::default(),
        });
        self.edits.iter().try_for_each(|edit| edit.apply(change, &mut builder))?;
        let tree = builder.write(change)?;
        if before == Some(tree) {
            return Ok(base != tip);
        }
        let title = self.title.as_deref().unwrap_or(title);
        let mut draft = SnapshotDraft::new(tree, title, &repo.stamp());
        draft.trigger = Trigger::Turn;
        draft.metadata.clone_from(&self.metadata);
        change.snapshot(branch, draft)?;
        Ok(true)
    }
}

/// Returns the error for a branch at another snapshot than the expected one.
fn unexpected(branch: &BranchName, expected: Option<ObjectId>, tip: Option<ObjectId>) -> Error {
    let message = match (expected, tip) {
        (None, _) => format!("branch {branch} exists already: expected that it does not"),
        (Some(expected), Some(tip)) => format!(
            "branch {branch} is at {}, expected {}: read it again, and retry",
            tip.short(12),
            expected.short(12)
        ),
        (Some(expected), None) => {
            format!("branch {branch} was deleted: expected it at {}", expected.short(12))
        }
    };
    Error::new(ErrorKind::Conflict, message)
}

/// Refuses invalid section names, and sections whose entries are more than bytes.
fn check_section(section: &str) -> Result<()> {
    if section.is_empty() || section.len() > MAX_KEY_BYTES {
        let (len, limit) = (section.len(), MAX_KEY_BYTES);
        let message = format!("the name of a section has {len} bytes: expected 1 to {limit}");
        return Err(Error::invalid(message));
    }
    if split(section) != (section, "") {
        let message =
            format!("'{section}' cannot name a section: only agents/NAME/PART may contain slashes");
        return Err(Error::invalid(message));
    }
    match section {
        _ if is_transcript_section(section) => Err(Error::invalid(format!(
            "{section} holds an imported transcript: only an import can write it"
        ))),
        _ => Ok(()),
    }
}

fn check_entry(section: &str, key: &str) -> Result<()> {
    check_section(section)?;
    if key.is_empty() || key.len() > MAX_KEY_BYTES {
        let (len, limit) = (key.len(), MAX_KEY_BYTES);
        let message = format!("a key of {section} has {len} bytes: expected 1 to {limit}");
        return Err(Error::invalid(message));
    }
    if section == FILES { check_file(key) } else { Ok(()) }
}
