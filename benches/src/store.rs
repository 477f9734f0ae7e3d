//! Creates stores in temporary folders, and records a session turn by turn.

use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use bytes::Bytes;
use tempfile::TempDir;
use turntree::context::{Builder, FileMode, MAIN_AGENT, MessageEntry, Role, Shape};
use turntree::object::{Kind, ObjectId, ObjectSink, ObjectSource, Time, Trigger};
use turntree::repo::{BranchName, Repository, Signature, SnapshotDraft};
use turntree::store::{
    Committed, Durability, NewStore, OpenOptions, RealIo, StoreCipher, StoreKey,
};
use turntree::tree::{List, Map};
use turntree::{Error, Result};

use crate::session::{Agent, Turn};

/// Returns the key of an encrypted store, with the cipher of new stores.
fn key() -> StoreKey {
    StoreKey::of(StoreCipher::fastest(), [8; 32])
}

/// An empty store that is deleted when this value is dropped.
#[derive(Debug)]
pub struct TempStore {
    dir: TempDir,
}

impl TempStore {
    /// Creates a store in a new folder below `parent`, which determines the file system.
    ///
    /// # Errors
    /// If the folder or the store cannot be created.
    pub fn new(parent: &Path) -> Result<Self> {
        let dir = TempDir::new_in(parent).map_err(|e| Error::io("make a folder", e))?;
        let store = Self { dir };
        let options = OpenOptions { durability: Durability::None, ..OpenOptions::new([1; 16]) };
        let new = NewStore { id: [7; 16] };
        Repository::init(Arc::new(RealIo), &store.path(), &new, options)?;
        Ok(store)
    }

    /// Returns the folder of the store.
    #[must_use]
    pub fn path(&self) -> PathBuf {
        self.dir.path().join(".turntree")
    }

    /// Syncs all written data to disk, so that no measurement pays for it.
    fn sync(&self) -> Result<()> {
        let failed = |error| Error::io("sync the store", error);
        for entry in fs::read_dir(self.path().join("journal")).map_err(failed)? {
            let file = entry.and_then(|entry| File::open(entry.path())).map_err(failed)?;
            file.sync_all().map_err(failed)?;
        }
        Ok(())
    }

    /// Encrypts the store.
    ///
    /// # Errors
    /// If its files cannot be rewritten.
    pub fn encrypt(&self) -> Result<()> {
        self.open(Durability::Full)?.store().change_encryption(Some(key()), [3; 16]).map(drop)
    }

    /// Opens the store.
    ///
    /// # Errors
    /// If it cannot be opened.
    pub fn open(&self, durability: Durability) -> Result<Repository> {
        let keys = Some(key().into());
        let options = OpenOptions { durability, keys, ..OpenOptions::new([2; 16]) };
        Repository::open(Arc::new(RealIo), &self.path(), options)
    }
}

/// Returns the time of turn `turn`, and the actor.
#[must_use]
pub fn stamp(turn: i64) -> Signature {
    let micros = 1_767_225_600_000_000 + turn * 60_000_000;
    Signature { time: Time { micros, offset_minutes: 0 }, actor: "agent".into() }
}

/// Records turns on a branch like a framework: the builder stays open between turns.
#[derive(Debug, Clone)]
pub struct Recorder<'r> {
    repo: &'r Repository,
    branch: BranchName,
    builder: Builder,
    turns: i64,
}

impl<'r> Recorder<'r> {
    /// Creates a recorder of a new branch of session `bench`.
    ///
    /// # Errors
    /// For an invalid name.
    pub fn new(repo: &'r Repository, branch: &str) -> Result<Self> {
        Ok(Self::of_branch(repo, BranchName::new("bench", branch)?))
    }

    /// Creates a recorder of a new branch of any session.
    #[must_use]
    pub fn of_branch(repo: &'r Repository, branch: BranchName) -> Self {
        Self { repo, branch, builder: Builder::new(), turns: 0 }
    }

    /// Returns the branch.
    #[must_use]
    pub fn branch(&self) -> &BranchName {
        &self.branch
    }

    /// Takes a snapshot of the context after `turn`.
    ///
    /// # Errors
    /// If it cannot be written.
    pub fn record(&mut self, turn: &Turn) -> Result<Committed> {
        self.turns += 1;
        let stamp = stamp(self.turns);
        let mut change = self.repo.begin();
        for message in &turn.messages {
            let blob = change.write(Kind::Blob, message.json.clone())?;
            let role = Role::from_name(message.role);
            let entry = MessageEntry::new(blob, role, "json");
            self.builder.push_message(&mut change, MAIN_AGENT, &entry)?;
        }
        let (name, content) = &turn.note;
        self.builder.set_entry(&mut change, "scratchpad", name, Some(content.clone()))?;
        for (path, content) in &turn.files {
            let file = Some((FileMode::Regular, content.clone()));
            self.builder.set_file(&mut change, path, file)?;
        }
        let tree = self.builder.write(&mut change)?;
        let snapshot =
            SnapshotDraft { trigger: Trigger::Turn, ..SnapshotDraft::new(tree, "", &stamp) };
        change.snapshot(&self.branch, snapshot)?;
        change.commit(&stamp, "snapshot")
    }
}

/// A store with a session of `turns` turns on `bench/main`.
#[derive(Debug)]
pub struct History {
    /// The store.
    pub store: TempStore,
    /// The agent before its next turn.
    pub agent: Agent,
    /// The builder after the last turn.
    pub builder: Builder,
    /// The commits, oldest first.
    pub commits: Vec<ObjectId>,
    /// The bytes that each turn added to the store.
    pub stored_bytes: Vec<u64>,
}

impl History {
    /// Records `turns` turns without syncing.
    ///
    /// # Errors
    /// If the store cannot be written.
    pub fn build(parent: &Path, turns: usize) -> Result<Self> {
        let store = TempStore::new(parent)?;
        let repo = store.open(Durability::None)?;
        let mut agent = Agent::new();
        let mut recorder = Recorder::new(&repo, "main")?;
        let (mut commits, mut stored_bytes) = (Vec::new(), Vec::new());
        for _ in 0..turns {
            stored_bytes.push(recorder.record(&agent.next_turn())?.written.stored_bytes);
            commits.extend(repo.tip(recorder.branch()));
        }
        let builder = recorder.builder;
        drop(repo);
        store.sync()?;
        Ok(Self { store, agent, builder, commits, stored_bytes })
    }

    /// Returns the commit of turn `turn`, counted from 1.
    ///
    /// # Errors
    /// `NotFound` if there are fewer turns.
    pub fn commit(&self, turn: usize) -> Result<ObjectId> {
        let found = turn.checked_sub(1).and_then(|index| self.commits.get(index));
        found.copied().ok_or_else(|| Error::not_found(format!("turn {turn}")))
    }

    /// Returns a recorder that continues from the last turn on a new branch.
    ///
    /// # Errors
    /// If the branch cannot be created.
    pub fn fork<'r>(&self, repo: &'r Repository, branch: &str) -> Result<Recorder<'r>> {
        let mut recorder = Recorder::new(repo, branch)?;
        recorder.builder = self.builder.clone();
        recorder.reset(self)?;
        Ok(recorder)
    }
}

impl Recorder<'_> {
    /// Resets the branch to the last turn of `history`, so that every measurement starts at the
    /// same turn.
    ///
    /// # Errors
    /// If the branch cannot be moved.
    pub fn reset(&mut self, history: &History) -> Result<()> {
        self.builder = history.builder.clone();
        let mut change = self.repo.begin();
        change.move_branch(&self.branch, history.commits.last().copied());
        change.commit(&stamp(0), "reset")?;
        Ok(())
    }
}

/// Reads every section and every blob of the commit `id`. Returns their size in bytes.
///
/// # Errors
/// If an object is missing or damaged.
pub fn read_everything(repo: &Repository, id: &ObjectId) -> Result<usize> {
    let store = repo.store();
    let mut blobs = Vec::new();
    for section in repo.context(id)?.sections(store)?.into_values() {
        match section.shape {
            Shape::Blob => blobs.push(section.id),
            Shape::List => {
                let list = List::open(store, &section.id)?;
                for item in list.iter(store, 0..list.len()) {
                    blobs.push(item?.link.id);
                }
            }
            Shape::Map => {
                for entry in Map::open(store, &section.id)?.iter(store) {
                    blobs.push(entry?.1.link.id);
                }
            }
        }
    }
    Ok(store.read_all(Kind::Blob, &blobs)?.iter().map(Bytes::len).sum())
}

/// Returns the last `count` messages of the main agent at the commit `id`.
///
/// # Errors
/// If an object is missing or damaged.
pub fn last_messages(repo: &Repository, id: &ObjectId, count: u64) -> Result<Vec<Bytes>> {
    let store = repo.store();
    let list = repo.context(id)?.messages(store, MAIN_AGENT)?;
    let first = list.len().saturating_sub(count);
    list.iter(store, first..list.len())
        .map(|item| store.read_as(Kind::Blob, &item?.link.id))
        .collect()
}
