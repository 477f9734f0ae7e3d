//! The store of the server, watched for what others commit.
//!
//! The system tells when a file of the store changes. Then, and now and then in case it does not tell,
//! the handle looks for new operations, which costs a few looks at files; who listens is told the
//! sessions whose branches have moved.

use std::collections::BTreeSet;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

use tokio::sync::mpsc::{Receiver, Sender, channel};
use turntree::repo::{BranchName, Repository, SESSION_REFS};
use turntree::store::RefTable;
use turntree_exchange::{KnownSessions, MemoryIndex};

use super::lines::Part;
use crate::program::held_store::HeldStore;
use crate::program::invocation::Location;
use crate::program::store_watch::StoreWatch;
use crate::view::error::{Failure, Result};

/// The time after which a listener hears that the server is there.
const STILL: Duration = Duration::from_secs(10);

/// The time from one change that is told to the next.
const REST: Duration = Duration::from_millis(100);

/// Changes that a listener may leave unread: one that leaves more has to come again.
const UNREAD: usize = 64;

/// Told to who may have missed something: everything may have changed.
const ANYTHING: &str = "{\"sessions\":null}\n";

/// A store that is held open, and who hears of its changes.
pub(super) struct WatchedStore {
    store: HeldStore,
    listeners: Mutex<Vec<Sender<Part>>>,
}

impl WatchedStore {
    pub(super) fn new(location: Location) -> Self {
        Self { store: HeldStore::new(location), listeners: Mutex::default() }
    }

    /// The store with everything that was committed to it, as [`HeldStore::repo`] has it.
    pub(super) fn repo(&self) -> Result<Arc<Repository>> {
        self.store.repo(Ok)
    }

    /// The index of words in memory, for searches.
    pub(super) fn index(&self) -> &MemoryIndex {
        self.store.index()
    }

    /// What is known of sessions.
    pub(super) fn sessions(&self) -> &KnownSessions {
        self.store.sessions()
    }

    /// Lets go of what is open, if an answer found damage: it may be mended by the next one.
    pub(super) fn heed<T>(&self, answered: Result<T>) -> Result<T> {
        if answered.as_ref().is_err_and(Failure::is_corrupt) {
            self.store.let_go();
        }
        answered
    }

    /// Lets somebody hear of changes from now on.
    pub(super) fn subscribe(&self) -> Receiver<Part> {
        let (sender, receiver) = channel(UNREAD);
        // Before anything else, since something may have changed before it came.
        let _ = sender.try_send(Part::Bytes(ANYTHING.into()));
        lock(&self.listeners).push(sender);
        receiver
    }

    /// Watches the store and tells listeners of what changes, for as long as this process lives.
    pub(super) fn watch(self: &Arc<Self>) {
        let (store, watch) = (Arc::clone(self), StoreWatch::of(&self.store.location().dir));
        thread::spawn(move || store.look_on(&watch));
    }

    fn look_on(self: &Arc<Self>, watch: &StoreWatch) {
        let first = self.repo().ok();
        let mut seen = first.as_ref().map(|repo| repo.refs());
        if let Some(repo) = first {
            // So that the first search or filter need not wait; what goes wrong is told to who asks.
            let store = Arc::clone(self);
            thread::spawn(move || drop(store.sessions().newest(&repo, usize::MAX)));
        }
        let mut heard = Instant::now();
        loop {
            watch.wait();
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
                Some(line) => {
                    self.tell(&line);
                    // While others commit all the time, pages are told of several at once.
                    thread::sleep(REST);
                }
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

/// The sessions whose branches are others than before, or whose titles and labels.
fn moved(before: &RefTable, after: &RefTable) -> String {
    let differs = |one: &RefTable, other: &RefTable| {
        let names =
            one.values.iter().filter(|(name, value)| other.values.get(*name) != Some(value));
        names.filter_map(|(name, _)| session_of(name)).collect::<Vec<_>>()
    };
    let sessions: BTreeSet<String> =
        differs(before, after).into_iter().chain(differs(after, before)).collect();
    format!("{}\n", serde_json::json!({ "sessions": sessions }))
}

/// The session that a ref says something of.
fn session_of(name: &str) -> Option<String> {
    let labelled = || name.strip_prefix(SESSION_REFS).map(str::to_owned);
    BranchName::from_full(name).map(|branch| branch.session().to_owned()).or_else(labelled)
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
