//! Benchmarks a durable snapshot at turns 10, 1,000 and 10,000, and reports the bytes that a turn
//! adds.
//!
//! Each measurement starts at the same turn: the branch is reset before it, outside of the
//! measurement. With `--test` the longest history has 1,000 turns.

use std::hint::black_box;
use std::path::Path;

use criterion::{BatchSize, Criterion, criterion_group, criterion_main};
use turntree::store::Durability;
use turntree_benches::run::is_test;
use turntree_benches::store::History;

/// The target directory, whose file system is on disk. `/tmp` is often in memory.
const FOLDER: &str = env!("CARGO_TARGET_TMPDIR");

/// Number of turns over which the bytes per turn are averaged.
const WINDOW: usize = 50;

fn snapshot(criterion: &mut Criterion) {
    let mut group = criterion.benchmark_group("durable snapshot");
    let mut lengths = vec![10, 1_000];
    lengths.extend((!is_test()).then_some(10_000));
    for turns in lengths {
        let history = History::build(Path::new(FOLDER), turns).expect("a history");
        report_bytes(&history.stored_bytes);
        let repo = history.store.open(Durability::Full).expect("the store opens");
        let mut agent = history.agent.clone();
        let recorder = history.fork(&repo, "fork").expect("a branch");
        group.bench_function(format!("turn {turns}"), |bencher| {
            bencher.iter_batched(
                || {
                    let mut fresh = recorder.clone();
                    fresh.reset(&history).expect("the branch moves back");
                    (fresh, agent.next_turn())
                },
                |(mut recorder, turn)| black_box(recorder.record(&turn).expect("a snapshot")),
                BatchSize::PerIteration,
            );
        });
    }
    group.finish();
}

/// Prints the bytes that a turn adds to the store, early and late.
#[expect(clippy::print_stderr, reason = "a bench reports to its user")]
fn report_bytes(stored_bytes: &[u64]) {
    for middle in [100, 1_000, 10_000] {
        let window = stored_bytes.get(middle - WINDOW..).and_then(|rest| rest.get(..WINDOW));
        if let Some(window) = window {
            let mean = window.iter().sum::<u64>() / WINDOW as u64;
            eprintln!("bytes stored for a turn, turns {} to {middle}: {mean}", middle - WINDOW + 1);
        }
    }
}

criterion_group!(benches, snapshot);
criterion_main!(benches);
