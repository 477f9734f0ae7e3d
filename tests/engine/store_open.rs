//! Opens a store while other processes write to it as fast as they can.

use std::io;
use std::path::Path;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use turntree::ErrorKind;
use turntree::object::{ObjectId, RefValue};
use turntree::store::{Expected, FindingKind, NewStore, OpenOptions, Store};
use turntree_tests::oracle::{DIR, blob, options, set};
use turntree_tests::sim::SimDisk;
use turntree_tests::watched::{Call, WatchedIo, Watcher};

/// Runs a function before every read of a segment.
struct BeforeReads<F>(F);

impl<F: Fn() + Send + Sync + 'static> Watcher for BeforeReads<F> {
    fn around<T>(
        &self,
        call: Call,
        path: &Path,
        make: impl FnOnce() -> io::Result<T>,
    ) -> io::Result<T> {
        if call == Call::Read && path.extension().is_some_and(|extension| extension == "seg") {
            (self.0)();
        }
        make()
    }
}

/// Commits the next number to `store`. Returns `None` if another writer holds the ref lock.
fn commit(store: &Store, name: &str, number: &AtomicU64) -> Option<ObjectId> {
    let (id, object) = blob(format!("{name} {}", number.fetch_add(1, Ordering::Relaxed)).into());
    match store.commit(vec![(id, object)], &set(name, Expected::Any, id)) {
        Ok(committed) => Some(committed.operation),
        Err(error) => {
            assert_eq!(error.kind(), ErrorKind::Locked, "{error}");
            None
        }
    }
}

#[test]
fn opening_a_busy_store_yields_a_consistent_operation_log() {
    // Other writers commit at two of the reads. If they did at every one, the opening would never
    // end.
    let moments = (1..30).flat_map(|first| (first..30).map(move |second| [first, second]));
    for moments in moments {
        let disk = SimDisk::new(Path::new("/disk"));
        let dir = Path::new(DIR);
        Store::create(&disk, dir, &NewStore { id: [1; 16] }).unwrap();
        let others: Arc<Vec<Store>> = Arc::new(
            (1..=3)
                .map(|seed| {
                    let io = Arc::new(disk.other_process());
                    let seed = moments[0] * 1000 + moments[1] * 10 + seed;
                    // The holder of the ref lock waits for the hook, so this handle must not wait
                    // for the lock.
                    let options = OpenOptions { lock_timeout: Duration::ZERO, ..options(seed) };
                    Store::open(io, dir, options).unwrap()
                })
                .collect(),
        );
        let number = Arc::new(AtomicU64::new(0));
        let (acknowledged, reads) = (Arc::new(Mutex::new(Vec::new())), Arc::new(AtomicU64::new(1)));
        let busy = {
            let (number, acknowledged) = (Arc::clone(&number), Arc::clone(&acknowledged));
            let others = Arc::clone(&others);
            let reads = Arc::clone(&reads);
            BeforeReads(move || {
                if !moments.contains(&reads.fetch_add(1, Ordering::Relaxed)) {
                    return;
                }
                for store in others.iter() {
                    let done = commit(store, "others", &number);
                    acknowledged.lock().unwrap().extend(done);
                }
            })
        };
        let busy = Arc::new(WatchedIo::new(Arc::new(disk.clone()), busy));
        for other in others.iter() {
            let done = commit(other, "others", &number);
            acknowledged.lock().unwrap().extend(done);
        }
        let store = Store::open(busy, dir, options(9)).unwrap();
        for other in others.iter().chain([&store, &others[0], &store]) {
            let name = if std::ptr::eq(other, &raw const store) { "own" } else { "others" };
            let done = commit(other, name, &number);
            acknowledged.lock().unwrap().extend(done);
        }
        let last = Store::open(Arc::new(disk), dir, options(10)).unwrap();
        assert_eq!(last.findings(), [], "{moments:?}");
        let acknowledged = acknowledged.lock().unwrap();
        assert_eq!(last.refs().sequence, acknowledged.len() as u64, "{moments:?}");
        assert_eq!(last.refs().operation, acknowledged.last().copied(), "{moments:?}");
        assert!(matches!(last.refs().value("own"), Some(RefValue::Object(_))));
        let damage = store.findings().into_iter().find(|f| f.kind == FindingKind::Damage);
        assert_eq!(damage, None, "{moments:?}");
    }
}
