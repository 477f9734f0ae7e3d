//! Benchmarks maintenance: marking a large store, repacking a session, and concurrent snapshots.
//!
//! The large store has a million objects. It is created once, in the target directory, and kept.
//! With `--test` it has 20,000.

use std::fs;
use std::hint::black_box;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU8, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use criterion::{BatchSize, Criterion, criterion_group, criterion_main};
use turntree::context::{Builder, MAIN_AGENT, MessageEntry, Role};
use turntree::maintenance::{Purpose, collect, plan_collection, stats};
use turntree::object::{Kind, ObjectSink};
use turntree::repo::{BranchName, Repository, SnapshotDraft};
use turntree::store::{Durability, NewStore, OpenOptions, RealIo, Tier};
use turntree_benches::run::is_test;
use turntree_benches::store::{History, stamp};

/// The target directory, whose file system is on disk. `/tmp` is often in memory.
const FOLDER: &str = env!("CARGO_TARGET_TMPDIR");

/// Number of snapshots that measure the time without concurrent work.
const QUIET_SNAPSHOTS: usize = 300;

/// Number of opened handles.
static HANDLES: AtomicU8 = AtomicU8::new(10);

/// Number of messages per turn of the large store.
const MESSAGES_PER_TURN: usize = 4_000;

fn mark(criterion: &mut Criterion) {
    let messages = if is_test() { 18_000 } else { 920_000 };
    let mut group = criterion.benchmark_group("large store");
    group.sample_size(10);
    let dir = large_store(messages);
    let mut repo = None;
    let opened = peak_kib(|| repo = Some(open(&dir)));
    let repo = repo.expect("a store");
    let objects = repo.summary().expect("a summary").objects;
    let plan = || {
        let purpose = Purpose::Repack(Tier::Hot);
        black_box(plan_collection(&repo, purpose, stamp(0).time).expect("a plan"));
    };
    let count = || {
        black_box(stats(&repo, None, stamp(0).time).expect("statistics"));
    };
    let (marked, counted) = (peak_kib(plan), peak_kib(count));
    report(&format!("memory in KiB: {opened} to open, {marked} to mark, {counted} for stats"));
    group.bench_function(format!("mark of {objects} objects"), |bencher| bencher.iter(plan));
    group.bench_function(format!("stats of {objects} objects"), |bencher| bencher.iter(count));
    group.finish();
}

fn long_session(criterion: &mut Criterion) {
    let turns = if is_test() { 100 } else { 10_000 };
    let history = History::build(Path::new(FOLDER), turns).expect("a history");
    let repo = open(&history.store.path());
    criterion.benchmark_group("large store").sample_size(10).bench_function(
        format!("stats of {turns} turns"),
        |bencher| {
            bencher.iter(|| black_box(stats(&repo, None, stamp(0).time).expect("statistics")));
        },
    );
}

fn repack(criterion: &mut Criterion) {
    let history = History::build(Path::new(FOLDER), 1_000).expect("a history");
    let mut group = criterion.benchmark_group("session of 1,000 turns");
    group.sample_size(10);
    for tier in Tier::ALL {
        group.bench_function(format!("repack, {}", tier.name()), |bencher| {
            bencher.iter_batched(
                || copy(&history),
                |dir| {
                    let repo = open(dir.path());
                    let purpose = Purpose::Repack(tier);
                    black_box(collect(&repo, purpose, &stamp(0), &mut |_| ()).expect("packed"));
                    dir
                },
                BatchSize::PerIteration,
            );
        });
    }
    group.finish();
    for tier in Tier::ALL {
        concurrent_snapshots(&history, tier);
    }
}

/// Takes snapshots while another handle repacks, and reports their times.
fn concurrent_snapshots(history: &History, tier: Tier) {
    let dir = copy(history);
    let (repo, other) = (open(dir.path()), open(dir.path()));
    let mut agent = history.agent.clone();
    let mut recorder = history.fork(&repo, "concurrent").expect("a branch");
    let mut snapshot = || {
        let turn = agent.next_turn();
        let start = Instant::now();
        recorder.record(&turn).expect("a snapshot");
        start.elapsed()
    };
    let quiet: Vec<Duration> = (0..QUIET_SNAPSHOTS).map(|_| snapshot()).collect();
    let is_over = AtomicBool::new(false);
    let (mut busy, mut took) = (Vec::new(), Duration::ZERO);
    thread::scope(|threads| {
        let repacking = threads.spawn(|| {
            let start = Instant::now();
            let purpose = Purpose::Repack(tier);
            collect(&other, purpose, &stamp(0), &mut |_| ()).expect("packed");
            is_over.store(true, Ordering::Release);
            start.elapsed()
        });
        while !is_over.load(Ordering::Acquire) {
            busy.push(snapshot());
        }
        took = repacking.join().expect("the repack ends");
    });
    let name = tier.name();
    report(&format!("snapshots alone: {}", spread(quiet)));
    report(&format!("snapshots during a repack, {name}, of {took:?}: {}", spread(busy)));
}

/// Formats the number, median, 99th percentile and maximum.
fn spread(mut times: Vec<Duration>) -> String {
    times.sort_unstable();
    let at = |part: usize| times.get(times.len() * part / 100).or(times.last()).copied();
    let (median, late, last) = (at(50), at(99), times.last());
    let [median, late, last] = [median, late, last.copied()].map(Option::unwrap_or_default);
    format!("{} took {median:?}, p99 {late:?}, longest {last:?}", times.len())
}

/// Returns a store with a conversation of `messages` short messages. Creates it if it is missing.
fn large_store(messages: usize) -> PathBuf {
    let dir = Path::new(FOLDER).join(format!("large-{messages}"));
    if dir.join("done").exists() {
        return dir.join("store");
    }
    let _ = fs::remove_dir_all(&dir);
    fs::create_dir_all(&dir).expect("a folder");
    let options = OpenOptions { durability: Durability::None, ..OpenOptions::new([3; 16]) };
    let (io, new) = (Arc::new(RealIo), NewStore { id: [7; 16] });
    let repo = Repository::init(io, &dir.join("store"), &new, options).expect("a store");
    let branch = BranchName::main("large").expect("a name");
    let mut builder = Builder::new();
    for first in (0..messages).step_by(MESSAGES_PER_TURN) {
        let mut change = repo.begin();
        for number in first..messages.min(first + MESSAGES_PER_TURN) {
            let text = format!(r#"{{"role":"user","content":"{number}"}}"#);
            let blob = change.write(Kind::Blob, text.into()).expect("staged");
            let entry = MessageEntry::new(blob, Role::User, "json");
            builder.push_message(&mut change, MAIN_AGENT, &entry).expect("pushed");
        }
        let tree = builder.write(&mut change).expect("a context");
        change.snapshot(&branch, SnapshotDraft::new(tree, "", &stamp(1))).expect("a snapshot");
        change.commit(&stamp(1), "snapshot").expect("written");
    }
    fs::write(dir.join("done"), "").expect("a mark");
    dir.join("store")
}

/// Copies the store of a history to a temporary folder.
fn copy(history: &History) -> tempfile::TempDir {
    let folder = tempfile::tempdir_in(FOLDER).expect("a folder");
    copy_folder(&history.store.path(), folder.path());
    folder
}

fn copy_folder(from: &Path, to: &Path) {
    for entry in fs::read_dir(from).expect("a folder").map(|entry| entry.expect("an entry")) {
        let target = to.join(entry.file_name());
        if entry.path().is_dir() {
            fs::create_dir(&target).expect("a folder");
            copy_folder(&entry.path(), &target);
        } else {
            fs::copy(entry.path(), target).expect("a copy");
        }
    }
}

fn open(dir: &Path) -> Repository {
    // Each handle needs a unique name, because several write to the same store.
    let seed = [HANDLES.fetch_add(1, Ordering::Relaxed); 16];
    Repository::open(Arc::new(RealIo), dir, OpenOptions::new(seed)).expect("the store opens")
}

/// Returns the peak memory of `work` in KiB, above the memory in use before and without mapped
/// files. 0 if the system does not report it. Samples every millisecond.
fn peak_kib(work: impl FnOnce()) -> u64 {
    let (before, is_over) = (memory_kib(), AtomicBool::new(false));
    thread::scope(|threads| {
        let watching = threads.spawn(|| {
            let mut peak = 0;
            while !is_over.load(Ordering::Acquire) {
                peak = memory_kib().max(peak);
                thread::sleep(Duration::from_millis(1));
            }
            peak
        });
        work();
        is_over.store(true, Ordering::Release);
        watching.join().unwrap_or_default().saturating_sub(before)
    })
}

fn memory_kib() -> u64 {
    let status = fs::read_to_string("/proc/self/status").unwrap_or_default();
    let line = status.lines().find_map(|line| line.strip_prefix("RssAnon:"));
    line.and_then(|line| line.split_whitespace().next()?.parse().ok()).unwrap_or_default()
}

#[expect(clippy::print_stderr, reason = "a bench reports to its user")]
fn report(line: &str) {
    eprintln!("{line}");
}

criterion_group!(benches, mark, long_session, repack);
criterion_main!(benches);
