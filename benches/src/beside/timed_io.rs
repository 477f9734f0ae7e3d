//! A file system that measures the waiting times of a snapshot: locks, syncs, and all other calls.

use std::io;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use turntree::store::{Access, Identity, Io, IoFile, Mapping, RealIo};

/// The waiting times since the last query.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Waits {
    /// Waiting for locks.
    pub locks: Duration,
    /// Making bytes and names durable.
    pub syncs: Duration,
    /// Opening, reading, writing, mapping and naming files.
    pub calls: Duration,
}

/// The files of the system, with the times of their calls.
#[derive(Debug, Clone, Default)]
pub struct TimedIo(Arc<Clock>);

/// Nanoseconds by kind of call.
#[derive(Debug, Default)]
struct Clock {
    locks: AtomicU64,
    syncs: AtomicU64,
    calls: AtomicU64,
}

impl Clock {
    fn timed<T>(counter: &AtomicU64, work: impl FnOnce() -> T) -> T {
        let start = Instant::now();
        let done = work();
        let nanos = u64::try_from(start.elapsed().as_nanos()).unwrap_or(u64::MAX);
        counter.fetch_add(nanos, Ordering::Relaxed);
        done
    }

    fn call<T>(&self, work: impl FnOnce() -> T) -> T {
        Self::timed(&self.calls, work)
    }

    fn sync<T>(&self, work: impl FnOnce() -> T) -> T {
        Self::timed(&self.syncs, work)
    }
}

impl TimedIo {
    /// Returns the times since the last call of this method.
    #[must_use]
    pub fn take(&self) -> Waits {
        let take = |counter: &AtomicU64| Duration::from_nanos(counter.swap(0, Ordering::Relaxed));
        let Clock { locks, syncs, calls } = &*self.0;
        Waits { locks: take(locks), syncs: take(syncs), calls: take(calls) }
    }

    fn file(&self, file: io::Result<Arc<dyn IoFile>>) -> io::Result<Arc<dyn IoFile>> {
        let clock = Arc::clone(&self.0);
        Ok(Arc::new(TimedFile { file: file?, clock }))
    }
}

impl Io for TimedIo {
    fn open(&self, path: &Path, access: Access) -> io::Result<Arc<dyn IoFile>> {
        self.file(self.0.call(|| RealIo.open(path, access)))
    }

    fn create(&self, path: &Path) -> io::Result<Arc<dyn IoFile>> {
        self.file(self.0.call(|| RealIo.create(path)))
    }

    fn create_dir(&self, path: &Path) -> io::Result<()> {
        self.0.call(|| RealIo.create_dir(path))
    }

    fn list(&self, dir: &Path) -> io::Result<Vec<String>> {
        self.0.call(|| RealIo.list(dir))
    }

    fn publish(&self, from: &Path, to: &Path) -> io::Result<()> {
        self.0.call(|| RealIo.publish(from, to))
    }

    fn link(&self, from: &Path, to: &Path) -> io::Result<()> {
        self.0.call(|| RealIo.link(from, to))
    }

    fn replace(&self, from: &Path, to: &Path) -> io::Result<()> {
        self.0.call(|| RealIo.replace(from, to))
    }

    fn remove(&self, path: &Path) -> io::Result<()> {
        self.0.call(|| RealIo.remove(path))
    }

    fn sync_dir(&self, dir: &Path) -> io::Result<()> {
        self.0.sync(|| RealIo.sync_dir(dir))
    }

    fn free_bytes(&self, dir: &Path) -> io::Result<u64> {
        self.0.call(|| RealIo.free_bytes(dir))
    }

    fn identity(&self, path: &Path) -> io::Result<Identity> {
        self.0.call(|| RealIo.identity(path))
    }
}

#[derive(Debug)]
struct TimedFile {
    file: Arc<dyn IoFile>,
    clock: Arc<Clock>,
}

impl IoFile for TimedFile {
    fn read_at(&self, buffer: &mut [u8], offset: u64) -> io::Result<usize> {
        self.clock.call(|| self.file.read_at(buffer, offset))
    }

    fn write_at(&self, bytes: &[u8], offset: u64) -> io::Result<()> {
        self.clock.call(|| self.file.write_at(bytes, offset))
    }

    fn sync_data(&self) -> io::Result<()> {
        self.clock.sync(|| self.file.sync_data())
    }

    fn size(&self) -> io::Result<u64> {
        self.clock.call(|| self.file.size())
    }

    fn lock(&self, timeout: Duration) -> io::Result<bool> {
        Clock::timed(&self.clock.locks, || self.file.lock(timeout))
    }

    fn unlock(&self) -> io::Result<()> {
        self.clock.call(|| self.file.unlock())
    }

    fn identity(&self) -> io::Result<Identity> {
        self.clock.call(|| self.file.identity())
    }

    fn map(&self) -> io::Result<Mapping> {
        self.clock.call(|| self.file.map())
    }
}
