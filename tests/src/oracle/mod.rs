//! What a store promises, and whether it keeps the promise.
//!
//! A [`Promise`] is what was tried and what was acknowledged, as a [`Witness`] of the run has noted
//! it. [`Promise::check`] opens a disk, usually one that has crashed or failed on the way, and
//! asserts; [`Promise::check_repository`] does the same with any store that is open:
//!
//! 1. every acknowledged change of refs is in the operation log, where it was acknowledged, and the
//!    log has no gap and nothing that was not tried or was refused;
//! 2. every ref is at its last acknowledged value, or a later one that was tried;
//! 3. every turn that a ref leads to reads as it was written, all of its context; what is missing is
//!    only what a policy allowed to expire when a collection was tried, and says that it has expired;
//! 4. what was not acknowledged is there wholly or not at all;
//! 5. `fsck` finds nothing damaged or lost;
//! 6. opening again shows the same;
//! 7. a new commit succeeds, and survives the next crash.
//!
//! [`Script`] and [`Sessions`] are runs that tell a witness: of raw commits, and of what users do.

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

/// What the reasons of operations begin with that a witness knows; the number of the attempt follows.
const REASON: &str = "attempt ";

/// What was tried and acknowledged, in order.
#[derive(Debug, Clone, Default)]
pub struct Promise {
    /// Whether making the store was acknowledged.
    pub created: bool,
    /// Every change of refs that was tried.
    pub attempts: Vec<Attempt>,
    /// Every turn that was tried, by the message of its commit.
    pub turns: BTreeMap<String, Arc<Turn>>,
    /// Turns whose content a collection may have dropped.
    pub expired: BTreeSet<String>,
    /// Whether a collection was tried, which may drop what no ref leads to.
    pub collected: bool,
    /// Whether it was tried to forget operations.
    pub forgot_operations: bool,
    /// What became of the one redaction there may be.
    pub redaction: Redaction,
    /// How often users opened the store.
    pub handles: u64,
    /// Whether calls to the disk fail: then a handle may call damaged what it could not read.
    pub may_fail: bool,
    /// Errors that were returned, in words.
    pub errors: Vec<String>,
}

/// What became of a redaction.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Default)]
pub enum Redaction {
    /// There was none.
    #[default]
    None,
    /// It was tried.
    Tried,
    /// It was acknowledged.
    Done,
}

/// One change of refs that was tried. Its number in the promise is in the reason of its operation.
#[derive(Debug, Clone, Default)]
pub struct Attempt {
    /// What it sets refs to, by their full names; nothing to delete one.
    pub changes: BTreeMap<String, Option<Target>>,
    /// Blobs that come with it; those that begin with an `s` come with others too.
    pub objects: Vec<(ObjectId, Bytes)>,
    /// Present when the store acknowledged it.
    pub acknowledged: Option<Committed>,
    /// Whether the store said that nothing happened.
    pub refused: bool,
}

/// What a ref leads to.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Target {
    /// An object.
    Object(ObjectId),
    /// A turn, by the message of its commit; perhaps through a tag.
    Turn(String),
    /// A policy that keeps so many turns.
    KeepLast(u64),
    /// A note that a session was forgotten.
    Forgotten,
}

impl Attempt {
    /// An attempt to change these refs.
    pub fn new<'a>(changes: impl IntoIterator<Item = (&'a str, Option<Target>)>) -> Self {
        let changes = changes.into_iter().map(|(name, target)| (name.to_owned(), target));
        Self { changes: changes.collect(), ..Self::default() }
    }
}

/// Somebody who notes what was tried and acknowledged, and can be asked at any moment of a run.
#[derive(Debug, Clone, Default)]
pub struct Witness(Arc<Mutex<Promise>>);

impl Witness {
    /// A witness who knows this already.
    #[must_use]
    pub fn of(promise: Promise) -> Self {
        Self(Arc::new(Mutex::new(promise)))
    }

    /// What was promised up to now.
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

    /// Changes what is known.
    pub fn tell<T>(&self, change: impl FnOnce(&mut Promise) -> T) -> T {
        change(&mut self.lock())
    }

    /// Changes what is known by what a store says. Reading it may write the ids of an archive without
    /// them, and who watches the disk asks for the promise at each write, so they are written before.
    pub fn tell_of<T>(&self, repo: &Repository, change: impl FnOnce(&mut Promise) -> T) -> T {
        // What fails here fails again where something is read.
        let _ = repo.store().contains(&ObjectId::of(Kind::Blob, b"in no store"));
        self.tell(change)
    }

    /// Tries a change of refs: `commit` is given the reason that its operation must have.
    ///
    /// # Panics
    /// When the store says that it is damaged.
    pub fn attempt(
        &self,
        attempt: Attempt,
        commit: impl FnOnce(String) -> Result<Committed>,
    ) -> Option<Committed> {
        // Noted before it is tried: a crash may come in the middle.
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

    /// Notes an error.
    ///
    /// # Panics
    /// When the store says that it is damaged: nobody has damaged it.
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
    /// Asserts that `disk` keeps this promise, and goes on doing so after one more commit and crash.
    ///
    /// # Panics
    /// When it does not.
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
        assert_eq!(
            (repo.refs(), repo.store().findings()),
            (again.refs(), again.store().findings())
        );
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

    /// Asserts that a disk without a crash keeps this promise: what was not acknowledged may still
    /// get lost.
    ///
    /// # Panics
    /// When it does not.
    pub fn check_as_it_is(&self, disk: &SimDisk) {
        let io: Arc<dyn Io> = Arc::new(disk.clone());
        let Some(repo) = self.open(&io, 1 << 32) else { return };
        self.check_repository(&repo);
        let witness = Witness::of(self.clone());
        commit_after(repo.store(), &witness).unwrap();
        drop(repo);
        witness.promise().check(&disk.crash(Keep::Nothing));
    }

    /// The store that was promised; nothing when none was and none is there.
    ///
    /// # Panics
    /// When it does not open.
    #[must_use]
    pub fn open(&self, io: &Arc<dyn Io>, seed: u64) -> Option<Repository> {
        match Repository::open(Arc::clone(io), Path::new(DIR), options(seed)) {
            Ok(repo) => Some(repo),
            Err(error) if self.created => panic!("an acknowledged store does not open: {error:?}"),
            Err(_) => None,
        }
    }

    /// Asserts points 1 to 5 of a store, on whatever disk it is. It is as it was when it was opened
    /// or refreshed last: nobody may be at work on it meanwhile.
    ///
    /// # Panics
    /// When it breaks the promise.
    pub fn check_repository(&self, repo: &Repository) {
        let findings = repo.store().findings();
        let damage = findings.iter().find(|finding| finding.kind == FindingKind::Damage);
        assert_eq!(damage, None, "nothing was damaged");
        self.check_log(repo);
        self.check_turns(repo);
        self.check_objects(repo.store());
        let report = fsck(repo.store(), Thoroughness::Full, Time::default(), &mut |_, _| {});
        let report = report.unwrap();
        assert!(report.is_ok(), "fsck: {:#?}", report.findings);
    }

    /// Points 1 and 4 of the blobs that came with raw commits.
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

/// One more commit, of a blob that a ref leads to.
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
