//! Benchmarks the durable import of a session of 1,500 messages, and of the longest recorded
//! session.
//!
//! The recorded session is measured if the folder of recorded sessions exists: `TURNTREE_SESSIONS`,
//! or `shared/sessions` next to the repository.

use std::fs;
use std::hint::black_box;
use std::path::Path;

use criterion::{BatchSize, Criterion, Throughput, criterion_group, criterion_main};
use turntree::store::Durability;
use turntree_benches::run::recorded_sessions;
use turntree_benches::store::{TempStore, stamp};
use turntree_benches::transcript::claude_code;
use turntree_exchange::{ImportOptions, import};

/// The target directory, whose file system is on disk. `/tmp` is often in memory.
const FOLDER: &str = env!("CARGO_TARGET_TMPDIR");

const MESSAGES: usize = 1_500;

const RECORDED: &str = "claude-code/ironclaw__bdf40454b1a2-1.jsonl";

fn imports(criterion: &mut Criterion) {
    let mut group = criterion.benchmark_group("import");
    group.sample_size(10);
    let mut sessions = vec![("1,500 messages", claude_code(MESSAGES))];
    sessions.extend(
        fs::read(recorded_sessions().join(RECORDED)).ok().map(|bytes| ("recorded session", bytes)),
    );
    for (name, bytes) in sessions {
        group.throughput(Throughput::Bytes(bytes.len() as u64));
        group.bench_function(name, |bencher| {
            bencher.iter_batched(
                || TempStore::new(Path::new(FOLDER)).expect("a store"),
                |store| {
                    let options = ImportOptions {
                        format: None,
                        session: "recorded".into(),
                        stamp: stamp(0),
                        switch: false,
                        adoption: None,
                        branch: None,
                    };
                    let repo = store.open(Durability::Full).expect("the store opens");
                    black_box(import(&repo, &*bytes, &options).expect("an import"));
                    store
                },
                BatchSize::PerIteration,
            );
        });
    }
    group.finish();
}

criterion_group!(benches, imports);
criterion_main!(benches);
