//! What encryption costs: the same work on a store and on one that is encrypted, in one run.
//!
//! A snapshot at turn 1,000, and a restore of that turn in a store that was just opened, from the
//! journal and from a pack. A restore is on all processors and waits for nothing, so its processor time
//! is what is told: it does not depend on what else the machine does.

use std::hint::black_box;
use std::path::Path;
use std::time::Duration;

use criterion::{BatchSize, Criterion, criterion_group, criterion_main};
use rustix::time::{ClockId, clock_gettime};
use turntree::maintenance::{Purpose, collect};
use turntree::store::{Durability, Tier};
use turntree_benches::store::{History, read_everything, stamp};

/// The file system of the target directory: a disk, unlike many a `/tmp`.
const FOLDER: &str = env!("CARGO_TARGET_TMPDIR");

const TURNS: usize = 1_000;

fn encryption(criterion: &mut Criterion) {
    let plain = History::build(Path::new(FOLDER), TURNS).expect("a history");
    let encrypted = History::build(Path::new(FOLDER), TURNS).expect("a history");
    encrypted.store.encrypt().expect("an encrypted store");
    let both = [("plain", &plain), ("encrypted", &encrypted)];
    for (name, history) in both {
        snapshot(criterion, name, history);
    }
    for (name, history) in both {
        restore(criterion, &format!("from the journal, {name}"), history);
    }
    for (name, history) in both {
        let repo = history.store.open(Durability::Full).expect("the store opens");
        collect(&repo, Purpose::Repack(Tier::Compacted), &stamp(0), &mut |_| {}).expect("a pack");
        drop(repo);
        restore(criterion, &format!("from a pack, {name}"), history);
    }
}

fn snapshot(criterion: &mut Criterion, name: &str, history: &History) {
    let mut group = criterion.benchmark_group("durable snapshot");
    let repo = history.store.open(Durability::Full).expect("the store opens");
    let mut agent = history.agent.clone();
    let recorder = history.fork(&repo, "fork").expect("a branch");
    group.bench_function(name, |bencher| {
        bencher.iter_batched(
            || {
                let mut fresh = recorder.clone();
                fresh.reset(history).expect("the branch moves back");
                (fresh, agent.next_turn())
            },
            |(mut recorder, turn)| black_box(recorder.record(&turn).expect("a snapshot")),
            BatchSize::PerIteration,
        );
    });
    group.finish();
}

fn restore(criterion: &mut Criterion, name: &str, history: &History) {
    let mut group = criterion.benchmark_group("restore, store newly opened");
    let commit = history.commit(TURNS).expect("the last turn");
    group.bench_function(name, |bencher| {
        bencher.iter_custom(|times| {
            let before = processor_time();
            for _ in 0..times {
                let repo = history.store.open(Durability::Full).expect("the store opens");
                black_box(read_everything(&repo, &commit).expect("the context"));
            }
            processor_time() - before
        });
    });
    group.finish();
}

/// Processor time of this process so far, all threads together.
fn processor_time() -> Duration {
    let now = clock_gettime(ClockId::ProcessCPUTime);
    Duration::try_from(now).expect("time goes forward")
}

criterion_group!(benches, encryption);
criterion_main!(benches);
