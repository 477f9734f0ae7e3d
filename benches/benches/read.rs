//! Benchmarks reads of a session of 10,000 turns: restore, open, diff, log and fork.
//!
//! With `--test` the session has 1,000 turns.

use std::hint::black_box;
use std::path::Path;

use criterion::measurement::WallTime;
use criterion::{BatchSize, BenchmarkGroup, Criterion, criterion_group, criterion_main};
use turntree::context::diff;
use turntree::repo::{BranchName, Repository};
use turntree::store::Durability;
use turntree_benches::run::is_test;
use turntree_benches::store::{History, last_messages, read_everything, stamp};

/// The target directory, whose file system is on disk. `/tmp` is often in memory.
const FOLDER: &str = env!("CARGO_TARGET_TMPDIR");

fn reading(criterion: &mut Criterion) {
    let turns = if is_test() { 1_000 } else { 10_000 };
    let history = History::build(Path::new(FOLDER), turns).expect("a history");
    let mut group = criterion.benchmark_group("session of 10,000 turns");
    group.sample_size(20);
    restore(&mut group, &history);
    open(&mut group, &history);
    walk(&mut group, &history, turns);
    fork(&mut group, &history);
    group.finish();
}

fn reopen(history: &History) -> Repository {
    history.store.open(Durability::Full).expect("the store opens")
}

fn restore(group: &mut BenchmarkGroup<'_, WallTime>, history: &History) {
    // The context at turn 1,000 has about the size of the context of workload M.
    let commit = history.commit(1_000).expect("turn 1,000");
    let repo = reopen(history);
    group.bench_function("restore of turn 1,000, warm", |bencher| {
        bencher.iter(|| black_box(read_everything(&repo, &commit).expect("the context")));
    });
    group.bench_function("restore of turn 1,000, store newly opened", |bencher| {
        bencher.iter_batched(
            || reopen(history),
            |repo| {
                black_box(read_everything(&repo, &commit).expect("the context"));
                repo
            },
            BatchSize::PerIteration,
        );
    });
}

fn open(group: &mut BenchmarkGroup<'_, WallTime>, history: &History) {
    let tip = *history.commits.last().expect("a turn");
    group.bench_function("open", |bencher| {
        bencher.iter_with_large_drop(|| black_box(reopen(history)));
    });
    group.bench_function("open and last 50 messages", |bencher| {
        bencher.iter_with_large_drop(|| {
            let repo = reopen(history);
            black_box(last_messages(&repo, &tip, 50).expect("the messages"));
            repo
        });
    });
}

fn walk(group: &mut BenchmarkGroup<'_, WallTime>, history: &History, turns: usize) {
    let repo = reopen(history);
    let tip = *history.commits.last().expect("a turn");
    let last = repo.context(&tip).expect("the context");
    for (name, turn) in [("of neighbours", turns - 1), ("of turns 1,000 apart", turns - 999)] {
        let other = history.commit(turn).expect("a turn");
        group.bench_function(format!("diff {name}"), |bencher| {
            bencher.iter(|| {
                let other = repo.context(&other).expect("the context");
                black_box(diff(&repo, &other, &last).expect("a diff"))
            });
        });
    }
    group.bench_function("log of 1,000 snapshots", |bencher| {
        bencher.iter(|| {
            let log = repo.history(&[tip], &[]).expect("a log").take(1_000);
            black_box(log.collect::<turntree::Result<Vec<_>>>().expect("the commits"))
        });
    });
}

fn fork(group: &mut BenchmarkGroup<'_, WallTime>, history: &History) {
    let repo = reopen(history);
    let tip = history.commits.last().copied();
    let branch = BranchName::new("bench", "strategy").expect("a name");
    group.bench_function("fork, durable", |bencher| {
        bencher.iter(|| {
            let mut change = repo.begin();
            change.move_branch(&branch, tip);
            black_box(change.commit(&stamp(0), "fork").expect("a fork"))
        });
    });
}

criterion_group!(benches, reading);
criterion_main!(benches);
