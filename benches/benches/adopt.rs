//! Benchmarks the adoption of ten sessions of an agent, 30 MB: the first adoption, and one without
//! new turns. Also adopts all recorded sessions, if they exist.

use std::fs;
use std::hint::black_box;
use std::path::Path;
use std::sync::Arc;

use criterion::{BatchSize, Criterion, Throughput, criterion_group, criterion_main};
use turntree::store::Durability;
use turntree::workspace::AdoptionCache;
use turntree_benches::run::{is_test, recorded_sessions};
use turntree_benches::store::{TempStore, stamp};
use turntree_benches::transcript::claude_code;
use turntree_exchange::agents::{AdoptOptions, Outcome, SessionPlace, adopt, find};

/// The target directory, whose file system is on disk. `/tmp` is often in memory.
const FOLDER: &str = env!("CARGO_TARGET_TMPDIR");

const SESSIONS: usize = 10;
const MESSAGES: usize = 1_200;

/// Finds and adopts all sessions in `place` and saves the cache. Returns the number of new turns.
fn adopt_all(store: &TempStore, place: &SessionPlace) -> u64 {
    let repo = store.open(Durability::Full).expect("the store opens");
    let found = find(std::slice::from_ref(place));
    let options = AdoptOptions {
        stamp: stamp(0),
        adoption: Arc::default(),
        is_live: false,
        head: None,
        passed: &|_| {},
    };
    let mut seen = AdoptionCache::open(&repo);
    let adopted = adopt(&repo, found.sessions, &options, &mut seen).expect("an adoption");
    seen.save().expect("the record of seen files is kept");
    let turns = |outcome: &Outcome| match outcome {
        Outcome::Imported(report) => Some(report.turns),
        Outcome::Unchanged => Some(0),
        Outcome::Failed(_) => None,
    };
    let turns: Option<u64> = adopted.iter().map(|adopted| turns(&adopted.outcome)).sum();
    turns.expect("every session is adopted")
}

fn bytes_of(place: &SessionPlace) -> u64 {
    find(std::slice::from_ref(place)).sessions.iter().map(|found| found.bytes).sum()
}

fn adoptions(criterion: &mut Criterion) {
    let folder = tempfile::tempdir_in(FOLDER).expect("a folder");
    for session in 0..SESSIONS {
        let text = claude_code(if is_test() { MESSAGES / 10 } else { MESSAGES });
        let own = String::from_utf8_lossy(&text).replace("the ", &format!("the {session} "));
        fs::write(folder.path().join(format!("session-{session}.jsonl")), own).expect("a session");
    }
    let place = |path: &Path| SessionPlace { agent: String::new(), path: path.to_owned() };
    let mut places = vec![("ten sessions", place(folder.path()))];
    let recorded = recorded_sessions();
    if recorded.is_dir() {
        places.push(("recorded sessions", place(&recorded)));
    }
    let mut group = criterion.benchmark_group("adopt");
    group.sample_size(10);
    for (name, place) in places {
        group.throughput(Throughput::Bytes(bytes_of(&place)));
        group.bench_function(name, |bencher| {
            bencher.iter_batched(
                || TempStore::new(Path::new(FOLDER)).expect("a store"),
                |store| {
                    assert!(black_box(adopt_all(&store, &place)) > 0);
                    store
                },
                BatchSize::PerIteration,
            );
        });
        let store = TempStore::new(Path::new(FOLDER)).expect("a store");
        adopt_all(&store, &place);
        group.bench_function(format!("{name}, nothing new"), |bencher| {
            bencher.iter(|| assert_eq!(black_box(adopt_all(&store, &place)), 0));
        });
    }
    group.finish();
}

criterion_group!(benches, adoptions);
criterion_main!(benches);
