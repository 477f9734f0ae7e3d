//! The real disk with counters of its calls.

use std::io;
use std::ops::Sub;
use std::path::Path;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use turntree::store::{Access, Identity, Io, IoFile, Mapping, RealIo};

/// [`RealIo`] that counts calls. Clones share their counters.
#[derive(Debug, Clone, Default)]
pub struct CountingIo {
    calls: Arc<Mutex<Calls>>,
    reads: Arc<AtomicU64>,
}

/// The number of calls by kind.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Calls {
    /// Writes to files.
    pub writes: u64,
    /// Syncs of files.
    pub syncs: u64,
    /// Syncs of directories.
    pub directory_syncs: u64,
    /// Files and directories made, linked, renamed and removed.
    pub names: u64,
}

impl Sub for Calls {
    type Output = Self;

    fn sub(self, before: Self) -> Self {
        Self {
            writes: self.writes - before.writes,
            syncs: self.syncs - before.syncs,
            directory_syncs: self.directory_syncs - before.directory_syncs,
            names: self.names - before.names,
        }
    }
}

impl CountingIo {
    /// The calls so far.
    #[must_use]
    pub fn calls(&self) -> Calls {
        *self.lock()
    }

    /// The reads of files so far. Reads of mapped files are not calls and do not count.
    #[must_use]
    pub fn reads(&self) -> u64 {
        self.reads.load(Ordering::Relaxed)
    }

    fn lock(&self) -> MutexGuard<'_, Calls> {
        self.calls.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn name(&self) -> RealIo {
        self.lock().names += 1;
        RealIo
    }

    fn file(&self, file: Arc<dyn IoFile>) -> Arc<dyn IoFile> {
        Arc::new(CountingFile { io: self.clone(), file })
    }
}

impl Io for CountingIo {
    fn open(&self, path: &Path, access: Access) -> io::Result<Arc<dyn IoFile>> {
        Ok(self.file(RealIo.open(path, access)?))
    }

    fn create(&self, path: &Path) -> io::Result<Arc<dyn IoFile>> {
        Ok(self.file(self.name().create(path)?))
    }

    fn create_dir(&self, path: &Path) -> io::Result<()> {
        self.name().create_dir(path)
    }

    fn list(&self, dir: &Path) -> io::Result<Vec<String>> {
        RealIo.list(dir)
    }

    fn publish(&self, from: &Path, to: &Path) -> io::Result<()> {
        self.name().publish(from, to)
    }

    fn link(&self, from: &Path, to: &Path) -> io::Result<()> {
        self.name().link(from, to)
    }

    fn replace(&self, from: &Path, to: &Path) -> io::Result<()> {
        self.name().replace(from, to)
    }

    fn remove(&self, path: &Path) -> io::Result<()> {
        self.name().remove(path)
    }

    fn sync_dir(&self, dir: &Path) -> io::Result<()> {
        self.lock().directory_syncs += 1;
        RealIo.sync_dir(dir)
    }

    fn free_bytes(&self, dir: &Path) -> io::Result<u64> {
        RealIo.free_bytes(dir)
    }

    fn identity(&self, path: &Path) -> io::Result<Identity> {
        RealIo.identity(path)
    }
}

#[derive(Debug)]
struct CountingFile {
    io: CountingIo,
    file: Arc<dyn IoFile>,
}

impl IoFile for CountingFile {
    fn read_at(&self, buffer: &mut [u8], offset: u64) -> io::Result<usize> {
        self.io.reads.fetch_add(1, Ordering::Relaxed);
        self.file.read_at(buffer, offset)
    }

    fn write_at(&self, bytes: &[u8], offset: u64) -> io::Result<()> {
        self.io.lock().writes += 1;
        self.file.write_at(bytes, offset)
    }

    fn sync_data(&self) -> io::Result<()> {
        self.io.lock().syncs += 1;
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
