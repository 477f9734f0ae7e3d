//! The store of a server: held open between questions, and watched for what others commit.
//!
//! The system tells when a file of the store changes. Then, and now and then in case it does not tell,
//! the handle looks for new operations, which costs a few looks at files; who listens is told the
//! sessions whose branches have moved.

use std::collections::BTreeSet;
use std::fs;
use std::os::unix::fs::MetadataExt;
use std::sync::mpsc::{Receiver as Changes, RecvTimeoutError, sync_channel};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

use notify::event::ModifyKind::Metadata;
use notify::{Event, EventKind, RecommendedWatcher, RecursiveMode, Watcher};
use tokio::sync::mpsc::{Receiver, Sender, channel};
use turntree::Error;
use turntree::repo::{BranchName, Repository};
use turntree::store::RefTable;

use super::lines::Part;
use crate::program::invocation::{Location, open};
use crate::view::error::Result;

/// The folder of a store that every commit writes to.
const JOURNAL: &str = "journal";

/// The file that every store has.
const SUPERBLOCK: &str = "superblock";

/// The time after which the store is looked at though nothing was told.
const LOOK: Duration = Duration::from_secs(1);

/// The time after which a listener hears that the server is there.
const STILL: Duration = Duration::from_secs(10);

/// Changes that a listener may leave unread: one that leaves more has to come again.
const UNREAD: usize = 64;

/// Told to who may have missed something: everything may have changed.
const ANYTHING: &str = "{\"sessions\":null}\n";

/// A store, opened when it is first asked for.
pub(super) struct HeldStore {
    location: Location,
    held: Mutex<Option<Held>>,
    listeners: Mutex<Vec<Sender<Part>>>,
}

/// An open store, and the file by which another one in its place is known.
struct Held {
    repo: Arc<Repository>,
    file: (u64, u64),
}

impl HeldStore {
    pub(super) fn new(location: Location) -> Self {
        Self { location, held: Mutex::default(), listeners: Mutex::default() }
    }

    /// The store with everything that was committed to it. Costs some looks at files, and opening it
    /// when it is not open yet, or was replaced.
    pub(super) fn repo(&self) -> Result<Arc<Repository>> {
        let superblock = self.location.dir.join(SUPERBLOCK);
        let mut held = lock(&self.held);
        let file = fs::metadata(&superblock).map(|found| (found.dev(), found.ino()));
        if let (Some(held), Ok(file)) = (&*held, &file)
            && held.file == *file
            && held.repo.store().refresh().is_ok()
        {
            return Ok(Arc::clone(&held.repo));
        }
        // Moved away, replaced, or under other keys: who opens it anew is told.
        *held = None;
        let repo = Arc::new(open(&self.location)?);
        let file =
            file.map_err(|error| Error::io(format!("open {}", superblock.display()), error))?;
        *held = Some(Held { repo: Arc::clone(&repo), file });
        Ok(repo)
    }

    /// Lets somebody hear of changes from now on.
    pub(super) fn subscribe(&self) -> Receiver<Part> {
        let (sender, receiver) = channel(UNREAD);
        // Before anything else, since something may have changed before it came.
        let _ = sender.try_send(Part::Bytes(ANYTHING.into()));
        lock(&self.listeners).push(sender);
        receiver
    }

    /// Watches the store, as long as what is returned is kept.
    pub(super) fn watch(self: &Arc<Self>) -> Option<RecommendedWatcher> {
        let (tell, changes) = sync_channel(1);
        let told = move |event: notify::Result<Event>| {
            if event.is_ok_and(|event| !is_change(&event)) {
                return;
            }
            // Full: a change is known already.
            let _ = tell.try_send(());
        };
        let store = Arc::clone(self);
        thread::spawn(move || store.look_on(&changes));
        let mut watcher = notify::recommended_watcher(told).ok()?;
        for folder in [self.location.dir.join(JOURNAL), self.location.dir.clone()] {
            // What is not watched is looked at now and then.
            let _ = watcher.watch(&folder, RecursiveMode::NonRecursive);
        }
        Some(watcher)
    }

    /// Tells listeners of what changes, for as long as this process lives.
    fn look_on(&self, changes: &Changes<()>) {
        let mut seen = self.repo().ok().map(|repo| repo.refs());
        let mut heard = Instant::now();
        loop {
            if changes.recv_timeout(LOOK) == Err(RecvTimeoutError::Disconnected) {
                thread::sleep(LOOK);
            }
            if lock(&self.listeners).is_empty() {
                continue;
            }
            let now = self.repo().ok().map(|repo| repo.refs());
            let line = match (&seen, &now) {
                (Some(seen), Some(now)) if seen.operation == now.operation => None,
                (Some(seen), Some(now)) => Some(moved(seen, now)),
                (None, None) => None,
                _ => Some(ANYTHING.to_owned()),
            };
            seen = now;
            match line {
                Some(line) => self.tell(&line),
                None if heard.elapsed() >= STILL => self.tell("\n"),
                None => continue,
            }
            heard = Instant::now();
        }
    }

    fn tell(&self, line: &str) {
        let bytes = bytes::Bytes::from(line.to_owned());
        lock(&self.listeners).retain(|one| one.try_send(Part::Bytes(bytes.clone())).is_ok());
    }
}

/// The sessions whose branches are others than before.
fn moved(before: &RefTable, after: &RefTable) -> String {
    let differs = |one: &RefTable, other: &RefTable| {
        let names =
            one.values.iter().filter(|(name, value)| other.values.get(*name) != Some(value));
        let sessions = names.filter_map(|(name, _)| BranchName::from_full(name));
        sessions.map(|branch| branch.session().to_owned()).collect::<Vec<_>>()
    };
    let sessions: BTreeSet<String> =
        differs(before, after).into_iter().chain(differs(after, before)).collect();
    format!("{}\n", serde_json::json!({ "sessions": sessions }))
}

/// Returns whether an event may be a commit. Reading a file is none.
fn is_change(event: &Event) -> bool {
    event.need_rescan()
        || !matches!(event.kind, EventKind::Access(_) | EventKind::Modify(Metadata(_)))
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
