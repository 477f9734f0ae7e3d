//! The disk of a scheduled process: every call waits for its turn.

use std::cell::Cell;
use std::fmt;
use std::io;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use turntree::store::{Access, Identity, Io, IoFile, Mapping};

use super::Shared;
use super::turns::Verdict;
use crate::sim::Random;

thread_local! {
    /// The process of this thread, if it is one.
    pub(super) static CURRENT: Cell<Option<usize>> = const { Cell::new(None) };
}

/// The longest write that readers cannot see partially.
const ATOMIC_BYTES: usize = 8;

/// The kinds of calls in the trace.
#[derive(Debug, Clone, Copy)]
enum Call {
    Open,
    Create,
    CreateDir,
    List,
    Link,
    Remove,
    SyncDir,
    FreeBytes,
    IdentityOf,
    ReadAt,
    WriteAt,
    WriteRest,
    SyncData,
    Size,
    Lock,
    Unlock,
    Identity,
    Map,
    Replace,
}

pub(super) struct ProcessIo {
    gate: Gate,
    disk: Arc<dyn Io>,
}

struct ProcessFile {
    gate: Gate,
    name: u64,
    handle: u64,
    file: Arc<dyn IoFile>,
}

/// Makes a process wait for its turn.
#[derive(Clone)]
struct Gate {
    shared: Arc<Shared>,
    process: usize,
}

impl Gate {
    fn is_scheduled(&self) -> bool {
        CURRENT.get() == Some(self.process)
    }

    /// Waits for the turn. Fails if the process was killed.
    fn pass(&self, call: Call, name: u64, detail: u64) -> io::Result<()> {
        let stopped = || io::Error::other("this process was killed");
        let mut turns = self.shared.lock();
        if turns.is_killed(self.process) {
            return Err(stopped());
        }
        if !self.is_scheduled() {
            return Ok(());
        }
        turns.pass();
        if turns.turn() != Some(self.process) {
            self.shared.hand_over(&turns);
            turns = self.shared.wait_for_turn(turns, self.process);
        }
        let what = Random(name ^ Random(detail).draw().rotate_left(call as u32)).draw();
        let (verdict, calls) = (turns.begin_call(self.process, what), turns.calls());
        drop(turns);
        match verdict {
            Verdict::Go => {
                (self.shared.observer)(calls);
                Ok(())
            }
            Verdict::Fail => Err(stopped()),
        }
    }

    fn lock(&self, handle: u64, file: &Arc<dyn IoFile>, timeout: Duration) -> io::Result<bool> {
        let until = self.shared.lock().end_of(timeout);
        let mut left = timeout;
        loop {
            if file.lock(Duration::ZERO)? {
                self.shared.lock().locked(self.process, handle, file);
                return Ok(true);
            }
            if left.is_zero() || !self.is_scheduled() {
                return Ok(false);
            }
            let mut turns = self.shared.lock();
            turns.wait_for(self.process, file, until);
            turns.pass();
            if turns.turn() != Some(self.process) {
                self.shared.hand_over(&turns);
                turns = self.shared.wait_for_turn(turns, self.process);
            }
            left = turns.go_on(self.process, until, timeout);
        }
    }
}

impl ProcessIo {
    pub(super) fn new(shared: Arc<Shared>, process: usize, disk: Arc<dyn Io>) -> Self {
        Self { gate: Gate { shared, process }, disk }
    }

    fn pass(&self, call: Call, path: &Path) -> io::Result<()> {
        self.gate.pass(call, hash(path), 0)
    }

    fn file(&self, path: &Path, file: Arc<dyn IoFile>) -> Arc<dyn IoFile> {
        let handle = self.gate.shared.lock().new_handle();
        Arc::new(ProcessFile { gate: self.gate.clone(), name: hash(path), handle, file })
    }
}

impl Io for ProcessIo {
    fn open(&self, path: &Path, access: Access) -> io::Result<Arc<dyn IoFile>> {
        self.pass(Call::Open, path)?;
        Ok(self.file(path, self.disk.open(path, access)?))
    }

    fn create(&self, path: &Path) -> io::Result<Arc<dyn IoFile>> {
        self.pass(Call::Create, path)?;
        Ok(self.file(path, self.disk.create(path)?))
    }

    fn create_dir(&self, path: &Path) -> io::Result<()> {
        self.pass(Call::CreateDir, path)?;
        self.disk.create_dir(path)
    }

    fn list(&self, dir: &Path) -> io::Result<Vec<String>> {
        self.pass(Call::List, dir)?;
        self.disk.list(dir)
    }

    fn publish(&self, from: &Path, to: &Path) -> io::Result<()> {
        // Two calls, as on a real file system: another process may see both names.
        self.pass(Call::Link, to)?;
        self.disk.link(from, to)?;
        self.pass(Call::Remove, from)?;
        self.disk.remove(from)
    }

    fn link(&self, from: &Path, to: &Path) -> io::Result<()> {
        self.pass(Call::Link, to)?;
        self.disk.link(from, to)
    }

    fn replace(&self, from: &Path, to: &Path) -> io::Result<()> {
        self.pass(Call::Replace, to)?;
        self.disk.replace(from, to)
    }

    fn remove(&self, path: &Path) -> io::Result<()> {
        self.pass(Call::Remove, path)?;
        self.disk.remove(path)
    }

    fn sync_dir(&self, dir: &Path) -> io::Result<()> {
        self.pass(Call::SyncDir, dir)?;
        self.disk.sync_dir(dir)
    }

    fn free_bytes(&self, dir: &Path) -> io::Result<u64> {
        self.pass(Call::FreeBytes, dir)?;
        self.disk.free_bytes(dir)
    }

    fn identity(&self, path: &Path) -> io::Result<Identity> {
        self.pass(Call::IdentityOf, path)?;
        self.disk.identity(path)
    }
}

impl ProcessFile {
    fn pass(&self, call: Call, detail: u64) -> io::Result<()> {
        self.gate.pass(call, self.name, detail)
    }
}

impl IoFile for ProcessFile {
    fn read_at(&self, buffer: &mut [u8], offset: u64) -> io::Result<usize> {
        self.pass(Call::ReadAt, offset ^ ((buffer.len() as u64) << 40))?;
        self.file.read_at(buffer, offset)
    }

    fn write_at(&self, bytes: &[u8], offset: u64) -> io::Result<()> {
        self.pass(Call::WriteAt, offset ^ ((bytes.len() as u64) << 40))?;
        if bytes.len() <= ATOMIC_BYTES {
            return self.file.write_at(bytes, offset);
        }
        let (first, rest) = bytes.split_at(bytes.len() / 2);
        self.file.write_at(first, offset)?;
        self.pass(Call::WriteRest, 0)?;
        self.file.write_at(rest, offset + first.len() as u64)
    }

    fn sync_data(&self) -> io::Result<()> {
        self.pass(Call::SyncData, 0)?;
        self.file.sync_data()
    }

    fn size(&self) -> io::Result<u64> {
        self.pass(Call::Size, 0)?;
        self.file.size()
    }

    fn lock(&self, timeout: Duration) -> io::Result<bool> {
        self.pass(Call::Lock, 0)?;
        self.gate.lock(self.handle, &self.file, timeout)
    }

    fn unlock(&self) -> io::Result<()> {
        self.pass(Call::Unlock, 0)?;
        self.gate.shared.lock().unlocked(self.handle);
        Ok(())
    }

    fn identity(&self) -> io::Result<Identity> {
        self.pass(Call::Identity, 0)?;
        self.file.identity()
    }

    fn map(&self) -> io::Result<Mapping> {
        self.pass(Call::Map, 0)?;
        self.file.map()
    }
}

impl Drop for ProcessFile {
    fn drop(&mut self) {
        // Other processes cannot run before this: the process keeps its turn.
        self.gate.shared.lock().unlocked(self.handle);
    }
}

impl fmt::Debug for ProcessIo {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "the disk of process {}", self.gate.process)
    }
}

impl fmt::Debug for ProcessFile {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:?} of process {}", self.file, self.gate.process)
    }
}

fn hash(path: &Path) -> u64 {
    let bytes = path.as_os_str().as_encoded_bytes().iter();
    bytes.fold(0, |hash, byte| Random(hash ^ u64::from(*byte)).draw())
}
