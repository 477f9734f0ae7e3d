//! The real file system for a process that stops itself in one of its calls, with all locks held,
//! for any time.

use std::io;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use rustix::process::{Signal, getpid, kill_process};
use turntree::store::{Access, Identity, Io, IoFile, Mapping, RealIo};

/// Counts the calls that change something, and stops in one of them.
#[derive(Debug, Clone)]
pub struct StoppingIo {
    calls: Arc<AtomicU64>,
    stop_in: u64,
}

impl StoppingIo {
    /// Stops in the call with this number, from 1: a write when half of it is written, any other
    /// call before it begins.
    #[must_use]
    pub fn new(stop_in: u64) -> Self {
        Self { calls: Arc::default(), stop_in }
    }

    /// True if the process stops in the call that begins now.
    fn is_due(&self) -> bool {
        self.calls.fetch_add(1, Ordering::Relaxed) + 1 == self.stop_in
    }

    /// Counts a call, and stops before it if it is due.
    fn count(&self) -> io::Result<()> {
        if self.is_due() { stop() } else { Ok(()) }
    }

    fn watched(&self, file: io::Result<Arc<dyn IoFile>>) -> io::Result<Arc<dyn IoFile>> {
        Ok(Arc::new(StoppingFile { file: file?, io: self.clone() }))
    }
}

fn stop() -> io::Result<()> {
    Ok(kill_process(getpid(), Signal::STOP)?)
}

impl Io for StoppingIo {
    fn open(&self, path: &Path, access: Access) -> io::Result<Arc<dyn IoFile>> {
        self.watched(RealIo.open(path, access))
    }

    fn create(&self, path: &Path) -> io::Result<Arc<dyn IoFile>> {
        self.count()?;
        self.watched(RealIo.create(path))
    }

    fn create_dir(&self, path: &Path) -> io::Result<()> {
        self.count()?;
        RealIo.create_dir(path)
    }

    fn list(&self, dir: &Path) -> io::Result<Vec<String>> {
        RealIo.list(dir)
    }

    fn publish(&self, from: &Path, to: &Path) -> io::Result<()> {
        self.count()?;
        RealIo.publish(from, to)
    }

    fn link(&self, from: &Path, to: &Path) -> io::Result<()> {
        self.count()?;
        RealIo.link(from, to)
    }

    fn replace(&self, from: &Path, to: &Path) -> io::Result<()> {
        self.count()?;
        RealIo.replace(from, to)
    }

    fn remove(&self, path: &Path) -> io::Result<()> {
        self.count()?;
        RealIo.remove(path)
    }

    fn sync_dir(&self, dir: &Path) -> io::Result<()> {
        self.count()?;
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
struct StoppingFile {
    file: Arc<dyn IoFile>,
    io: StoppingIo,
}

impl IoFile for StoppingFile {
    fn read_at(&self, buffer: &mut [u8], offset: u64) -> io::Result<usize> {
        self.file.read_at(buffer, offset)
    }

    fn write_at(&self, bytes: &[u8], offset: u64) -> io::Result<()> {
        if !self.io.is_due() {
            return self.file.write_at(bytes, offset);
        }
        let (first, rest) = bytes.split_at(bytes.len() / 2);
        self.file.write_at(first, offset)?;
        stop()?;
        self.file.write_at(rest, offset + first.len() as u64)
    }

    fn sync_data(&self) -> io::Result<()> {
        self.io.count()?;
        self.file.sync_data()
    }

    fn size(&self) -> io::Result<u64> {
        self.file.size()
    }

    fn lock(&self, timeout: Duration) -> io::Result<bool> {
        self.io.count()?;
        self.file.lock(timeout)
    }

    fn unlock(&self) -> io::Result<()> {
        self.io.count()?;
        self.file.unlock()
    }

    fn identity(&self) -> io::Result<Identity> {
        self.file.identity()
    }

    fn map(&self) -> io::Result<Mapping> {
        self.file.map()
    }
}
