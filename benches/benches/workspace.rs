//! Benchmarks snapshots of a workspace of 100,000 files, unchanged and with ten changed files.
//! Compares them with one `lstat` per file on all processors, and with `git add -A && git commit`
//! of the same files.
//!
//! The files are created once, in the target directory, and kept. With `--test` there are 2,000.

use std::fs;
use std::hint::black_box;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use criterion::{BatchSize, Criterion, criterion_group, criterion_main};
use turntree::context::{Builder, Context};
use turntree::repo::{BranchName, Repository, SnapshotDraft};
use turntree::store::{NewStore, OpenOptions, RealIo};
use turntree::workspace::{CaptureOptions, CaptureReport, StatCache, capture};
use turntree_benches::run::is_test;
use turntree_benches::store::stamp;
use turntree_benches::text::Text;

/// The target directory, whose file system is on disk. `/tmp` is often in memory.
const FOLDER: &str = env!("CARGO_TARGET_TMPDIR");

const FILES_PER_FOLDER: usize = 100;

/// Lines per file.
const LINES: usize = 20;

/// Typical ignore rules of a project.
const RULES: &str = "target/\nnode_modules/\n*.o\n*.log\n.cache\n/dist\n**/tmp/*\n!keep.log\n";

/// Number of changed files.
const CHANGES: usize = 10;

/// Number of rounds, each with one measurement of each kind.
const ROUNDS: usize = 25;

/// A duration that exceeds the clock resolution of any file system.
const CLOCK_STEP: Duration = Duration::from_millis(100);

struct Workspace {
    dir: PathBuf,
    files: Vec<PathBuf>,
    repo: Repository,
    edits: AtomicU64,
}

impl Workspace {
    fn new() -> Self {
        let folders = if is_test() { 20 } else { 1_000 };
        let top = Path::new(FOLDER).join(format!("workspace-{folders}"));
        let (dir, store) = (top.join("work"), top.join("store"));
        let files: Vec<PathBuf> =
            (0..folders * FILES_PER_FOLDER).map(|at| file(&dir, at)).collect();
        if files.last().is_none_or(|last| !last.exists()) {
            make(&dir, &files);
        }
        if store.exists() {
            fs::remove_dir_all(&store).expect("removed");
        }
        let options = OpenOptions::new([3; 16]);
        let new = NewStore { id: [7; 16] };
        let repo = Repository::init(Arc::new(RealIo), &store, &new, options).expect("a store");
        Self { dir, files, repo, edits: AtomicU64::new(0) }
    }

    /// Takes a whole durable snapshot, like the command.
    fn snapshot(&self) -> CaptureReport {
        let branch = BranchName::main("bench").expect("a name");
        let cache = StatCache::open(&self.repo, &self.dir).expect("a cache");
        let mut change = self.repo.begin();
        let parent = match change.tip(&branch) {
            Some(tip) => self.repo.context(&tip).expect("a context"),
            None => Context::default(),
        };
        let mut builder = Builder::from(parent.clone());
        let options = CaptureOptions { cache: Some(&cache), ..CaptureOptions::default() };
        let captured = capture(&mut change, &parent, &mut builder, &self.dir, &options);
        let captured = captured.expect("captured");
        let tree = builder.write(&mut change).expect("written");
        change.snapshot(&branch, SnapshotDraft::new(tree, "", &stamp(0))).expect("a snapshot");
        change.commit(&stamp(0), "snapshot").expect("durable");
        cache.save(&captured, &self.repo, &tree).expect("kept");
        captured
    }

    /// Changes the content of some files.
    fn edit(&self) {
        let edit = self.edits.fetch_add(1, Ordering::Relaxed);
        for path in self.files.iter().step_by(self.files.len() / CHANGES).take(CHANGES) {
            fs::write(path, format!("edit {edit} of {}", path.display())).expect("written");
        }
    }

    fn git(&self) {
        git(&self.dir, &["add", "-A"]);
        git(&self.dir, &["commit", "-q", "--allow-empty", "-m", "snapshot"]);
    }

    /// Calls `lstat` on each file, on all processors.
    fn look_at_all(&self) -> u64 {
        let threads = thread::available_parallelism().map_or(2, usize::from);
        let share = self.files.len().div_ceil(threads);
        let bytes = |files: &[PathBuf]| -> u64 {
            files.iter().map(|path| fs::symlink_metadata(path).expect("a file").len()).sum()
        };
        thread::scope(|scope| {
            let shares: Vec<_> =
                self.files.chunks(share).map(|files| scope.spawn(move || bytes(files))).collect();
            shares.into_iter().map(|share| share.join().expect("looked")).sum()
        })
    }
}

fn file(dir: &Path, at: usize) -> PathBuf {
    let folder = at / FILES_PER_FOLDER;
    let (package, module) = (folder / 25, folder % 25);
    dir.join(format!("package-{package:02}/module-{module:02}/source-{at:06}.rs"))
}

fn make(dir: &Path, files: &[PathBuf]) {
    if dir.exists() {
        fs::remove_dir_all(dir).expect("removed");
    }
    let mut text = Text::new(1);
    for path in files {
        fs::create_dir_all(path.parent().expect("a folder")).expect("made");
        let program: String = (0..LINES).map(|_| text.code_line() + "\n").collect();
        fs::write(path, program).expect("written");
    }
    fs::write(dir.join(".gitignore"), RULES).expect("written");
    git(dir, &["init", "-q"]);
    git(dir, &["config", "user.name", "bench"]);
    git(dir, &["config", "user.email", "bench@localhost"]);
    git(dir, &["config", "gc.auto", "0"]);
}

fn git(dir: &Path, args: &[&str]) {
    let status = Command::new("git").arg("-C").arg(dir).args(args).status().expect("git runs");
    assert!(status.success(), "git {args:?}");
}

fn workspace(criterion: &mut Criterion) {
    let workspace = Workspace::new();
    let files = workspace.files.len();
    let started = Instant::now();
    assert_eq!(workspace.snapshot().read, files as u64 + 1);
    let first = started.elapsed();
    workspace.git();
    // From now on no file is new enough to be racy, and the cache records all of them as unchanged.
    thread::sleep(CLOCK_STEP);
    workspace.snapshot();
    assert_eq!(workspace.snapshot().read, 0);
    report(&format!("first snapshot of {files} files: {first:.2?}"));

    in_turns(&workspace);

    let mut group = criterion.benchmark_group(format!("workspace of {files} files"));
    group.sample_size(20);
    group.bench_function("lstat of each", |bencher| {
        bencher.iter(|| black_box(workspace.look_at_all()));
    });
    group.bench_function("snapshot, unchanged", |bencher| {
        bencher.iter(|| assert_eq!(workspace.snapshot().changed, 0));
    });
    group.bench_function(format!("snapshot, {CHANGES} changed"), |bencher| {
        let snapshot = |()| assert_eq!(workspace.snapshot().changed, CHANGES as u64);
        bencher.iter_batched(|| workspace.edit(), snapshot, BatchSize::PerIteration);
    });
    workspace.git();
    group.sample_size(10);
    group.bench_function("git add and commit, unchanged", |bencher| {
        bencher.iter(|| workspace.git());
    });
    group.bench_function(format!("git add and commit, {CHANGES} changed"), |bencher| {
        bencher.iter_batched(|| workspace.edit(), |()| workspace.git(), BatchSize::PerIteration);
    });
    group.finish();
}

/// Measures all kinds in each round, so that other load of the machine affects all kinds equally.
fn in_turns(workspace: &Workspace) {
    let rounds = if is_test() { 1 } else { ROUNDS };
    let mut times: [Vec<Duration>; 5] = Default::default();
    for _ in 0..rounds {
        let round = [
            time(|| assert!(workspace.look_at_all() > 0)),
            time(|| drop(workspace.snapshot())),
            time(|| workspace.git()),
            {
                workspace.edit();
                time(|| drop(workspace.snapshot()))
            },
            time(|| workspace.git()),
        ];
        // Wait for the clock, so that the next round finds no racy files.
        thread::sleep(CLOCK_STEP);
        workspace.snapshot();
        times.iter_mut().zip(round).for_each(|(times, time)| times.push(time));
    }
    let [look, same, git_same, changed, git_changed] = times.map(|mut times| {
        times.sort_unstable();
        let median = times.get(times.len() / 2).copied().unwrap_or_default();
        (times.first().copied().unwrap_or_default(), median)
    });
    let ratio =
        |one: (_, Duration), other: (_, Duration)| one.1.as_secs_f64() / other.1.as_secs_f64();
    report(&format!("in turns, best and median: lstat of each {look:.1?}"));
    report(&format!(
        "unchanged: snapshot {same:.1?}, {:.2} times lstat; git {git_same:.1?}, {:.2} times that",
        ratio(same, look),
        ratio(git_same, same)
    ));
    report(&format!(
        "{CHANGES} changed: snapshot {changed:.1?}, {:.2} times lstat; git {git_changed:.1?}, {:.2} times \
         that",
        ratio(changed, look),
        ratio(git_changed, changed)
    ));
}

fn time(work: impl FnOnce()) -> Duration {
    let started = Instant::now();
    work();
    started.elapsed()
}

#[expect(clippy::print_stderr, reason = "criterion measures time only")]
fn report(line: &str) {
    eprintln!("{line}");
}

criterion_group!(benches, workspace);
criterion_main!(benches);
