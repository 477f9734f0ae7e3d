//! A disk whose calls a test watches: it counts them, runs code around them, or stops in one.

use std::fmt;
use std::io;
use std::ops::Range;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use turntree::store::{Access, Identity, Io, IoFile, Mapping, RealIo};

/// The kinds of calls of a disk and its files.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Call {
    /// A file is opened.
    Open(Access),
    /// A file is created.
    Create,
    /// A directory is created, or a file is linked, renamed or removed.
    Name,
    /// The names of a directory are made durable.
    SyncDir,
    /// A file is read.
    Read,
    /// A file is written to.
    Write,
    /// The bytes of a file are made durable.
    SyncData,
    /// A lock is taken or released.
    Lock,
    /// Any other call: it changes nothing.
    Look,
}

/// The code that runs around the calls of a [`WatchedIo`].
pub trait Watcher: Send + Sync + 'static {
    /// Makes a call, whose path is that of the file or directory, by calling `make`.
    ///
    /// # Errors
    /// Those of the call, or others instead of it.
    fn around<T>(
        &self,
        call: Call,
        path: &Path,
        make: impl FnOnce() -> io::Result<T>,
    ) -> io::Result<T>;

    /// Makes a write of `len` bytes by calling `write` for all ranges of them, in order.
    ///
    /// # Errors
    /// Those of [`Watcher::around`].
    fn write(
        &self,
        path: &Path,
        len: usize,
        write: impl Fn(Range<usize>) -> io::Result<()>,
    ) -> io::Result<()> {
        self.around(Call::Write, path, || write(0..len))
    }
}

/// A disk with a watcher. Clones share it.
pub struct WatchedIo<W> {
    disk: Arc<dyn Io>,
    watcher: Arc<W>,
}

struct WatchedFile<W> {
    path: PathBuf,
    file: Arc<dyn IoFile>,
    watcher: Arc<W>,
}

impl<W: Watcher> WatchedIo<W> {
    /// Watches the calls of `disk`.
    pub fn new(disk: Arc<dyn Io>, watcher: W) -> Self {
        Self { disk, watcher: Arc::new(watcher) }
    }

    /// Watches the calls of the real disk.
    pub fn real(watcher: W) -> Self {
        Self::new(Arc::new(RealIo), watcher)
    }

    /// Returns the watcher.
    #[must_use]
    pub fn watcher(&self) -> &W {
        &self.watcher
    }

    fn file(&self, path: &Path, file: Arc<dyn IoFile>) -> Arc<dyn IoFile> {
        Arc::new(WatchedFile { path: path.to_owned(), file, watcher: Arc::clone(&self.watcher) })
    }
}

impl<W> Clone for WatchedIo<W> {
    fn clone(&self) -> Self {
        Self { disk: Arc::clone(&self.disk), watcher: Arc::clone(&self.watcher) }
    }
}

impl<W> fmt::Debug for WatchedIo<W> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:?}, watched", self.disk)
    }
}

impl<W> fmt::Debug for WatchedFile<W> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:?}, watched", self.file)
    }
}

impl<W: Watcher> Io for WatchedIo<W> {
    fn open(&self, path: &Path, access: Access) -> io::Result<Arc<dyn IoFile>> {
        let open = || self.disk.open(path, access);
        Ok(self.file(path, self.watcher.around(Call::Open(access), path, open)?))
    }

    fn create(&self, path: &Path) -> io::Result<Arc<dyn IoFile>> {
        let create = || self.disk.create(path);
        Ok(self.file(path, self.watcher.around(Call::Create, path, create)?))
    }

    fn create_dir(&self, path: &Path) -> io::Result<()> {
        self.watcher.around(Call::Name, path, || self.disk.create_dir(path))
    }

    fn list(&self, dir: &Path) -> io::Result<Vec<String>> {
        self.watcher.around(Call::Look, dir, || self.disk.list(dir))
    }

    fn publish(&self, from: &Path, to: &Path) -> io::Result<()> {
        self.watcher.around(Call::Name, to, || self.disk.publish(from, to))
    }

    fn link(&self, from: &Path, to: &Path) -> io::Result<()> {
        self.watcher.around(Call::Name, to, || self.disk.link(from, to))
    }

    fn replace(&self, from: &Path, to: &Path) -> io::Result<()> {
        self.watcher.around(Call::Name, to, || self.disk.replace(from, to))
    }

    fn remove(&self, path: &Path) -> io::Result<()> {
        self.watcher.around(Call::Name, path, || self.disk.remove(path))
    }

    fn sync_dir(&self, dir: &Path) -> io::Result<()> {
        self.watcher.around(Call::SyncDir, dir, || self.disk.sync_dir(dir))
    }

    fn free_bytes(&self, dir: &Path) -> io::Result<u64> {
        self.watcher.around(Call::Look, dir, || self.disk.free_bytes(dir))
    }

    fn identity(&self, path: &Path) -> io::Result<Identity> {
        self.watcher.around(Call::Look, path, || self.disk.identity(path))
    }
}

impl<W: Watcher> WatchedFile<W> {
    fn around<T>(&self, call: Call, make: impl FnOnce() -> io::Result<T>) -> io::Result<T> {
        self.watcher.around(call, &self.path, make)
    }
}

impl<W: Watcher> IoFile for WatchedFile<W> {
    fn read_at(&self, buffer: &mut [u8], offset: u64) -> io::Result<usize> {
        self.around(Call::Read, || self.file.read_at(buffer, offset))
    }

    fn write_at(&self, bytes: &[u8], offset: u64) -> io::Result<()> {
        self.watcher.write(&self.path, bytes.len(), |range| {
            let at = offset + range.start as u64;
            self.file.write_at(&bytes[range], at)
        })
    }

    fn sync_data(&self) -> io::Result<()> {
        self.around(Call::SyncData, || self.file.sync_data())
    }

    fn size(&self) -> io::Result<u64> {
        self.around(Call::Look, || self.file.size())
    }

    fn lock(&self, timeout: Duration) -> io::Result<bool> {
        self.around(Call::Lock, || self.file.lock(timeout))
    }

    fn unlock(&self) -> io::Result<()> {
        self.around(Call::Lock, || self.file.unlock())
    }

    fn identity(&self) -> io::Result<Identity> {
        self.around(Call::Look, || self.file.identity())
    }

    fn map(&self) -> io::Result<Mapping> {
        self.around(Call::Look, || self.file.map())
    }
}
