//! A machine with its own store, and its uses of a remote.

use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use turntree::context::MessagePolicy;
use turntree::object::ObjectId;
use turntree::repo::{BranchName, Repository};
use turntree::store::{Io, IoFile, NewStore, OpenOptions, Steps};
use turntree::transfer::remote::{
    Bucket, CheckDepth, Checked, CollectOptions, Collected, DeletedSession, Fetched, Followed, Hex,
    Line, PushOptions, Pushed, Remote, RemoteId, make_remote,
};
use turntree::{Error, Result};

use crate::sim::{Random, SimDisk};
use crate::{commit_note, no_tools, stamp};

/// The remote of the tests.
pub const REMOTE: RemoteId = Hex([7; 16]);

/// The name of the remote on every machine.
pub const ORIGIN: &str = "origin";

/// A store on its own disk, and a client of a bucket.
#[derive(Debug)]
pub struct Machine<B> {
    /// The store.
    pub repo: Repository,
    /// The client of the bucket.
    pub bucket: B,
    /// True if it fetches only the ends of large bundles.
    pub lazy: bool,
    disk: SimDisk,
    spool: SimDisk,
    number: u64,
    drawn: AtomicU64,
}

/// The directory of every store.
const DIR: &str = "/disk/store";

impl<B: Bucket> Machine<B> {
    /// A machine with an empty store. `number` is the seed of its random choices.
    ///
    /// # Panics
    /// If the store cannot be created.
    #[must_use]
    pub fn new(number: u64, bucket: B) -> Self {
        let (disk, seed) = (SimDisk::new(Path::new("/disk")), number.to_le_bytes().repeat(2));
        let seed: [u8; 16] = seed.try_into().unwrap_or_default();
        let (new, options) = (NewStore { id: seed }, OpenOptions::new(seed));
        let io = Arc::new(disk.clone());
        let repo = Repository::init(io, Path::new(DIR), &new, options).expect("a new store");
        let spool = SimDisk::new(Path::new("/spool"));
        Self { repo, bucket, lazy: false, disk, spool, number, drawn: AtomicU64::new(0) }
    }

    /// Reopens the machine after its process died, with another client of the bucket.
    ///
    /// # Panics
    /// If the store does not open.
    #[must_use]
    pub fn again(self, bucket: B) -> Self {
        let Self { repo, lazy, disk, spool, number, drawn, .. } = self;
        drop(repo);
        let mut seed = [0xff; 16];
        seed[..8].copy_from_slice(&drawn.load(Ordering::Relaxed).to_le_bytes());
        let (io, options) = (Arc::new(disk.clone()), OpenOptions::new(seed));
        let repo = Repository::open(io, Path::new(DIR), options).expect("the store opens");
        Self { repo, bucket, lazy, disk, spool, number, drawn }
    }

    /// Another process of the same machine, with its own client of the bucket.
    ///
    /// # Panics
    /// If the store does not open.
    #[must_use]
    pub fn beside<C: Bucket>(&self, number: u64, bucket: C) -> Machine<C> {
        let (disk, spool, lazy) = (self.disk.clone(), SimDisk::new(Path::new("/spool")), self.lazy);
        let seed: [u8; 16] = number.to_le_bytes().repeat(2).try_into().unwrap_or_default();
        let (io, options) = (Arc::new(disk.clone()), OpenOptions::new(seed));
        let repo = Repository::open(io, Path::new(DIR), options).expect("the store opens");
        Machine { repo, bucket, lazy, disk, spool, number, drawn: AtomicU64::new(0) }
    }

    /// Commits a turn on a branch.
    pub fn turn(&self, branch: &BranchName, text: &str) -> ObjectId {
        let second = i64::try_from(self.drawn.fetch_add(1, Ordering::Relaxed)).unwrap_or_default();
        let key = format!("{}-{second}", self.number);
        commit_note(&self.repo, branch, (&key, text), &stamp(second))
    }

    /// Commits a turn on a branch with 10 KB that do not compress: too large for later pushes to
    /// merge into their bundles.
    pub fn large_turn(&self, branch: &BranchName) -> ObjectId {
        let mut random = Random(self.number << 32 | self.drawn.load(Ordering::Relaxed));
        let text: String = (0..1_250).map(|_| format!("{:016x}", random.draw())).collect();
        self.turn(branch, &text)
    }

    /// Runs `work` on the remote.
    ///
    /// # Errors
    /// Errors of `work`.
    pub fn with<T>(&self, work: impl FnOnce(&Remote<'_>) -> Result<T>) -> Result<T> {
        let draw = || {
            let drawn = self.drawn.fetch_add(1, Ordering::Relaxed);
            let mut bytes = [0; 16];
            bytes[..8].copy_from_slice(&self.number.to_be_bytes());
            bytes[8..].copy_from_slice(&drawn.to_be_bytes());
            bytes
        };
        let spool = || -> Result<Arc<dyn IoFile>> {
            let path = format!("/spool/{}", Hex(draw()));
            self.spool.create(Path::new(&path)).map_err(|error| Error::io("spool", error))
        };
        work(&Remote {
            repo: &self.repo,
            name: ORIGIN,
            id: REMOTE,
            bucket: &self.bucket,
            lazy: self.lazy,
            stamp: &stamp(1),
            random: &draw,
            spool: &spool,
        })
    }

    /// Creates the remote, retrying until the bucket confirms it.
    ///
    /// # Panics
    /// If it never does.
    pub fn make(&self) {
        let made = (0..100).find_map(|_| make_remote(&self.bucket, REMOTE, &stamp(1)).ok());
        assert_eq!(made, Some(REMOTE), "the remote is made");
    }

    /// Pushes all branches of a session.
    ///
    /// # Errors
    /// Errors of the push.
    pub fn push(&self, session: &str) -> Result<Pushed> {
        self.push_as(session, false)
    }

    /// Pushes a session that was deleted on the remote.
    ///
    /// # Errors
    /// Errors of the push.
    pub fn revive(&self, session: &str) -> Result<Pushed> {
        self.push_as(session, true)
    }

    fn push_as(&self, session: &str, is_revived: bool) -> Result<Pushed> {
        let options = PushOptions { branches: None, is_revived, check: &|_, _| Ok(()) };
        self.with(|remote| remote.push(session, options))
    }

    /// Deletes a session on the remote.
    ///
    /// # Errors
    /// Errors of the deletion.
    pub fn delete(&self, session: &str) -> Result<DeletedSession> {
        self.with(|remote| remote.delete_session(session))
    }

    /// Checks all contents of the remote.
    ///
    /// # Errors
    /// Errors of the check.
    pub fn check(&self) -> Result<Checked> {
        self.with(|remote| remote.check(CheckDepth::Contents))
    }

    /// Rewrites every head.
    ///
    /// # Errors
    /// Errors of the remote.
    pub fn renew_heads(&self) -> Result<u64> {
        #[expect(clippy::redundant_closure_for_method_calls, reason = "of any lifetime")]
        self.with(|remote| remote.renew_heads())
    }

    /// Deletes unreachable bundles of the remote.
    ///
    /// # Errors
    /// Errors of the collection.
    pub fn collect(&self, options: CollectOptions) -> Result<Collected> {
        self.with(|remote| remote.collect(options))
    }

    /// Folds bundles of a session, if it is due.
    ///
    /// # Errors
    /// Errors of the push.
    pub fn fold(&self, session: &str) -> Result<bool> {
        self.with(|remote| remote.fold(session))
    }

    /// Fetches a session.
    ///
    /// # Errors
    /// Errors of the fetch.
    pub fn fetch(&self, session: &str) -> Result<Option<Fetched>> {
        self.with(|remote| remote.fetch(session))
    }

    /// Fetches everything.
    ///
    /// # Errors
    /// Errors of the fetch.
    ///
    /// # Panics
    /// If the changed sessions are not counted.
    pub fn fetch_all(&self) -> Result<Vec<Fetched>> {
        let (mut all, steps) = (Vec::new(), Steps::default());
        self.with(|remote| remote.fetch_all(&steps, &mut |fetched| all.push(fetched.clone())))?;
        let (done, known) = steps.count();
        assert!(done == known && done >= all.len() as u64, "{done} of {known} sessions");
        Ok(all)
    }

    /// Fetches the remote-only objects.
    ///
    /// # Errors
    /// Errors of the fetch.
    pub fn fetch_whole(&self) -> Result<u64> {
        #[expect(clippy::redundant_closure_for_method_calls, reason = "of any lifetime")]
        self.with(|remote| remote.fetch_whole())
    }

    /// Moves the branches of a session to those of the remote.
    ///
    /// # Errors
    /// Errors of the merge.
    pub fn follow(&self, session: &str) -> Result<Vec<Followed>> {
        self.with(|remote| remote.follow(session, &MessagePolicy::Append, &no_tools))
    }

    /// True if the branch on the remote, as far as this machine knows, has a turn.
    #[must_use]
    pub fn knows(&self, branch: &BranchName, id: &ObjectId) -> bool {
        let there = self.repo.remote_branches(ORIGIN, Some(branch.session()));
        let there = there.into_iter().find(|(name, _)| name == branch);
        there.is_some_and(|(_, there)| {
            self.with(|remote| remote.line(id, &there))
                .is_ok_and(|line| matches!(line, Line::Same | Line::Behind))
        })
    }
}
