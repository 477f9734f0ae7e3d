//! Benchmarks the reconstruction of a swarm log of 100,000 events as a snapshot, and its import.

use std::hint::black_box;
use std::io::BufReader;
use std::path::Path;

use criterion::{BatchSize, Criterion, Throughput, criterion_group, criterion_main};
use turntree::store::Durability;
use turntree_benches::run::is_test;
use turntree_benches::store::{TempStore, stamp};
use turntree_benches::swarm::swarm_log;
use turntree_exchange::formats::swarm::{ReconstructionOptions, reconstruct};
use turntree_exchange::{ImportOptions, import};

/// The target directory, whose file system is on disk. `/tmp` is often in memory.
const FOLDER: &str = env!("CARGO_TARGET_TMPDIR");

const EVENTS: usize = 100_000;

fn swarm(criterion: &mut Criterion) {
    let log = swarm_log(if is_test() { EVENTS / 100 } else { EVENTS });
    let mut group = criterion.benchmark_group("swarm");
    group.sample_size(10).throughput(Throughput::Bytes(log.len() as u64));
    group.bench_function("reconstruct 100,000 events", |bencher| {
        let options = ReconstructionOptions { now: "now".into(), ..Default::default() };
        bencher.iter(|| {
            let input = BufReader::with_capacity(256 << 10, &*log);
            let state = reconstruct(input, &options).expect("a log");
            let mut out = std::io::sink();
            state.write(false, &mut out).expect("a sink");
            black_box(state.events)
        });
    });
    group.bench_function("import 100,000 events", |bencher| {
        bencher.iter_batched(
            || TempStore::new(Path::new(FOLDER)).expect("a store"),
            |store| {
                let options = ImportOptions {
                    format: None,
                    session: "swarm".into(),
                    stamp: stamp(0),
                    switch: false,
                    adoption: None,
                    branch: None,
                };
                let repo = store.open(Durability::Full).expect("the store opens");
                black_box(import(&repo, &*log, &options).expect("an import"));
                store
            },
            BatchSize::PerIteration,
        );
    });
    group.finish();
}

criterion_group!(benches, swarm);
criterion_main!(benches);
