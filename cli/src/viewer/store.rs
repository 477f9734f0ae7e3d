//! The store of the server, watched for commits of other processes.
//!
//! The operating system reports changed files of the store. After a report, and periodically in
//! case reports are lost, the handle looks for new operations, which costs a few reads of file
//! metadata. Listeners receive the sessions whose branches have moved.

use std::collections::BTreeSet;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

use tokio::sync::mpsc::{Receiver, Sender, channel};
use turntree::repo::{BranchName, Repository, SESSION_REFS};
use turntree::store::RefTable;
use turntree_exchange::{KnownSessions, MemoryIndex};

use super::known_briefs::KnownBriefs;
use super::waiting::KnownExpiries;
use crate::loopback::Part;
use crate::porcelain::read::explorations::Spent;
use crate::porcelain::read::prices::Prices;
use crate::program::held_store::HeldStore;
use crate::program::invocation::Location;
use crate::program::store_watch::StoreWatch;
use crate::view::error::{Failure, Result};

/// The interval after which listeners receive a sign of life.
const STILL: Duration = Duration::from_secs(10);

/// The minimum time between two reported changes.
const REST: Duration = Duration::from_millis(100);

/// Changes that a listener may leave unread. A slower listener is disconnected and must reconnect.
const UNREAD: usize = 64;

/// Sent to a listener that may have missed a change: anything may have changed.
const ANYTHING: &str = "{\"sessions\":null}\n";

/// An open store, and the listeners to its changes.
pub(super) struct WatchedStore {
    store: HeldStore,
    listeners: Mutex<Vec<Sender<Part>>>,
    briefs: KnownBriefs,
    expiries: KnownExpiries,
    /// What explorations have spent; read from the first question on.
    spent: Mutex<Option<Spent>>,
}

impl WatchedStore {
    pub(super) fn new(location: Location) -> Self {
        let store = HeldStore::new(location);
        Self {
            store,
            listeners: Mutex::default(),
            briefs: KnownBriefs::default(),
            expiries: KnownExpiries::default(),
            spent: Mutex::default(),
        }
    }

    /// Returns the store with all commits so far, like [`HeldStore::repo`].
    pub(super) fn repo(&self) -> Result<Arc<Repository>> {
        self.store.repo(Ok)
    }

    /// The word index in memory, for searches.
    pub(super) fn index(&self) -> &MemoryIndex {
        self.store.index()
    }

    /// The known sessions.
    pub(super) fn sessions(&self) -> &KnownSessions {
        self.store.sessions()
    }

    /// The known briefs of sessions.
    pub(super) fn briefs(&self) -> &KnownBriefs {
        &self.briefs
    }

    /// The known sessions that expire soon.
    pub(super) fn expiries(&self) -> &KnownExpiries {
        &self.expiries
    }

    /// Uses the known spending of explorations.
    pub(super) fn with_spent<T>(&self, work: impl FnOnce(&mut Spent) -> Result<T>) -> Result<T> {
        let mut spent = lock(&self.spent);
        let spent = match &mut *spent {
            Some(spent) => spent,
            unread => unread.insert(Spent::new(Prices::of(None)?.table)),
        };
        work(spent)
    }

    /// Closes the open store if an answer found damage, so that the next answer sees a repaired
    /// store.
    pub(super) fn heed<T>(&self, answered: Result<T>) -> Result<T> {
        if answered.as_ref().is_err_and(Failure::is_corrupt) {
            self.store.let_go();
        }
        answered
    }

    /// Returns a channel with all changes from now on.
    pub(super) fn subscribe(&self) -> Receiver<Part> {
        let (sender, receiver) = channel(UNREAD);
        // Sent first, because something may have changed before the listener subscribed.
        let _ = sender.try_send(Part::Bytes(ANYTHING.into()));
        lock(&self.listeners).push(sender);
        receiver
    }

    /// Starts a thread that watches the store and reports changes from now on to listeners, until
    /// the process ends.
    pub(super) fn watch(self: &Arc<Self>) {
        let (store, watch) = (Arc::clone(self), StoreWatch::of(&self.store.location().dir));
        // Opened here: a thread that starts late would miss what changed after the first
        // subscription.
        let first = self.repo().ok();
        thread::spawn(move || store.look_on(&watch, first));
    }

    fn look_on(self: &Arc<Self>, watch: &StoreWatch, first: Option<Arc<Repository>>) {
        let mut seen = first.as_ref().map(|repo| repo.refs());
        if let Some(repo) = first {
            // Reads all sessions in advance, so that the first search or filter need not wait.
            // Errors are reported to the request that needs them.
            let store = Arc::clone(self);
            thread::spawn(move || drop(store.sessions().table(&repo)));
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
                    // While other processes commit continuously, several changes are reported
                    // together.
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

/// The sessions whose branches, titles or labels differ.
fn moved(before: &RefTable, after: &RefTable) -> String {
    let differs = |one: &RefTable, other: &RefTable| {
        let names = one.values.iter().filter(|(name, value)| other.values.get(name) != Some(value));
        names.filter_map(|(name, _)| session_of(name)).collect::<Vec<_>>()
    };
    let sessions: BTreeSet<String> =
        differs(before, after).into_iter().chain(differs(after, before)).collect();
    format!("{}\n", serde_json::json!({ "sessions": sessions }))
}

/// The session of a ref.
fn session_of(name: &str) -> Option<String> {
    let labelled = || name.strip_prefix(SESSION_REFS).map(str::to_owned);
    BranchName::from_full(name).map(|branch| branch.session().to_owned()).or_else(labelled)
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
