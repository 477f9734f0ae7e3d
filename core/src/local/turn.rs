//! A turn in progress: changes on top of the newest snapshot, and the commit that ends it.

use std::path::Path;

use bytes::Bytes;

use super::system::{git_places, home};
use super::{Repo, Snapshot, path_error};
use crate::context::sections::FILES;
use crate::context::{Builder, Context, FileMode, JSON_MEDIA, MessageEntry, Role, split};
use crate::error::{Error, Result};
use crate::object::{Kind, ObjectSink, Trigger};
use crate::repo::{self, BranchName, Transaction};
use crate::workspace::{CaptureOptions, CaptureReport, StatCache, capture, expect_narrow};

/// A turn in progress. Dropping it leaves the session unchanged.
#[derive(Debug)]
pub struct Turn<'r> {
    repo: &'r Repo,
    branch: BranchName,
    change: Transaction<'r>,
    parent: Context,
    builder: Builder,
    author: Option<(String, String)>,
    metadata: Vec<(String, String)>,
    captured: Option<(Option<StatCache>, CaptureReport)>,
    allows_broad: bool,
}

impl<'r> Turn<'r> {
    pub(super) fn begin(repo: &'r Repo, branch: &BranchName) -> Result<Self> {
        let change = repo.inner.begin();
        let parent = match change.tip(branch) {
            Some(tip) => repo.inner.context(&tip)?,
            None => Context::default(),
        };
        let (author, metadata, captured) = (None, Vec::new(), None);
        let builder = Builder::from(parent.clone());
        Ok(Self {
            repo,
            branch: branch.clone(),
            change,
            parent,
            builder,
            author,
            metadata,
            captured,
            allows_broad: false,
        })
    }

    /// Appends a message in JSON to the conversation of `agent`, `main` for the session's own.
    ///
    /// # Errors
    /// `InvalidInput` for text that is not JSON or an invalid agent name, and errors of writing.
    pub fn push_message(&mut self, agent: &str, role: Role, json: impl Into<Bytes>) -> Result<()> {
        let json = json.into();
        if let Err(error) = serde_json::from_slice::<serde::de::IgnoredAny>(&json) {
            return Err(Error::invalid("the message is not JSON").with_source(error));
        }
        let blob = self.change.write(Kind::Blob, json)?;
        let entry = MessageEntry::new(blob, role, JSON_MEDIA);
        self.builder.push_message(&mut self.change, agent, &entry)
    }

    /// Sets the entry at `path`, which names a section and a key: `scratchpad/plan`, `files/src/a.rs`.
    ///
    /// # Errors
    /// `InvalidInput` for a path without a key, a section that is not a map, or a file path outside
    /// of the workspace; and errors of writing.
    pub fn set(&mut self, path: &str, content: impl Into<Bytes>) -> Result<()> {
        self.put(path, Some(content.into()))
    }

    /// Removes the entry at `path`, if it exists.
    ///
    /// # Errors
    /// As for [`Turn::set`].
    pub fn remove(&mut self, path: &str) -> Result<()> {
        self.put(path, None)
    }

    fn put(&mut self, path: &str, content: Option<Bytes>) -> Result<()> {
        let (section, key) = split(path);
        if key.is_empty() {
            return Err(path_error(path));
        }
        if section == FILES {
            check_file(key)?;
            let file = content.map(|content| (FileMode::Regular, content));
            return self.builder.set_file(&mut self.change, key, file);
        }
        self.builder.set_entry(&mut self.change, section, key, content)
    }

    /// Allows capturing `/`, the home directory and its ancestors.
    #[must_use]
    pub fn allow_broad(mut self) -> Self {
        self.allows_broad = true;
        self
    }

    /// Sets the section `files` to the content of the directory `dir`, without files that
    /// `.gitignore` ignores. Reads only files that changed since the last capture; the result has
    /// their number.
    ///
    /// # Errors
    /// `NotFound` if `dir` is not a directory, `InvalidInput` for `/`, the home directory and its
    /// ancestors unless allowed, `Io` if it cannot be opened. An unreadable file keeps its last
    /// known content.
    pub fn capture_files(&mut self, dir: impl AsRef<Path>) -> Result<&CaptureReport> {
        let dir = dir.as_ref();
        if !self.allows_broad {
            expect_narrow(dir, home().as_deref())?;
        }
        // Without a cache the capture only has to read every file.
        let cache = StatCache::open(&self.repo.inner, dir).ok();
        let never = self.repo.excluded_folders();
        let git = git_places();
        let options = CaptureOptions {
            never: &never,
            cache: cache.as_ref(),
            git: &git,
            ..CaptureOptions::default()
        };
        let captured = capture(&mut self.change, &self.parent, &mut self.builder, dir, &options)?;
        self.metadata.extend(captured.metadata(dir));
        Ok(&self.captured.insert((cache, captured)).1)
    }

    /// Sets the agent of the turn and its model; by default the agent is the handle's actor.
    #[must_use]
    pub fn by(mut self, agent: impl Into<String>, model: impl Into<String>) -> Self {
        self.author = Some((agent.into(), model.into()));
        self
    }

    /// Adds metadata to the snapshot, such as the outcome of a check.
    #[must_use]
    pub fn with(mut self, name: impl Into<String>, value: impl Into<String>) -> Self {
        self.metadata.push((name.into(), value.into()));
        self
    }

    /// Commits the turn as a snapshot with this title. When it returns, the snapshot is durable.
    /// Costs in proportion to the changes, and one sync.
    ///
    /// # Errors
    /// `Conflict` if another process added a snapshot to the branch concurrently, `Io` if writing
    /// fails. The session is unchanged after an error.
    pub fn commit(mut self, title: impl Into<String>) -> Result<Snapshot> {
        let tree = self.builder.write(&mut self.change)?;
        let stamp = self.repo.stamp();
        let mut draft = repo::SnapshotDraft::new(tree, title, &stamp);
        draft.trigger = Trigger::Turn;
        draft.metadata.extend(self.metadata);
        if let Some((agent, model)) = self.author {
            draft.author.agent = agent;
            draft.author.model = model;
        }
        let id = self.change.snapshot(&self.branch, draft)?;
        self.change.commit(&stamp, "snapshot")?;
        if let Some((Some(cache), captured)) = &self.captured {
            // The snapshot is durable: without the cache the next capture only takes longer.
            let _ = cache.save(captured, self.repo.inner.store(), &tree);
        }
        Snapshot::read(self.repo, id)
    }
}

/// Refuses a file path that cannot be checked out below a directory.
pub(super) fn check_file(path: &str) -> Result<()> {
    if path.split('/').any(|part| matches!(part, "" | "." | "..")) {
        let message =
            format!("'{path}' is not a relative path: expected names separated by single slashes");
        return Err(Error::invalid(message));
    }
    Ok(())
}
