//! Several processes of one machine and a remote: each works while another waits for the bucket.

use std::ops::Range;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};

use bytes::Bytes;
use turntree::Result;
use turntree::maintenance::fsck;
use turntree::object::ObjectId;
use turntree::repo::BranchName;
use turntree::store::{ReadAt, Thoroughness};
use turntree::transfer::remote::{Bucket, Got, Key, Page, Put, Version};
use turntree_tests::remote::{Machine, MemoryBucket, MemoryClient, ORIGIN};
use turntree_tests::stamp;

/// The work of another process after a call has its answer and before the caller reads it.
type Work = Box<dyn FnOnce() + Send>;

/// A client of a bucket that runs other work after one of its calls.
#[derive(Clone)]
struct Interrupted {
    bucket: MemoryClient,
    calls: Arc<AtomicU64>,
    work: Arc<Mutex<Option<(u64, Work)>>>,
}

impl std::fmt::Debug for Interrupted {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Interrupted").finish_non_exhaustive()
    }
}

impl Interrupted {
    fn new(bucket: MemoryClient) -> Self {
        Self { bucket, calls: Arc::default(), work: Arc::default() }
    }

    /// Runs `work` after the n-th call from now.
    fn behind(&self, call: u64, work: impl FnOnce() + Send + 'static) {
        let due = self.calls.load(Ordering::Relaxed) + call;
        *self.work.lock().unwrap() = Some((due, Box::new(work)));
    }

    fn answered<T>(&self, answer: T) -> T {
        let call = self.calls.fetch_add(1, Ordering::Relaxed) + 1;
        let mut work = self.work.lock().unwrap();
        let due = work.take_if(|(due, _)| *due == call);
        drop(work);
        if let Some((_, work)) = due {
            work();
        }
        answer
    }
}

impl Bucket for Interrupted {
    fn get(&self, key: &Key, range: Option<Range<u64>>, unless: Option<&Version>) -> Result<Got> {
        self.answered(self.bucket.get(key, range, unless))
    }

    fn put_new(&self, key: &Key, bytes: Bytes) -> Result<Put> {
        self.answered(self.bucket.put_new(key, bytes))
    }

    fn put_over(&self, key: &Key, bytes: Bytes, seen: &Version) -> Result<Put> {
        self.answered(self.bucket.put_over(key, bytes, seen))
    }

    fn upload(&self, key: &Key, from: &dyn ReadAt) -> Result<()> {
        self.answered(self.bucket.upload(key, from))
    }

    fn list(&self, prefix: &str, after: Option<&Key>) -> Result<Page> {
        self.answered(self.bucket.list(prefix, after))
    }

    fn delete(&self, keys: &[Key]) -> Result<()> {
        self.answered(self.bucket.delete(keys))
    }
}

/// A use of the remote by a process.
#[derive(Debug, Clone, Copy)]
enum Deed {
    Push,
    Fold,
    Fetch,
}

impl Deed {
    const ALL: [Self; 3] = [Self::Push, Self::Fold, Self::Fetch];

    fn run<B: Bucket>(self, machine: &Machine<B>) -> Result<()> {
        match self {
            Self::Push => machine.push("s").map(drop),
            Self::Fold => machine.fold("s").map(drop),
            Self::Fetch => machine.fetch("s").map(drop),
        }
    }
}

fn main_branch() -> BranchName {
    BranchName::new("s", "main").unwrap()
}

/// A machine with an unpushed turn that is due to fold, and a remote with an unfetched turn of
/// another machine.
fn prepared() -> (MemoryBucket, Machine<Interrupted>, ObjectId) {
    let bucket = MemoryBucket::new(1);
    let own = Machine::new(1, Interrupted::new(bucket.client()));
    own.make();
    for _ in 0..9 {
        own.large_turn(&main_branch());
        own.push("s").unwrap();
    }
    let other = Machine::new(2, bucket.client());
    other.turn(&BranchName::new("s", "plan").unwrap(), "of another machine");
    other.push("s").unwrap();
    let turn = own.turn(&main_branch(), "to be pushed");
    (bucket, own, turn)
}

/// Checks that all bundles of the session and of the head that a machine knows exist, by fetching
/// them with a new machine.
fn assert_all_there(bucket: &MemoryBucket, turn: Option<&ObjectId>, trace: &str) {
    let fresh = Machine::new(99, bucket.client());
    fresh.fetch_all().unwrap_or_else(|error| panic!("{trace}: {error}"));
    if let Some(turn) = turn {
        assert!(fresh.knows(&main_branch(), turn), "{trace}: the turn was pushed");
    }
    let plan = fresh.repo.remote_branches(ORIGIN, Some("s"));
    assert_eq!(plan.len(), 2, "{trace}: the branch of the other machine");
    let report = fsck(&fresh.repo, Thoroughness::Full, stamp(9).time, &mut |_, _| {});
    assert!(report.unwrap().is_ok(), "{trace}");
}

#[test]
fn concurrent_processes_of_a_machine_cause_no_false_failures() {
    for own_deed in Deed::ALL {
        for other_deed in Deed::ALL {
            let mut calls = u64::MAX;
            for call in 1.. {
                if call > calls {
                    break;
                }
                let trace = format!("{other_deed:?} behind call {call} of {own_deed:?}");
                let (bucket, own, turn) = prepared();
                let beside = own.beside(3, bucket.client());
                let failure = Arc::new(Mutex::new(None));
                let told = Arc::clone(&failure);
                own.bucket.behind(call, move || {
                    *told.lock().unwrap() = other_deed.run(&beside).err();
                });
                let before = own.bucket.calls.load(Ordering::Relaxed);
                own_deed.run(&own).unwrap_or_else(|error| panic!("{trace}: {error}"));
                calls = own.bucket.calls.load(Ordering::Relaxed) - before;
                let failure = failure.lock().unwrap().take();
                assert!(failure.is_none(), "{trace}: {failure:?}");
                let is_pushed =
                    [own_deed, other_deed].iter().any(|deed| matches!(deed, Deed::Push));
                assert_all_there(&bucket, is_pushed.then_some(&turn), &trace);
                // The known head matches the remote: the next push needs no read first.
                own.repo.refresh().unwrap();
                own.turn(&main_branch(), "the next one");
                own.push("s").unwrap_or_else(|error| panic!("{trace}, the next push: {error}"));
            }
        }
    }
}

#[test]
fn slower_processes_do_not_overwrite_newer_known_heads() {
    let (bucket, own, _) = prepared();
    own.fetch("s").unwrap();
    let (other, main) = (Machine::new(4, bucket.client()), main_branch());
    other.fetch("s").unwrap();
    other.follow("s").unwrap();
    let first = other.turn(&main, "first");
    other.push("s").unwrap();
    let beside = own.beside(3, bucket.client());
    let newest = Arc::new(Mutex::new(None));
    let told = Arc::clone(&newest);
    // While the answer is on its way, another process fetches a later head.
    own.bucket.behind(1, move || {
        let second = other.turn(&main, "second");
        other.push("s").unwrap();
        beside.fetch("s").unwrap();
        *told.lock().unwrap() = Some(second);
    });
    own.fetch("s").unwrap();
    let second = newest.lock().unwrap().take().expect("it was interrupted");
    assert!(own.knows(&main_branch(), &first));
    assert!(own.knows(&main_branch(), &second), "its known refs stay");
}
