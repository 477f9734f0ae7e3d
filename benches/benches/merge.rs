//! Benchmarks the merge of two branches with a few turns each after 1,000 and 10,000 common turns.
//!
//! With `--test` the sessions have 100 turns.

use std::hint::black_box;
use std::path::Path;

use criterion::measurement::WallTime;
use criterion::{BenchmarkGroup, Criterion, criterion_group, criterion_main};
use turntree::context::{MessagePolicy, Selection, diff};
use turntree::repo::{BranchName, MergeKind, MergeRequest, Repository};
use turntree::store::Durability;
use turntree_benches::run::is_test;
use turntree_benches::store::{History, stamp};
use turntree_exchange::formats::tool_use;

/// The target directory, whose file system is on disk. `/tmp` is often in memory.
const FOLDER: &str = env!("CARGO_TARGET_TMPDIR");

fn merging(criterion: &mut Criterion) {
    let is_test = is_test();
    let mut group = criterion.benchmark_group("merge");
    group.sample_size(20);
    for turns in if is_test { vec![100] } else { vec![1_000, 10_000] } {
        let mut history = History::build(Path::new(FOLDER), turns).expect("a history");
        for own in [1, 10, 50] {
            branches(&mut group, &mut history, turns, own);
        }
        neighbours(&mut group, &history, turns);
    }
    group.finish();
}

/// Merges two branches of `own` turns each.
fn branches(
    group: &mut BenchmarkGroup<'_, WallTime>,
    history: &mut History,
    turns: usize,
    own: usize,
) {
    let repo = history.store.open(Durability::Full).expect("the store opens");
    for name in ["ours", "theirs"] {
        let steps: Vec<_> = (0..own).map(|_| history.agent.next_turn()).collect();
        let mut recorder = history.fork(&repo, name).expect("a fork");
        for turn in &steps {
            recorder.record(turn).expect("a turn");
        }
    }
    let branch = |name| BranchName::new("bench", name).expect("a name");
    let request = MergeRequest {
        into: branch("ours"),
        theirs: repo.tip(&branch("theirs")).expect("a turn"),
        label: "bench/theirs".to_owned(),
        messages: MessagePolicy::Append,
        only: Selection::default(),
        tools: &tool_use,
        message: None,
    };
    let before = repo.tip(&request.into);
    group.bench_function(format!("{own} turns each after {turns}"), |bencher| {
        bencher.iter(|| {
            let merge = repo.begin().merge(&request, &stamp(0)).expect("a merge");
            assert_eq!(merge.kind, MergeKind::Merged);
            black_box(merge)
        });
    });
    group.bench_function(format!("{own} turns each after {turns}, durable"), |bencher| {
        bencher.iter(|| {
            durable(&repo, &request);
            let mut back = repo.begin();
            back.move_branch(&request.into, before);
            back.commit(&stamp(0), "back").expect("a change")
        });
    });
}

fn durable(repo: &Repository, request: &MergeRequest<'_>) {
    let mut change = repo.begin();
    change.merge(request, &stamp(0)).expect("a merge");
    change.commit(&stamp(0), "merge").expect("a commit");
}

/// Compares the newest turn with its parent.
fn neighbours(group: &mut BenchmarkGroup<'_, WallTime>, history: &History, turns: usize) {
    let repo = history.store.open(Durability::Full).expect("the store opens");
    let [older, newer] = [turns - 1, turns].map(|turn| history.commit(turn).expect("a turn"));
    group.bench_function(format!("diff of turns {} and {turns}", turns - 1), |bencher| {
        bencher.iter(|| {
            let [older, newer] = [older, newer].map(|id| repo.context(&id).expect("a context"));
            black_box(diff(&repo, &older, &newer).expect("a diff"))
        });
    });
}

criterion_group!(benches, merging);
criterion_main!(benches);
