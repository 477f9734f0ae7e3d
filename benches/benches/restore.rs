//! Benchmarks the restore of ten changed files of a workspace, among 1,000 and among 100,000.
//! Measures the whole restore, which examines every file, and the part after the capture, which
//! handles only the changes.
//!
//! The files are created once, in the target directory, and kept. With `--test` there are 200 and
//! 2,000.

use std::fs;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, Instant};

use criterion::{Criterion, criterion_group, criterion_main};
use turntree::context::{Builder, Context, Selection};
use turntree::object::ObjectId;
use turntree::repo::{BranchName, Repository, SnapshotDraft};
use turntree::store::{NewStore, OpenOptions, RealIo};
use turntree::workspace::{
    CaptureOptions, RewindReport, RewindRequest, StatCache, capture, prepare_rewind,
    workspace_metadata,
};
use turntree_benches::run::is_test;
use turntree_benches::store::stamp;

/// The target directory, whose file system is on disk. `/tmp` is often in memory.
const FOLDER: &str = env!("CARGO_TARGET_TMPDIR");

const FILES_PER_FOLDER: usize = 100;
const CHANGES: usize = 10;
const FILE_BYTES: usize = 1000;

/// A duration that exceeds the clock resolution of any file system.
const CLOCK_STEP: Duration = Duration::from_millis(100);

struct Place {
    dir: PathBuf,
    repo: Repository,
    /// Two states that differ in ten files.
    states: (ObjectId, ObjectId),
}

impl Place {
    fn new(files: usize) -> Self {
        let top = Path::new(FOLDER).join(format!("restore-{files}"));
        let (dir, store) = (top.join("work"), top.join("store"));
        fs::create_dir_all(&dir).expect("made");
        if store.exists() {
            fs::remove_dir_all(&store).expect("removed");
        }
        let options = OpenOptions::new([3; 16]);
        let new = NewStore { id: [7; 16] };
        let repo = Repository::init(Arc::new(RealIo), &store, &new, options).expect("a store");
        let all: Vec<PathBuf> = (0..files).map(|at| path(&dir, at)).collect();
        for (at, path) in all.iter().enumerate() {
            write(path, at, 0);
        }
        std::thread::sleep(CLOCK_STEP);
        let first = snapshot(&repo, &dir);
        for at in (0..CHANGES).map(|change| change * files / CHANGES) {
            write(&path(&dir, at), at, 1);
        }
        std::thread::sleep(CLOCK_STEP);
        let second = snapshot(&repo, &dir);
        Self { dir, repo, states: (first, second) }
    }

    /// Restores the other state. Returns the total time, and the time after the capture.
    fn restore(&self, to: usize) -> (Duration, Duration) {
        let restore = RewindRequest {
            branch: branch(),
            from: if to.is_multiple_of(2) { self.states.0 } else { self.states.1 },
            only: Selection::default(),
            workspace: Some(self.dir.clone()),
            is_rollback: false,
            keep_lessons: false,
            audit: false,
            message: "bench".into(),
        };
        let cache = StatCache::open(&self.repo, &self.dir).expect("a cache");
        let options = CaptureOptions { cache: Some(&cache), ..CaptureOptions::default() };
        let began = Instant::now();
        let prepared = prepare_rewind(&self.repo, &restore, &options, &stamp(0)).expect("a plan");
        let planned = began.elapsed();
        let done = prepared.apply(&stamp(0), "bench").expect("restored");
        let all = began.elapsed();
        check(&done);
        let kept = done.plan.before.expect("a capture");
        cache.save(&kept.captured, &self.repo, &kept.tree).expect("saved");
        (all, all - planned)
    }
}

fn check(done: &RewindReport) {
    let arranged = done.arranged.as_ref().expect("files");
    assert!(arranged.failed.is_empty());
    assert_eq!(arranged.written, CHANGES as u64);
}

fn branch() -> BranchName {
    BranchName::main("bench").expect("a name")
}

fn path(dir: &Path, at: usize) -> PathBuf {
    dir.join(format!("folder-{:04}/file-{at:06}.txt", at / FILES_PER_FOLDER))
}

/// Writes a file unless it already has the content.
fn write(path: &Path, at: usize, version: usize) {
    let content = format!("{at} {version}\n").repeat(FILE_BYTES / 8);
    if fs::read(path).is_ok_and(|found| found == content.as_bytes()) {
        return;
    }
    fs::create_dir_all(path.parent().expect("a folder")).expect("made");
    fs::write(path, content).expect("written");
}

fn snapshot(repo: &Repository, dir: &Path) -> ObjectId {
    let cache = StatCache::open(repo, dir).expect("a cache");
    let mut change = repo.begin();
    let parent = match change.tip(&branch()) {
        Some(tip) => repo.context(&tip).expect("a context"),
        None => Context::default(),
    };
    let mut builder = Builder::from(parent.clone());
    let options = CaptureOptions { cache: Some(&cache), ..CaptureOptions::default() };
    let captured = capture(&mut change, &parent, &mut builder, dir, &options).expect("captured");
    let tree = builder.write(&mut change).expect("written");
    let mut draft = SnapshotDraft::new(tree, "", &stamp(0));
    draft.metadata.extend([workspace_metadata(dir)]);
    let id = change.snapshot(&branch(), draft).expect("a snapshot");
    change.commit(&stamp(0), "snapshot").expect("finished");
    cache.save(&captured, repo, &tree).expect("saved");
    id
}

fn restores(criterion: &mut Criterion) {
    let sizes = if is_test() { [200, 2_000] } else { [1_000, 100_000] };
    let mut group = criterion.benchmark_group("restore_10_changed_files");
    group.sample_size(10);
    for files in sizes {
        let place = Place::new(files);
        let mut turn = 0;
        let mut measure = |which: fn((Duration, Duration)) -> Duration, times: u64| {
            let mut took = Duration::ZERO;
            for _ in 0..times {
                took += which(place.restore(turn));
                turn += 1;
                // Wait for the clock, so that the next capture does not reread the new files as
                // racy.
                std::thread::sleep(CLOCK_STEP);
            }
            took
        };
        group.bench_function(format!("whole/{files}"), |bencher| {
            bencher.iter_custom(|times| measure(|(all, _)| all, times));
        });
        group.bench_function(format!("after_the_plan/{files}"), |bencher| {
            bencher.iter_custom(|times| measure(|(_, rest)| rest, times));
        });
    }
    group.finish();
}

criterion_group!(benches, restores);
criterion_main!(benches);
