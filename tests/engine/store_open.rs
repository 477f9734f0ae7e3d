//! Opens a store while other processes write to it as fast as they can.

use std::io;
use std::path::Path;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use turntree::ErrorKind;
use turntree::object::{ObjectId, RefValue};
use turntree::store::{
    Access, Expected, FindingKind, Identity, Io, IoFile, Mapping, NewStore, OpenOptions, Store,
};
use turntree_tests::oracle::{DIR, blob, options, set};
use turntree_tests::sim::SimDisk;

/// A hook that runs before every read of a segment.
type Hook = Arc<dyn Fn() + Send + Sync>;

/// A disk that runs a hook whenever a segment is read.
#[derive(Clone)]
struct Busy {
    disk: SimDisk,
    hook: Hook,
}

struct BusyFile {
    file: Arc<dyn IoFile>,
    hook: Option<Hook>,
}

impl std::fmt::Debug for Busy {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Busy")
    }
}

impl std::fmt::Debug for BusyFile {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("BusyFile")
    }
}

impl Io for Busy {
    fn open(&self, path: &Path, access: Access) -> io::Result<Arc<dyn IoFile>> {
        let is_segment = path.extension().is_some_and(|extension| extension == "seg");
        let hook = is_segment.then(|| Arc::clone(&self.hook));
        Ok(Arc::new(BusyFile { file: self.disk.open(path, access)?, hook }))
    }

    fn create(&self, path: &Path) -> io::Result<Arc<dyn IoFile>> {
        self.disk.create(path)
    }

    fn create_dir(&self, path: &Path) -> io::Result<()> {
        self.disk.create_dir(path)
    }

    fn list(&self, dir: &Path) -> io::Result<Vec<String>> {
        self.disk.list(dir)
    }

    fn publish(&self, from: &Path, to: &Path) -> io::Result<()> {
        self.disk.publish(from, to)
    }

    fn link(&self, from: &Path, to: &Path) -> io::Result<()> {
        self.disk.link(from, to)
    }

    fn replace(&self, from: &Path, to: &Path) -> io::Result<()> {
        self.disk.replace(from, to)
    }

    fn remove(&self, path: &Path) -> io::Result<()> {
        self.disk.remove(path)
    }

    fn sync_dir(&self, dir: &Path) -> io::Result<()> {
        self.disk.sync_dir(dir)
    }

    fn free_bytes(&self, dir: &Path) -> io::Result<u64> {
        self.disk.free_bytes(dir)
    }

    fn identity(&self, path: &Path) -> io::Result<Identity> {
        self.disk.identity(path)
    }
}

impl IoFile for BusyFile {
    fn read_at(&self, buffer: &mut [u8], offset: u64) -> io::Result<usize> {
        if let Some(hook) = &self.hook {
            hook();
        }
        self.file.read_at(buffer, offset)
    }

    fn write_at(&self, bytes: &[u8], offset: u64) -> io::Result<()> {
        self.file.write_at(bytes, offset)
    }

    fn sync_data(&self) -> io::Result<()> {
        self.file.sync_data()
    }

    fn size(&self) -> io::Result<u64> {
        self.file.size()
    }

    fn lock(&self, timeout: Duration) -> io::Result<bool> {
        self.file.lock(timeout)
    }

    fn unlock(&self) -> io::Result<()> {
        self.file.unlock()
    }

    fn identity(&self) -> io::Result<Identity> {
        self.file.identity()
    }

    fn map(&self) -> io::Result<Mapping> {
        self.file.map()
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
        let busy = Busy {
            disk: disk.clone(),
            hook: {
                let (number, acknowledged) = (Arc::clone(&number), Arc::clone(&acknowledged));
                let others = Arc::clone(&others);
                let reads = Arc::clone(&reads);
                Arc::new(move || {
                    if !moments.contains(&reads.fetch_add(1, Ordering::Relaxed)) {
                        return;
                    }
                    for store in others.iter() {
                        let done = commit(store, "others", &number);
                        acknowledged.lock().unwrap().extend(done);
                    }
                })
            },
        };
        for other in others.iter() {
            let done = commit(other, "others", &number);
            acknowledged.lock().unwrap().extend(done);
        }
        let store = Store::open(Arc::new(busy.clone()), dir, options(9)).unwrap();
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
