//! Benchmarks the export of a session as a git repository: a full export, and one without new
//! turns.
//!
//! With `--test` the session has 50 turns instead of 1,000.

use std::path::Path;

use criterion::{BatchSize, Criterion, criterion_group, criterion_main};
use turntree::store::Durability;
use turntree_benches::run::is_test;
use turntree_benches::store::History;
use turntree_exchange::git::{GitExportOptions, export};

/// The target directory, whose file system is on disk. `/tmp` is often in memory.
const FOLDER: &str = env!("CARGO_TARGET_TMPDIR");

fn exporting(criterion: &mut Criterion) {
    let is_test = is_test();
    let turns = if is_test { 50 } else { 1_000 };
    let history = History::build(Path::new(FOLDER), turns).expect("a history");
    let repo = history.store.open(Durability::Full).expect("the store opens");
    let options = GitExportOptions::default();
    let mut group = criterion.benchmark_group("git export");
    group.sample_size(10);
    let folder = || tempfile::tempdir_in(FOLDER).expect("a folder");
    group.bench_function(format!("{turns} turns"), |bencher| {
        bencher.iter_batched(
            folder,
            |folder| {
                let dir = folder.path().join("out.git");
                let report = export(&repo, &dir, &options, &mut |_, _| {}).expect("an export");
                assert_eq!(report.commits, turns as u64);
                folder
            },
            BatchSize::PerIteration,
        );
    });
    let folder = folder();
    let dir = folder.path().join("out.git");
    export(&repo, &dir, &options, &mut |_, _| {}).expect("an export");
    group.bench_function(format!("nothing new after {turns} turns"), |bencher| {
        bencher.iter(|| {
            let report = export(&repo, &dir, &options, &mut |_, _| {}).expect("an export");
            assert_eq!(report.commits, 0);
        });
    });
    group.finish();
}

criterion_group!(benches, exporting);
criterion_main!(benches);
