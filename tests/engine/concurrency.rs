//! Many writers and readers on one real store. Each has its own handle, as in a process.

use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;

use turntree::ErrorKind;
use turntree::object::{Kind, ObjectSource, RefValue};
use turntree::store::{Expected, NewStore, RealIo, Store};
use turntree_tests::oracle::{blob, options, set};

const WRITERS: u64 = 4;
const COMMITS: u64 = 25;

fn create(dir: &Path) -> std::path::PathBuf {
    let dir = dir.join("store");
    Store::create(&RealIo, &dir, &NewStore { id: [1; 16] }).unwrap();
    dir
}

fn open(dir: &Path, seed: u64) -> Store {
    Store::open(Arc::new(RealIo), dir, options(seed)).unwrap()
}

#[test]
fn writers_on_refs_of_their_own_never_conflict_and_readers_see_whole_commits() {
    let temporary = tempfile::tempdir().unwrap();
    let dir = create(temporary.path());
    let done = AtomicBool::new(false);
    thread::scope(|scope| {
        let reader = scope.spawn(|| {
            let store = open(&dir, 1000);
            while !done.load(Ordering::Relaxed) {
                store.refresh().unwrap();
                for value in store.refs().values.values() {
                    let RefValue::Object(id) = value else { continue };
                    store.read_as(Kind::Blob, id).unwrap();
                }
            }
        });
        let writers: Vec<_> = (0..WRITERS)
            .map(|writer| {
                let dir = &dir;
                scope.spawn(move || {
                    let store = open(dir, writer);
                    for n in 0..COMMITS {
                        let (id, object) = blob(format!("{writer} {n} ").repeat(99).into_bytes());
                        let draft = set(&format!("heads/{writer}"), Expected::Any, id);
                        store.commit(vec![(id, object)], &draft).unwrap();
                    }
                })
            })
            .collect();
        writers.into_iter().for_each(|writer| writer.join().unwrap());
        done.store(true, Ordering::Relaxed);
        reader.join().unwrap();
    });
    let store = open(&dir, 2000);
    assert_eq!(store.findings(), []);
    assert_eq!(store.refs().sequence, WRITERS * COMMITS);
    assert_eq!(store.refs().values.len() as u64, WRITERS);
}

#[test]
fn exactly_one_concurrent_writer_of_a_ref_wins() {
    let temporary = tempfile::tempdir().unwrap();
    let dir = create(temporary.path());
    // Each writer increments a counter, and retries a lost race from the new value.
    thread::scope(|scope| {
        for writer in 0..WRITERS {
            let dir = &dir;
            scope.spawn(move || {
                let store = open(dir, writer);
                let mut done = 0;
                while done < COMMITS {
                    store.refresh().unwrap();
                    let old = store.refs().value("counter").cloned();
                    let count: u64 = match &old {
                        Some(RefValue::Object(id)) => {
                            let bytes = store.read_as(Kind::Blob, id).unwrap();
                            std::str::from_utf8(&bytes).unwrap().parse().unwrap()
                        }
                        _ => 0,
                    };
                    let (id, object) = blob((count + 1).to_string().into_bytes());
                    let expected = old.map_or(Expected::Absent, Expected::Value);
                    match store.commit(vec![(id, object)], &set("counter", expected, id)) {
                        Ok(_) => done += 1,
                        Err(error) => assert_eq!(error.kind(), ErrorKind::Conflict, "{error}"),
                    }
                }
            });
        }
    });
    let store = open(&dir, 2000);
    let Some(RefValue::Object(id)) = store.refs().value("counter").cloned() else {
        panic!("the counter exists")
    };
    assert_eq!(store.read_as(Kind::Blob, &id).unwrap(), (WRITERS * COMMITS).to_string());
    assert_eq!(store.refs().sequence, WRITERS * COMMITS);
}

#[test]
fn successive_processes_share_one_segment() {
    let temporary = tempfile::tempdir().unwrap();
    let dir = create(temporary.path());
    for n in 0..100 {
        let store = open(&dir, n);
        let (id, object) = blob(n.to_string().into_bytes());
        store.commit(vec![(id, object)], &set("head", Expected::Any, id)).unwrap();
    }
    assert_eq!(std::fs::read_dir(dir.join("journal")).unwrap().count(), 1);
    assert_eq!(open(&dir, 1000).refs().sequence, 100);
}

#[test]
fn full_segments_are_sealed_and_stay_readable() {
    let temporary = tempfile::tempdir().unwrap();
    let dir = create(temporary.path());
    let store = open(&dir, 1);
    let mut ids = Vec::new();
    for n in 0..20_u64 {
        let mut random = turntree_tests::sim::Random(n);
        let noise = (0..1 << 17).flat_map(|_| random.draw().to_le_bytes()).collect();
        let (id, object) = blob(noise);
        store.commit(vec![(id, object)], &set("head", Expected::Any, id)).unwrap();
        ids.push(id);
    }
    let again = open(&dir, 2);
    let summary = again.summary().unwrap();
    assert!(summary.sealed_segments >= 1 && summary.active_segments == 1, "{summary:?}");
    assert_eq!(summary.objects, 40);
    assert_eq!(again.refs(), store.refs());
    for store in [&store, &again] {
        for id in &ids {
            assert!(store.read(id).unwrap().is_some());
            let found = store.find(&id.short(12).parse().unwrap(), 10);
            assert_eq!(found, [(*id, Kind::Blob)]);
        }
    }
    assert_eq!(again.findings(), []);
}
