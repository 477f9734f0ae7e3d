//! The store of a server, held open between the calls that only look.
//!
//! Opening a store reads its journal and the indexes of its packs, which costs more than most questions
//! do. So the handle of a call is kept for the next one, which only looks for what others have committed
//! since. It is opened anew where that may not be enough:
//!
//! - The superblock is another file, or has other bytes: another store has its name, or it has other keys.
//! - The epoch is another one, which lies in the same file: a collection or a redaction took files away.
//! - A call found damage: the files may have been mended since they were opened.
//! - Another call uses the handle: the refs must not move under that.
//! - It is the store of a lazy clone, of which parts lie elsewhere: always.
//! - It is older than [`OLD`]: a handle keeps the space of files that are gone.
//!
//! The contents that searches have read go with the handle. Beside it is kept what calls have made of what they
//! read: summaries of sessions, and the index of words that was made in memory, as of an encrypted store. It
//! goes as soon as the superblock is seen to be another one: a redaction takes its words out of memory.
//!
//! A call that may change something opens a handle of its own. So a handle that is kept never owns a
//! segment, and never keeps a collection from one.

use std::io::Read;
use std::os::unix::fs::MetadataExt;
use std::path::Path;
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};
use std::thread;
use std::time::{Duration, Instant};

use turntree::object::ObjectId;
use turntree::repo::Repository;
use turntree::workspace::open_regular;
use turntree_exchange::{KnownSessions, MemoryIndex};

use super::invocation::{Location, has_own_branch, open};
use crate::view::error::Result;

/// The file that every store has: what it is, and its epoch.
const SUPERBLOCK: &str = "superblock";

/// Bytes of it that are looked at: all, of every version.
const MAX_SUPERBLOCK: u64 = 16 << 10;

/// The age from which on a handle is not used any more. One that nobody asks is dropped before it is
/// twice as old.
const OLD: Duration = Duration::from_secs(30);

/// Most bytes of contents that the handle keeps from one search to the next: those of a thousand turns.
const CONTENT_BYTES: usize = 24 << 20;

/// A store that is opened when it is first asked for, and stays open.
#[derive(Debug)]
pub(crate) struct HeldStore {
    location: Location,
    kept: Arc<Mutex<Kept>>,
    memory: Arc<Memory>,
}

/// What was read of a store, beside its handle.
#[derive(Debug, Default)]
struct Memory {
    index: MemoryIndex,
    sessions: KnownSessions,
}

#[derive(Debug, Default)]
struct Kept {
    handle: Option<Held>,
    /// The superblock that was seen last: what is in memory was read under it, or later.
    seen: Option<Superblock>,
    /// How often a handle was let go of: one that is opened meanwhile is not kept.
    lettings: u64,
    /// The thread that drops a handle which grows old ends with this.
    ends_thread: Option<Sender<()>>,
}

/// A handle, and what the store was when it was opened.
#[derive(Debug)]
struct Held {
    repo: Arc<Repository>,
    superblock: Superblock,
    operation: Option<ObjectId>,
    opened: Instant,
}

/// A superblock: which file it is, and its bytes.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Superblock {
    device: u64,
    inode: u64,
    bytes: Vec<u8>,
}

impl HeldStore {
    /// The store at a place. Nothing is opened yet.
    pub(crate) fn new(location: Location) -> Self {
        Self { location, kept: Arc::default(), memory: Arc::default() }
    }

    /// The place of the store.
    pub(crate) fn location(&self) -> &Location {
        &self.location
    }

    /// The index of words in memory, for searches that look.
    pub(crate) fn index(&self) -> &MemoryIndex {
        &self.memory.index
    }

    /// What is known of sessions.
    pub(crate) fn sessions(&self) -> &KnownSessions {
        &self.memory.sessions
    }

    /// The store with everything that was committed to it, to look at. Costs some looks at files; where
    /// it is opened, what that costs. A handle that was opened is given to `prepare`, and is kept as that
    /// returns it.
    ///
    /// # Errors
    /// Those of opening, and of `prepare`.
    pub(crate) fn repo(
        &self,
        prepare: impl FnOnce(Repository) -> Result<Repository>,
    ) -> Result<Arc<Repository>> {
        // Before anything is opened: what changes from here on is noticed the next time.
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
                // Without it a handle is dropped when somebody asks next.
                if thread.spawn(move || drop_old(&of_thread.0, &of_thread.1, &dir, &ended)).is_ok()
                {
                    kept.ends_thread = Some(sender);
                }
            }
        }
        Ok(repo)
    }

    /// Lets go of the handle: the next call opens the store anew.
    pub(crate) fn let_go(&self) {
        let mut kept = lock(&self.kept);
        kept.handle = None;
        kept.lettings += 1;
    }
}

impl Held {
    /// Returns whether the handle is of the store that is there now, and has seen all of it.
    fn is_current(&self, superblock: &Superblock) -> bool {
        let refreshed = Arc::strong_count(&self.repo) == 1
            && self.opened.elapsed() < OLD
            && self.superblock == *superblock
            && self.repo.store().refresh().is_ok();
        // The branch that the environment names was looked for among those that there were.
        refreshed
            && !self.repo.store().has_distant()
            && (!has_own_branch() || self.repo.refs().operation == self.operation)
    }
}

impl Kept {
    /// Notes the superblock as it is now, and drops what is in memory if it is another one. While a search
    /// uses the index nobody waits for it: it is dropped at the next look.
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
    /// The superblock of the store in `dir`, if it can be read.
    fn of(dir: &Path) -> Option<Self> {
        let file = open_regular(&dir.join(SUPERBLOCK)).ok()?;
        let found = file.metadata().ok()?;
        let mut bytes = Vec::new();
        file.take(MAX_SUPERBLOCK).read_to_end(&mut bytes).ok()?;
        Some(Self { device: found.dev(), inode: found.ino(), bytes })
    }
}

/// Drops a handle that has grown old, and what is in memory of what the store was before, as long as there
/// is a server.
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
