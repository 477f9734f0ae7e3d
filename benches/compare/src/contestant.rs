//! The store: writes turns, reads states, lists and compares. Uses only the public API.

use std::collections::HashMap;
use std::path::Path;
use std::sync::Arc;
use std::time::SystemTime;

use bytes::Bytes;
use serde::Serialize;
use turntree::context::{
    Builder, FileMode, MAIN_AGENT, MessageEntry, SectionDiff, diff as diff_contexts,
};
use turntree::maintenance::{Purpose, collect};
use turntree::object::{Kind, ObjectId, ObjectSink, ObjectSource, Time, Trigger};
use turntree::repo::{BranchName, LogEntry, Repository, Signature, SnapshotDraft};
use turntree::store::{Durability, NewStore, OpenOptions, RealIo, Tier};

use crate::Result;
use crate::workload::{Change, Entry, Part, State, Turn};

const SESSION: &str = "workload";

/// The metadata key of a commit with the number of its turn.
const TURN: &str = "turn";

/// A store, the context of the last written turn, and the commits of known turns.
pub(crate) struct Contestant {
    repo: Repository,
    builder: Builder,
    turn: u64,
    commits: HashMap<u64, ObjectId>,
}

/// The number of different keys of two states.
#[derive(Debug, Default, Serialize)]
pub(crate) struct Counts {
    added: u64,
    removed: u64,
    changed: u64,
}

/// A line of the listing.
#[derive(Debug)]
#[expect(dead_code, reason = "never read: the harness needs it in memory")]
pub(crate) struct Listed {
    id: ObjectId,
    parents: Vec<ObjectId>,
    time: Time,
}

impl Contestant {
    /// Creates an empty store.
    pub(crate) fn create(dir: &Path) -> Result<()> {
        let new = NewStore { id: *b"turntree-compare" };
        Repository::init(Arc::new(RealIo), dir, &new, OpenOptions::new([0; 16]))?;
        Ok(())
    }

    /// Packs all objects: for a store in use, or at the smallest size.
    pub(crate) fn compact(&self, archive: bool) -> Result<()> {
        let tier = if archive { Tier::Archive } else { Tier::Compacted };
        let now = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH)?;
        let time = Time { micros: i64::try_from(now.as_micros())?, offset_minutes: 0 };
        let stamp = Signature { time, actor: "harness".into() };
        collect(&self.repo, Purpose::Repack(tier), &stamp, &mut |_| ())?;
        Ok(())
    }

    /// Opens the store.
    pub(crate) fn open(dir: &Path, durable: bool) -> Result<Self> {
        let durability = if durable { Durability::Full } else { Durability::None };
        let mut seed = [0; 16];
        let process = std::process::id().to_le_bytes();
        seed.iter_mut().zip(process).for_each(|(byte, of_process)| *byte = of_process);
        let options = OpenOptions { durability, ..OpenOptions::new(seed) };
        let repo = Repository::open(Arc::new(RealIo), dir, options)?;
        Ok(Self { repo, builder: Builder::new(), turn: 0, commits: HashMap::new() })
    }

    /// Returns the turn of the current state.
    pub(crate) fn turn(&self) -> u64 {
        self.turn
    }

    /// Sets the current state to that of `turn`, and reads all of it, like an agent.
    pub(crate) fn switch(&mut self, turn: u64) -> Result<()> {
        self.builder = match turn {
            0 => Builder::new(),
            _ => {
                self.restore(turn)?;
                let commit = self.find(turn)?;
                Builder::from(self.repo.context(&commit)?)
            }
        };
        self.turn = turn;
        Ok(())
    }

    /// Applies a turn to the current state and makes it durable.
    pub(crate) fn snapshot(&mut self, turn: &Turn) -> Result<()> {
        let stamp = now()?;
        let branch = BranchName::new(SESSION, &turn.branch)?;
        let parent = if turn.parent == 0 { None } else { Some(self.find(turn.parent)?) };
        let mut change = self.repo.begin();
        for op in &turn.changes {
            apply(&mut self.builder, &mut change, op)?;
        }
        let tree = self.builder.write(&mut change)?;
        if change.tip(&branch) != parent {
            change.move_branch(&branch, parent);
        }
        let mut snapshot =
            SnapshotDraft { trigger: Trigger::Turn, ..SnapshotDraft::new(tree, "", &stamp) };
        snapshot.metadata.insert(TURN.into(), turn.number.to_string());
        let commit = change.snapshot(&branch, snapshot)?;
        change.commit(&stamp, "snapshot")?;
        self.commits.insert(turn.number, commit);
        self.turn = turn.number;
        Ok(())
    }

    /// Reads and verifies the whole state at `turn`.
    pub(crate) fn restore(&mut self, turn: u64) -> Result<State> {
        let commit = self.find(turn)?;
        let context = self.repo.context(&commit)?;
        let store = self.repo.store();
        let list = context.messages(store, MAIN_AGENT)?;
        let mut blobs = Vec::new();
        for item in list.iter(store, 0..list.len()) {
            blobs.push(item?.link.id);
        }
        let mut keys = Vec::new();
        for part in Part::ALL {
            for entry in context.map(store, part.section())?.iter(store) {
                let (key, item) = entry?;
                keys.push((part, key));
                blobs.push(item.link.id);
            }
        }
        let mut contents = store.read_all(Kind::Blob, &blobs)?.into_iter();
        let messages = contents.by_ref().take(blobs.len() - keys.len()).collect();
        let entries = keys.into_iter().zip(contents);
        let entries = entries.map(|((part, key), content)| Entry { part, key, content }).collect();
        Ok(State { messages, entries })
    }

    /// Returns all snapshots of all branches, newest first.
    pub(crate) fn list(&self) -> Result<Vec<Listed>> {
        let listed = self.repo.history(&self.tips(), &[])?.map(|entry| {
            let LogEntry { id, commit, .. } = entry?;
            Ok(Listed { id, parents: commit.parents, time: commit.time })
        });
        listed.collect()
    }

    /// Returns the number of different keys of two turns' states.
    pub(crate) fn diff(&mut self, a: u64, b: u64) -> Result<Counts> {
        let (a, b) = (self.find(a)?, self.find(b)?);
        let (old, new) = (self.repo.context(&a)?, self.repo.context(&b)?);
        let sections = diff_contexts(&self.repo, &old, &new)?;
        let mut counts = Counts::default();
        for SectionDiff { changes } in sections.into_values() {
            for change in changes {
                match (change.old, change.new) {
                    (None, _) => counts.added += 1,
                    (_, None) => counts.removed += 1,
                    _ => counts.changed += 1,
                }
            }
        }
        Ok(counts)
    }

    /// Returns the commit of `turn`: from memory, or else by a search from the tips.
    fn find(&mut self, turn: u64) -> Result<ObjectId> {
        if let Some(id) = self.commits.get(&turn) {
            return Ok(*id);
        }
        let number = turn.to_string();
        for entry in self.repo.history(&self.tips(), &[])? {
            let LogEntry { id, commit, .. } = entry?;
            if commit.metadata.get(TURN) == Some(&number) {
                self.commits.insert(turn, id);
                return Ok(id);
            }
        }
        Err(format!("turn {turn} is on no branch").into())
    }

    fn tips(&self) -> Vec<ObjectId> {
        self.repo.branches().into_iter().map(|(_, id)| id).collect()
    }
}

fn apply(builder: &mut Builder, sink: &mut dyn ObjectSink, change: &Change) -> Result<()> {
    match change {
        Change::Message { role, json } => {
            let blob = sink.write(Kind::Blob, json.clone())?;
            let entry = MessageEntry::new(blob, *role, "json");
            builder.push_message(sink, MAIN_AGENT, &entry)?;
        }
        Change::Set { part: Part::Files, key, content } => {
            builder.set_file(sink, key, Some((FileMode::Regular, content.clone())))?;
        }
        Change::Remove { part: Part::Files, key } => builder.set_file(sink, key, None)?,
        Change::Set { part, key, content } => {
            builder.set_entry(sink, part.section(), key, Some(content.clone()))?;
        }
        Change::Remove { part, key } => {
            builder.set_entry(sink, part.section(), key, None::<Bytes>)?;
        }
    }
    Ok(())
}

/// Returns the current time, with a generic actor.
fn now() -> Result<Signature> {
    let since = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH)?;
    let time = Time { micros: i64::try_from(since.as_micros())?, offset_minutes: 0 };
    Ok(Signature { time, actor: "agent".into() })
}
