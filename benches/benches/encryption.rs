//! Benchmarks the cost of encryption: the same work on a plain and an encrypted store, in one run.
//!
//! The work is a snapshot at turn 1,000, and a restore of that turn in a newly opened store, from
//! the journal and from a pack. A restore uses all processors and does not wait for the disk, so
//! its processor time is reported. Processor time does not depend on other load of the machine.

use std::hint::black_box;
use std::path::Path;
use std::time::Duration;

use criterion::{BatchSize, Criterion, criterion_group, criterion_main};
use rustix::time::{ClockId, clock_gettime};
use turntree::maintenance::{Purpose, collect};
use turntree::store::{Durability, Tier};
use turntree_benches::store::{History, read_everything, stamp};

/// The target directory, whose file system is on disk. `/tmp` is often in memory.
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

/// Returns the processor time of this process so far, summed over all threads.
fn processor_time() -> Duration {
    let now = clock_gettime(ClockId::ProcessCPUTime);
    Duration::try_from(now).expect("time goes forward")
}

criterion_group!(benches, encryption);
criterion_main!(benches);
