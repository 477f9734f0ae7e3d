//! Compare-and-swap of refs by many concurrent processes and threads, checked against a model.
//!
//! Threads that share a handle, threads with their own handles and processes change a few refs of
//! one store on a real disk, at random and without waiting for each other, while everything is
//! packed repeatedly. Sometimes many handles are opened and closed at the same time, and leave more
//! idle segments than stay idle; then a handle continues that has been open and idle since the
//! start. Each notes the start and end of every call on the monotonic clock of the system, which
//! all processes share. Afterwards the [`history`] is checked.

pub mod history;
mod worker;

use std::io::{BufRead, BufReader, Write};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread;

use turntree::ErrorKind;
use turntree::maintenance::{Purpose, collect};
use turntree::repo::Repository;
use turntree::store::{NewStore, RealIo, Store, Tier};

use self::history::{Calls, Event, Witness};
pub use self::worker::main;
use super::{Effort, Figures, Repeat};
use crate::oracle::options;
use crate::sim::Random;
use crate::stamp;

/// Threads that share a handle, threads with their own handle, and processes.
const SHARING: u64 = 3;
const ALONE: u64 = 2;
const PROCESSES: u64 = 3;

/// The calls of each in a history. Their sum stays below the number of operations that are kept.
const CALLS: u64 = 60;

/// Handles that stay idle until a collection and a crowd of later handles have finished. The crowd
/// is larger than the number of segments that stay idle.
const SLEEPERS: u64 = 3;
const CROWD: u64 = 11;

/// Two in this many histories have them, since the collector shares its handle in every second one.
/// They are slow: the disk syncs every collection and commit.
const CROWDED_ONE_IN: u64 = 20;

/// Histories at scale 1.
const HISTORIES: u64 = 100;

/// The first argument of a worker process.
pub const WORKER: &str = "worker-linear";

/// Checks histories of a real store.
///
/// # Panics
/// If a history is not linear.
#[must_use]
pub fn run(effort: &Effort) -> Figures {
    let mut random = Random(effort.seed);
    let mut sum = Calls::default();
    let (mut overlapping, mut collections) = (0, 0);
    for number in 0..HISTORIES * effort.scale {
        let seed = random.draw();
        let _repeat =
            Repeat(format!("history {number}, seed {seed}, as far as the system plays along"));
        let (history, witness, collected) = record(&effort.programs.prove, seed, number);
        let calls = witness.check(&history);
        let unclaimed = witness.unclaimed(&history);
        assert!(unclaimed.is_empty(), "no process did {unclaimed:?}");
        sum.committed += calls.committed;
        sum.refused += calls.refused;
        sum.reads += calls.reads;
        overlapping += count_overlapping(&history);
        collections += collected;
    }
    let mut figures = Figures::default();
    figures.add("histories", HISTORIES * effort.scale);
    figures.add("threads and processes in each", SHARING + ALONE + PROCESSES);
    let crowded = HISTORIES * effort.scale * 2 / CROWDED_ONE_IN;
    figures.add("handles that slept over a collection", crowded * SLEEPERS);
    figures.add("handles opened and closed during it", crowded * SLEEPERS * CROWD);
    figures.add("commits", sum.committed);
    figures.add("lost races", sum.refused);
    figures.add("reads", sum.reads);
    figures.add("calls that overlapped another call", overlapping);
    figures.add("collections during it", collections);
    figures
}

/// Records one history of a new store. Returns it with the order that the store recorded, and the
/// number of collections, by a shared handle or by the collector's own.
fn record(prove: &Path, seed: u64, history: u64) -> (Vec<Event>, Witness, u64) {
    let (shares, is_crowded) = (history.is_multiple_of(2), history % CROWDED_ONE_IN < 2);
    let folder = tempfile::tempdir().expect("a temporary folder");
    let dir = folder.path().join("store");
    Store::create(&RealIo, &dir, &NewStore { id: [4; 16] }).expect("a new store");
    let open = |n: u64| {
        let opened = Repository::open(Arc::new(RealIo), &dir, options(seed ^ n));
        opened.expect("the store opens")
    };
    let shared = open(0);
    let others = (1..=ALONE).map(open).collect::<Vec<_>>();
    let handles = (0..SHARING).map(|_| &shared).chain(&others);
    let mut children: Vec<Child> =
        (0..PROCESSES).map(|n| start(prove, &dir, seed ^ (100 + n))).collect();
    let sleepers: Vec<Repository> = (300..300 + SLEEPERS).map(open).collect();
    let collector = Collector::default();
    let history = thread::scope(|threads| {
        let collects = threads.spawn(|| match shares {
            true => collector.work(&shared),
            false => collector.work(&open(2000)),
        });
        // They have opened the store, and wait for this line.
        for child in &mut children {
            let input = child.stdin.as_mut().expect("a pipe");
            input.write_all(b"\n").expect("a process that waits");
        }
        let mut workers = Vec::new();
        for (number, handle) in (200..).zip(handles) {
            let store = handle.store();
            workers.push(threads.spawn(move || worker::work(store, seed ^ number, CALLS)));
        }
        if is_crowded {
            workers.push(threads.spawn(|| visit(&collector, &sleepers, seed, &open)));
        }
        let mut history: Vec<Event> = Vec::new();
        for worker in workers {
            history.extend(worker.join().expect("a thread that ends"));
        }
        history.extend(children.into_iter().flat_map(results));
        collector.done.store(true, Ordering::Relaxed);
        collects.join().expect("a thread that ends");
        history
    });
    (history, Witness::of(open(1000).store()), collector.collections())
}

fn start(prove: &Path, dir: &Path, seed: u64) -> Child {
    let mut command = Command::new(prove);
    command.arg(WORKER).arg(dir).args([seed.to_string(), CALLS.to_string()]);
    command.stdin(Stdio::piped()).stdout(Stdio::piped());
    command.spawn().expect("the program prove")
}

fn results(mut child: Child) -> Vec<Event> {
    let output = child.stdout.take().expect("a pipe");
    let lines = BufReader::new(output).lines().map(|line| line.expect("a line"));
    let events = lines.map(|line| worker::parse(&line).expect("a line of a worker")).collect();
    assert!(child.wait().expect("a process").success());
    events
}

/// Wakes one handle after the other, each after a collection and a crowd of other handles.
fn visit(
    collector: &Collector,
    sleepers: &[Repository],
    seed: u64,
    open: &dyn Fn(u64) -> Repository,
) -> Vec<Event> {
    let mut history = Vec::new();
    for (sleeper, number) in sleepers.iter().zip(400..) {
        let _still = collector.hold_after_another();
        let first = number << 8;
        // All open before the first closes, so each has its own segment.
        let crowd: Vec<Repository> = (first..first + CROWD).map(open).collect();
        for (passer, number) in crowd.iter().zip(first..) {
            history.extend(worker::work(passer.store(), seed ^ number, 1));
        }
        drop(crowd);
        history.push(worker::change(sleeper.store(), &mut Random(seed ^ number)));
        // A new handle knows only the content of the disk.
        history.push(worker::read(open(number).store()));
    }
    history
}

/// Packs everything repeatedly, and can be held.
#[derive(Debug, Default)]
struct Collector {
    done: AtomicBool,
    is_wanted: AtomicBool,
    collections: Mutex<u64>,
}

impl Collector {
    fn work(&self, repo: &Repository) {
        // Also set on a panic: another thread may wait for it.
        let _ends = Ends(&self.done);
        let purposes = [Purpose::Repack(Tier::Hot), Purpose::Gc];
        for purpose in purposes.into_iter().cycle() {
            if self.done.load(Ordering::Relaxed) {
                break;
            }
            while self.is_wanted.load(Ordering::Relaxed) {
                thread::yield_now();
            }
            let mut collections = self.lock();
            match collect(repo, purpose, &stamp(2), &mut |_| {}) {
                Ok(_) => *collections += 1,
                // Concurrent commits can keep it from getting a stable view.
                Err(error) => assert_eq!(error.kind(), ErrorKind::Locked, "{error}"),
            }
        }
    }

    /// Waits for a collection that starts after this call, and blocks others until the guard is
    /// dropped.
    fn hold_after_another(&self) -> MutexGuard<'_, u64> {
        let before = self.collections();
        while self.collections() == before && !self.done.load(Ordering::Relaxed) {
            thread::yield_now();
        }
        self.is_wanted.store(true, Ordering::Relaxed);
        let held = self.lock();
        self.is_wanted.store(false, Ordering::Relaxed);
        held
    }

    fn collections(&self) -> u64 {
        *self.lock()
    }

    fn lock(&self) -> MutexGuard<'_, u64> {
        self.collections.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Sets the flag when dropped.
struct Ends<'a>(&'a AtomicBool);

impl Drop for Ends<'_> {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Relaxed);
    }
}

/// The number of calls that began before an earlier call ended.
fn count_overlapping(history: &[Event]) -> usize {
    let mut times: Vec<(u64, u64)> = history.iter().map(|e| (e.began, e.ended)).collect();
    times.sort_unstable();
    let mut latest = 0;
    let mut overlaps = |(began, ended): &(u64, u64)| {
        let overlap = *began < latest;
        latest = latest.max(*ended);
        overlap
    };
    times.iter().filter(|times| overlaps(times)).count()
}
