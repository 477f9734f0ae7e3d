//! Reads a snapshot: an agent's context at a turn.

use std::borrow::Cow;
use std::path::PathBuf;

use bytes::Bytes;

use super::{Checkout, Repo};
use crate::context::{Context, MessageEntry, Role, diff};
use crate::error::{Error, Result};
use crate::object::{Commit, Kind, ObjectId, ObjectSource};

/// A snapshot, and the store that it is read from.
#[derive(Debug, Clone)]
pub struct Snapshot {
    repo: Repo,
    id: ObjectId,
    commit: Commit,
    context: Context,
}

/// A message of a conversation.
#[derive(Debug, Clone)]
#[non_exhaustive]
pub struct Message {
    /// The role of the speaker.
    pub role: Role,
    /// The format of the record: `json`, or the name of a transcript format.
    pub format: String,
    /// The branch that a merge took the message from; `None` for a message of this branch.
    pub origin: Option<String>,
    /// The record, byte for byte.
    pub record: Bytes,
    text: Option<String>,
}

/// An entry that differs between two snapshots.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct EntryChange {
    /// The path: section and key. A message is named by its index.
    pub path: String,
    /// True if the older snapshot has the entry.
    pub before: bool,
    /// True if the newer snapshot has the entry.
    pub after: bool,
}

impl EntryChange {
    /// Returns the kind of change: `added`, `removed` or `changed`.
    #[must_use]
    pub fn kind(&self) -> &'static str {
        match (self.before, self.after) {
            (false, _) => "added",
            (true, false) => "removed",
            (true, true) => "changed",
        }
    }
}

impl Snapshot {
    pub(super) fn read(repo: &Repo, id: ObjectId) -> Result<Self> {
        let (commit, context) = (repo.inner.commit(&id)?, repo.inner.context(&id)?);
        Ok(Self { repo: repo.clone(), id, commit, context })
    }

    pub(super) fn source(&self) -> &dyn ObjectSource {
        self.repo.inner.store()
    }

    /// Returns the id of the commit.
    #[must_use]
    pub fn id(&self) -> ObjectId {
        self.id
    }

    /// Returns the number of the turn, from 1.
    #[must_use]
    pub fn turn(&self) -> u64 {
        self.commit.turn
    }

    /// Returns the title.
    #[must_use]
    pub fn title(&self) -> &str {
        &self.commit.message
    }

    /// Returns the commit: author, time, trigger, parents, metadata.
    #[must_use]
    pub fn commit(&self) -> &Commit {
        &self.commit
    }

    /// Returns the underlying context, for uses that this handle does not cover.
    #[must_use]
    pub fn context(&self) -> &Context {
        &self.context
    }

    /// Returns the conversation of `agent`, oldest message first; empty for an unknown agent. Reads
    /// each message on demand.
    ///
    /// # Errors
    /// `InvalidInput` for an invalid agent name, `Corrupt` if it cannot be read.
    pub fn messages(&self, agent: &str) -> Result<impl Iterator<Item = Result<Message>> + '_> {
        let store = self.repo.inner.store();
        let list = self.context.messages(store, agent)?;
        let len = list.len();
        Ok(list.iter(store, 0..len).map(|item| {
            let entry = MessageEntry::from_item(&item?)?;
            let record = store.read_as(Kind::Blob, &entry.blob)?;
            let text = (self.repo.formats.text)(&entry.media, &record);
            let MessageEntry { role, media, origin, .. } = entry;
            Ok(Message { role, format: media, origin, record, text })
        }))
    }

    /// Returns the agents that have a conversation or state, ordered by name.
    ///
    /// # Errors
    /// `Corrupt` if the context cannot be read.
    pub fn agents(&self) -> Result<Vec<String>> {
        self.context.agents(self.repo.inner.store())
    }

    /// Returns the entry at `path` as text.
    ///
    /// # Errors
    /// As for [`Snapshot::read_entry`], and `InvalidInput` for bytes that are not UTF-8.
    pub fn text(&self, path: &str) -> Result<String> {
        let bytes = self.read_entry(path)?;
        let text = String::from_utf8(bytes.into());
        text.map_err(|error| Error::invalid(format!("{path} is not text")).with_source(error))
    }

    /// Returns the keys of a map section, such as `scratchpad` or `files`, in order; empty if it is
    /// missing.
    ///
    /// # Errors
    /// `InvalidInput` for a section that is not a map, `Corrupt` if it cannot be read.
    pub fn keys(&self, section: &str) -> Result<Vec<String>> {
        let store = self.repo.inner.store();
        let map = self.context.map(store, section)?;
        let key = |entry: Result<(Bytes, _)>| {
            let (key, _) = entry?;
            Ok(String::from_utf8_lossy(&key).into_owned())
        };
        map.iter(store).map(key).collect()
    }

    /// Returns the changes from `older` to this snapshot, ordered by path. Costs in proportion to
    /// the changes, however much both have in common.
    ///
    /// # Errors
    /// `Corrupt` if one of them cannot be read.
    pub fn changes_since(&self, older: &Self) -> Result<Vec<EntryChange>> {
        let found = diff(self.repo.inner.store(), &older.context, &self.context)?;
        let sections = found.into_iter().flat_map(|(section, difference)| {
            difference.changes.into_iter().map(move |change| EntryChange {
                path: match change.key.is_empty() {
                    true => section.clone(),
                    false => format!("{section}/{}", change.key),
                },
                before: change.old.is_some(),
                after: change.new.is_some(),
            })
        });
        Ok(sections.collect())
    }

    /// Begins to plan a checkout of this snapshot into the directory `dir`, which need not exist.
    pub fn checkout(&self, dir: impl Into<PathBuf>) -> Checkout<'_> {
        Checkout::new(&self.repo, &self.context, dir.into())
    }
}

impl Message {
    /// Returns the text that the format finds in the record, or else the record.
    #[must_use]
    pub fn text(&self) -> Cow<'_, str> {
        match &self.text {
            Some(text) => Cow::Borrowed(text),
            None => String::from_utf8_lossy(&self.record),
        }
    }
}
