//! Records the promises of a store, and checks that it keeps them.
//!
//! A [`Promise`] is the attempts and acknowledgements that a [`Witness`] of the run has recorded.
//! [`Promise::check`] opens a disk, usually after a crash or a failure, and asserts;
//! [`Promise::check_repository`] does the same with an open store:
//!
//! 1. every acknowledged change of refs is in the operation log at the acknowledged position, and
//!    the log has no gap, no operation that was not attempted, and none that was refused;
//! 2. every ref is at its last acknowledged value, or at a later attempted one;
//! 3. every turn reachable from a ref reads as written, with its whole context; only content that a
//!    policy allowed to expire when a collection was attempted is missing, and it is reported as
//!    expired;
//! 4. an unacknowledged change exists completely or not at all;
//! 5. `fsck` finds no damage and no loss;
//! 6. opening again shows the same;
//! 7. a new commit succeeds, and survives the next crash.
//!
//! [`Script`] and [`Sessions`] are runs that report to a witness: of raw commits, and of users'
//! actions.

mod log;
mod script;
mod sessions;
mod turns;

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use bytes::Bytes;
use turntree::maintenance::fsck;
use turntree::object::{Kind, ObjectId, ObjectSource, Time};
use turntree::repo::Repository;
use turntree::store::{Committed, Expected, FindingKind, Io, NewStore, Store, Thoroughness};
use turntree::{ErrorKind, Result};

pub use self::script::{KEY, Script, blob, options, pack, pack_as, set};
pub use self::sessions::{PURPOSES, Sessions, Step};
pub use self::turns::Turn;

use crate::sim::{Keep, SimDisk};

/// The directory of the store on a simulated disk.
pub const DIR: &str = "/disk/store";

/// The prefix of the reasons of operations that a witness knows. The number of the attempt follows.
const REASON: &str = "attempt ";

/// The attempts and acknowledgements, in order.
#[derive(Debug, Clone, Default)]
pub struct Promise {
    /// True if the creation of the store was acknowledged.
    pub created: bool,
    /// Every attempted change of refs.
    pub attempts: Vec<Attempt>,
    /// Every attempted turn, by the message of its commit.
    pub turns: BTreeMap<String, Arc<Turn>>,
    /// The turns whose content a collection may have elided.
    pub expired: BTreeSet<String>,
    /// True if a collection was attempted, which may free unreachable objects.
    pub collected: bool,
    /// True if forgetting operations was attempted.
    pub forgot_operations: bool,
    /// The state of the redaction, of which there is at most one.
    pub redaction: Redaction,
    /// How often users opened the store.
    pub handles: u64,
    /// True if calls to the disk fail: then a handle may report an unreadable object as damaged.
    pub may_fail: bool,
    /// The messages of returned errors.
    pub errors: Vec<String>,
}

/// The state of a redaction.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Default)]
pub enum Redaction {
    /// Not attempted.
    #[default]
    None,
    /// Attempted.
    Tried,
    /// Acknowledged.
    Done,
}

/// An attempted change of refs. The reason of its operation contains its number in the promise.
#[derive(Debug, Clone, Default)]
pub struct Attempt {
    /// The target of each ref by full name. `None` deletes the ref.
    pub changes: BTreeMap<String, Option<Target>>,
    /// The blobs of the attempt. Other attempts may have blobs that begin with `s` too.
    pub objects: Vec<(ObjectId, Bytes)>,
    /// Set if the store acknowledged the attempt.
    pub acknowledged: Option<Committed>,
    /// True if the store reported that nothing happened.
    pub refused: bool,
}

/// The target of a ref.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Target {
    /// An object.
    Object(ObjectId),
    /// A turn, by the message of its commit. The ref may point to it through a tag.
    Turn(String),
    /// A policy that keeps this number of turns.
    KeepLast(u64),
    /// A record that a session was forgotten.
    Forgotten,
}

impl Attempt {
    /// An attempt to change these refs.
    pub fn new<'a>(changes: impl IntoIterator<Item = (&'a str, Option<Target>)>) -> Self {
        let changes = changes.into_iter().map(|(name, target)| (name.to_owned(), target));
        Self { changes: changes.collect(), ..Self::default() }
    }
}

/// Records attempts and acknowledgements, and can be read at any moment of a run.
#[derive(Debug, Clone, Default)]
pub struct Witness(Arc<Mutex<Promise>>);

impl Witness {
    /// A witness with an earlier promise.
    #[must_use]
    pub fn of(promise: Promise) -> Self {
        Self(Arc::new(Mutex::new(promise)))
    }

    /// Returns the promise so far.
    #[must_use]
    pub fn promise(&self) -> Promise {
        self.lock().clone()
    }

    fn promise_len(&self) -> usize {
        self.lock().attempts.len()
    }

    fn lock(&self) -> MutexGuard<'_, Promise> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Changes the promise.
    pub fn tell<T>(&self, change: impl FnOnce(&mut Promise) -> T) -> T {
        change(&mut self.lock())
    }

    /// Changes the promise by reading a store. A read may write the missing ids of an archive, and
    /// a watcher of the disk locks the promise at each write, so the ids are written before.
    pub fn tell_of<T>(&self, repo: &Repository, change: impl FnOnce(&mut Promise) -> T) -> T {
        // A failure here repeats at the next read.
        let _ = repo.contains(&ObjectId::of(Kind::Blob, b"in no store"));
        self.tell(change)
    }

    /// Attempts a change of refs. `commit` gets the reason that its operation must have.
    ///
    /// # Panics
    /// If the store reports damage.
    pub fn attempt(
        &self,
        attempt: Attempt,
        commit: impl FnOnce(String) -> Result<Committed>,
    ) -> Option<Committed> {
        // Recorded before the attempt: a crash may interrupt it.
        let number = self.tell(|promise| {
            promise.attempts.push(attempt);
            promise.attempts.len() - 1
        });
        let committed = commit(format!("{REASON}{number}"));
        self.tell(|promise| {
            let Some(attempt) = promise.attempts.get_mut(number) else { return };
            attempt.acknowledged = committed.as_ref().ok().copied();
            attempt.refused = committed.as_ref().is_err_and(|error| error.kind() != ErrorKind::Io);
        });
        self.note(committed)
    }

    /// Records an error.
    ///
    /// # Panics
    /// If the store reports damage, since nothing damaged it.
    pub fn note<T>(&self, result: Result<T>) -> Option<T> {
        match result {
            Ok(value) => Some(value),
            Err(error) => {
                self.tell(|promise| {
                    let is_damage = error.kind() == ErrorKind::Corrupt;
                    assert!(promise.may_fail || !is_damage, "{error:?}");
                    promise.errors.push(error.to_string());
                });
                None
            }
        }
    }
}

impl Promise {
    /// Asserts that `disk` keeps this promise, also after another commit and crash.
    ///
    /// # Panics
    /// If the disk does not keep it.
    pub fn check(&self, disk: &SimDisk) {
        let io: Arc<dyn Io> = Arc::new(disk.clone());
        let Some(repo) = self.open(&io, 1 << 32) else {
            Store::create(&*io, Path::new(DIR), &NewStore { id: [6; 16] }).unwrap();
            return;
        };
        self.check_repository(&repo);
        let mut settled = self.clone();
        settled.settle(&repo);
        let again = settled.open(&io, 2 << 32).unwrap();
        assert_eq!((repo.refs(), repo.findings()), (again.refs(), again.findings()));
        let witness = Witness::of(settled);
        commit_after(again.store(), &witness).unwrap();
        drop((repo, again));
        let crashed: Arc<dyn Io> = Arc::new(disk.crash(Keep::Nothing));
        let promise = witness.promise();
        let last = promise.open(&crashed, 3 << 32).unwrap();
        promise.check_log(&last);
        promise.check_turns(&last);
        promise.check_objects(last.store());
    }

    /// Asserts that a disk without a crash keeps this promise. Unacknowledged changes may still get
    /// lost.
    ///
    /// # Panics
    /// If the disk does not keep it.
    pub fn check_as_it_is(&self, disk: &SimDisk) {
        let io: Arc<dyn Io> = Arc::new(disk.clone());
        let Some(repo) = self.open(&io, 1 << 32) else { return };
        self.check_repository(&repo);
        let witness = Witness::of(self.clone());
        commit_after(repo.store(), &witness).unwrap();
        drop(repo);
        witness.promise().check(&disk.crash(Keep::Nothing));
    }

    /// Opens the promised store. Returns `None` if no store was promised and none exists.
    ///
    /// # Panics
    /// If the promised store does not open.
    #[must_use]
    pub fn open(&self, io: &Arc<dyn Io>, seed: u64) -> Option<Repository> {
        match Repository::open(Arc::clone(io), Path::new(DIR), options(seed)) {
            Ok(repo) => Some(repo),
            Err(error) if self.created => panic!("an acknowledged store does not open: {error:?}"),
            Err(_) => None,
        }
    }

    /// Asserts points 1 to 5 of a store on any disk. Its view is that of the last open or refresh:
    /// no other process may change the store during the check.
    ///
    /// # Panics
    /// If the store breaks the promise.
    pub fn check_repository(&self, repo: &Repository) {
        let findings = repo.findings();
        let damage = findings.iter().find(|finding| finding.kind == FindingKind::Damage);
        assert_eq!(damage, None, "nothing was damaged");
        self.check_log(repo);
        self.check_turns(repo);
        self.check_objects(repo.store());
        let report = fsck(repo, Thoroughness::Full, Time::default(), &mut |_, _| {});
        let report = report.unwrap();
        assert!(report.is_ok(), "fsck: {:#?}", report.findings);
    }

    /// Checks points 1 and 4 for the blobs of raw commits.
    fn check_objects(&self, store: &Store) {
        for attempt in &self.attempts {
            let own = attempt.objects.iter().filter(|(_, bytes)| bytes[0] != b's');
            let mut there: Vec<bool> =
                own.map(|(id, _)| store.read(id).unwrap().is_some()).collect();
            there.dedup();
            assert!(there.len() <= 1, "half of it: {attempt:?}");
            if attempt.acknowledged.is_some() {
                for (id, bytes) in &attempt.objects {
                    let object = store.read(id).unwrap().map(|object| object.bytes);
                    assert_eq!(object.as_ref(), Some(bytes), "lost of {attempt:?}");
                }
            }
        }
    }
}

/// Commits another blob with a ref to it.
pub fn commit_after(store: &Store, witness: &Witness) -> Option<Committed> {
    let text = format!("after {}", witness.promise_len());
    let (id, object) = blob(text.into_bytes());
    let name = "refs/after/commit";
    let attempt = Attempt {
        objects: vec![(id, object.bytes.clone())],
        ..Attempt::new([(name, Some(Target::Object(id)))])
    };
    witness.attempt(attempt, |reason| {
        let draft = turntree::store::OperationDraft { reason, ..set(name, Expected::Any, id) };
        store.commit(vec![(id, object)], &draft)
    })
}
