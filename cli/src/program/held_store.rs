//! Holds the store of a server open between calls.
//!
//! Opening a store reads its journal and its pack indexes, which costs more than most queries. So
//! the handle of a call is kept for the next one, which only reads the commits made since. The
//! store is reopened in these cases:
//!
//! - The superblock is another file, or has other bytes: the path is another store now, or the keys
//!   have changed.
//! - The epoch, which is in the superblock, has changed: a collection or a redaction deleted files.
//! - A call found damage, or a change failed: the files may have been repaired or replaced since
//!   they were opened.
//! - Another call uses the handle: refs must not move while it runs.
//! - The store is a lazy clone with remote-only objects: always.
//! - The handle is older than [`OLD`]: a handle keeps the disk space of deleted files in use.
//!
//! Contents read by searches are dropped with the handle. Data that calls derived are kept
//! separately: session summaries, and the word index in memory, which an encrypted store needs.
//! They are dropped once the superblock changes, so redacted words leave memory.
//!
//! A call that writes gives up its segment at its end. So a kept handle never owns a segment, and
//! never delays the collection of one.

use std::io::Read;
use std::path::Path;
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};
use std::thread;
use std::time::{Duration, Instant};

use turntree::object::ObjectId;
use turntree::platform::FileFacts;
use turntree::repo::Repository;
use turntree::workspace::open_regular;
use turntree_exchange::{KnownSessions, MemoryIndex};

use super::invocation::{Location, has_own_branch, open};
use crate::view::error::Result;

/// The file that every store has, with its format and its epoch.
const SUPERBLOCK: &str = "superblock";

/// Maximum bytes read of it: enough for every version.
const MAX_SUPERBLOCK: u64 = 16 << 10;

/// The age from which a handle is not used again. A handle that is not used is dropped before it is
/// twice as old.
const OLD: Duration = Duration::from_secs(30);

/// Maximum bytes of contents kept from one search to the next: about a thousand turns.
const CONTENT_BYTES: usize = 24 << 20;

/// A store that is opened on first use, and stays open.
#[derive(Debug)]
pub(crate) struct HeldStore {
    location: Location,
    kept: Arc<Mutex<Kept>>,
    memory: Arc<Memory>,
}

/// Data derived from a store, kept separately from its handle.
#[derive(Debug, Default)]
struct Memory {
    index: MemoryIndex,
    sessions: KnownSessions,
}

#[derive(Debug, Default)]
struct Kept {
    handle: Option<Held>,
    /// The superblock at the last check: the data in memory was read under it, or later.
    seen: Option<Superblock>,
    /// Counts the released handles. A store opened during a release is not kept.
    lettings: u64,
    /// Dropping it ends the thread that drops old handles.
    ends_thread: Option<Sender<()>>,
}

/// A handle, with the state of the store when it was opened.
#[derive(Debug)]
struct Held {
    repo: Arc<Repository>,
    superblock: Superblock,
    operation: Option<ObjectId>,
    opened: Instant,
}

/// A superblock: the identity of the file, and its bytes.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Superblock {
    device: u64,
    inode: u64,
    bytes: Vec<u8>,
}

impl HeldStore {
    /// Creates a holder for the store at a location. Nothing is opened yet.
    pub(crate) fn new(location: Location) -> Self {
        Self { location, kept: Arc::default(), memory: Arc::default() }
    }

    /// The location of the store.
    pub(crate) fn location(&self) -> &Location {
        &self.location
    }

    /// The word index in memory, for read-only searches.
    pub(crate) fn index(&self) -> &MemoryIndex {
        &self.memory.index
    }

    /// The known sessions.
    pub(crate) fn sessions(&self) -> &KnownSessions {
        &self.memory.sessions
    }

    /// Returns the store with all commits so far. Costs a few reads of file metadata,
    /// or opening the store. A newly opened handle passes through `prepare` before it is kept.
    ///
    /// # Errors
    /// The errors of opening, and of `prepare`.
    pub(crate) fn repo(
        &self,
        prepare: impl FnOnce(Repository) -> Result<Repository>,
    ) -> Result<Arc<Repository>> {
        // Read before opening, so that later changes are noticed by the next call.
        let superblock = Superblock::of(&self.location.dir);
        let lettings = {
            let mut kept = lock(&self.kept);
            kept.see(superblock.clone(), &self.memory);
            if let (Some(held), Some(superblock)) = (&kept.handle, &superblock)
                && held.is_current(superblock)
            {
                return Ok(Arc::clone(&held.repo));
            }
            kept.handle = None;
            kept.lettings
        };
        let repo = Arc::new(prepare(open(&self.location)?)?);
        let Some(superblock) = superblock.filter(|_| !repo.store().has_distant()) else {
            return Ok(repo);
        };
        let mut kept = lock(&self.kept);
        if kept.lettings == lettings {
            repo.store().keep_contents(CONTENT_BYTES);
            let (operation, opened) = (repo.refs().operation, Instant::now());
            kept.handle = Some(Held { repo: Arc::clone(&repo), superblock, operation, opened });
            if kept.ends_thread.is_none() {
                let (sender, ended) = channel();
                let of_thread = (Arc::downgrade(&self.kept), Arc::clone(&self.memory));
                let (thread, dir) = (thread::Builder::new(), self.location.dir.clone());
                // Without the thread an old handle is dropped by the next call.
                if thread.spawn(move || drop_old(&of_thread.0, &of_thread.1, &dir, &ended)).is_ok()
                {
                    kept.ends_thread = Some(sender);
                }
            }
        }
        Ok(repo)
    }

    /// Drops the handle: the next call reopens the store.
    pub(crate) fn let_go(&self) {
        let mut kept = lock(&self.kept);
        kept.handle = None;
        kept.lettings += 1;
    }
}

impl Held {
    /// Returns true if the handle belongs to the store now at this path, and has read all of its
    /// commits.
    fn is_current(&self, superblock: &Superblock) -> bool {
        let refreshed = Arc::strong_count(&self.repo) == 1
            && self.opened.elapsed() < OLD
            && self.superblock == *superblock
            && self.repo.refresh().is_ok();
        // The branch named by the environment was looked up among the branches of that operation.
        refreshed
            && !self.repo.store().has_distant()
            && (!has_own_branch() || self.repo.refs().operation == self.operation)
    }
}

impl Kept {
    /// Records the current superblock, and drops the data in memory if it differs. If a search uses
    /// the index, does not wait for it: the index is dropped at the next check.
    fn see(&mut self, superblock: Option<Superblock>, memory: &Memory) {
        if self.seen == superblock {
            return;
        }
        memory.sessions.clear();
        if memory.index.try_clear() {
            self.seen = superblock;
        }
    }
}

impl Superblock {
    /// Reads the superblock of the store in `dir`, if possible.
    fn of(dir: &Path) -> Option<Self> {
        let file = open_regular(&dir.join(SUPERBLOCK)).ok()?;
        let (device, inode) = FileFacts::of(&file).ok()?.identity;
        let mut bytes = Vec::new();
        file.take(MAX_SUPERBLOCK).read_to_end(&mut bytes).ok()?;
        Some(Self { device, inode, bytes })
    }
}

/// Drops an old handle, and data derived from an earlier superblock, as long as the server runs.
fn drop_old(kept: &Weak<Mutex<Kept>>, memory: &Memory, dir: &Path, ended: &Receiver<()>) {
    while ended.recv_timeout(OLD) == Err(RecvTimeoutError::Timeout) {
        let Some(kept) = kept.upgrade() else { return };
        let mut kept = lock(&kept);
        kept.see(Superblock::of(dir), memory);
        if kept.handle.as_ref().is_some_and(|held| held.opened.elapsed() >= OLD) {
            kept.handle = None;
        }
    }
}

fn lock(kept: &Mutex<Kept>) -> MutexGuard<'_, Kept> {
    kept.lock().unwrap_or_else(PoisonError::into_inner)
}
