//! A disk in memory that keeps what is durable apart from what is only written.
//!
//! Every call is counted, so that a test can run the same trace once for each call and have it end
//! there: in a crash, or in an error. A crash image holds what was synced, plus any part of what
//! was not: each sector of 512 bytes may be there, missing or torn, and so may each name.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::io::{self, ErrorKind};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use bytes::Bytes;
use turntree::store::{Access, Identity, Io, IoFile};

const SECTOR: usize = 512;

/// Deterministic numbers: SplitMix64.
#[derive(Debug, Clone)]
pub struct Random(pub u64);

impl Random {
    /// Draws the next number.
    pub fn draw(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut mixed = self.0;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^ (mixed >> 31)
    }

    /// A number below `limit`.
    pub fn below(&mut self, limit: usize) -> usize {
        usize::try_from(self.draw() % limit as u64).unwrap()
    }
}

/// What goes wrong, and when. Calls are numbered from 1.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Fault {
    /// Nothing.
    None,
    /// The machine stops in the n-th call that changes something; no later call succeeds.
    CrashAt(u64),
    /// The first process stops in its n-th call that changes something; the others go on.
    StopFirstAt(u64),
    /// The n-th call fails, whatever it is; later ones work. A sync that fails loses what it should
    /// have made durable, and later ones do not bring it back.
    FailAt(u64),
    /// Nothing more can be stored.
    DiskFull,
}

/// What of the unsynced state a crash keeps.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Keep {
    /// All of it.
    All,
    /// Nothing.
    Nothing,
    /// Any part, drawn by this seed.
    Some(u64),
}

/// The disk, as one process has it; clones are the same disk in the same process.
#[derive(Debug, Clone, Default)]
pub struct SimDisk {
    state: Arc<Mutex<State>>,
    later_process: bool,
}

#[derive(Debug, Default)]
struct State {
    files: HashMap<u64, SimFile>,
    /// Names as processes see them, and as a crash would leave them. Directories have no file.
    names: BTreeMap<PathBuf, Option<u64>>,
    durable_names: BTreeMap<PathBuf, Option<u64>>,
    locks: HashMap<u64, u64>,
    fault: Option<Fault>,
    calls: u64,
    triggered: bool,
    first_stopped: bool,
    next_number: u64,
}

#[derive(Debug, Default, Clone)]
struct SimFile {
    live: Vec<u8>,
    durable: Vec<u8>,
    /// Sectors whose live bytes the next sync makes durable.
    dirty: BTreeSet<usize>,
    /// Open handles, and those that have yet to be told of a failed sync.
    handles: BTreeSet<u64>,
    untold: BTreeSet<u64>,
}

/// What a call does when its turn comes to fail.
enum Turn {
    Go,
    /// Do it, then report an error: the machine stopped just afterwards.
    CrashAfter,
    Fail(io::Error),
}

impl SimDisk {
    /// An empty disk with nothing but `dir`.
    #[must_use]
    pub fn new(dir: &Path) -> Self {
        let disk = Self::default();
        let mut state = disk.lock();
        for dir in dir.ancestors() {
            state.names.insert(dir.to_owned(), None);
            state.durable_names.insert(dir.to_owned(), None);
        }
        drop(state);
        disk
    }

    /// The same disk, as another process has it.
    #[must_use]
    pub fn other_process(&self) -> Self {
        Self { state: Arc::clone(&self.state), later_process: true }
    }

    /// Arms a fault, and starts counting anew.
    pub fn arm(&self, fault: Fault) {
        let mut state = self.lock();
        (state.fault, state.calls, state.triggered) = (Some(fault), 0, false);
    }

    /// Whether the armed fault has happened.
    #[must_use]
    pub fn triggered(&self) -> bool {
        self.lock().triggered
    }

    /// The disk as the machine finds it after a crash at this moment.
    #[must_use]
    pub fn crash(&self, keep: Keep) -> Self {
        let state = self.lock();
        let mut random = Random(if let Keep::Some(seed) = keep { seed } else { 0 });
        let mut keeps = || match keep {
            Keep::All => true,
            Keep::Nothing => false,
            Keep::Some(_) => random.draw() & 1 == 0,
        };
        let mut names = state.durable_names.clone();
        for (path, file) in &state.names {
            if state.durable_names.get(path) != Some(file) && keeps() {
                names.insert(path.clone(), *file);
            }
        }
        for path in state.durable_names.keys() {
            if !state.names.contains_key(path) && keeps() {
                names.remove(path);
            }
        }
        let all = names.clone();
        names.retain(|path, _| path.ancestors().all(|parent| all.contains_key(parent)));
        let numbers: BTreeSet<u64> = names.values().flatten().copied().collect();
        let mut files = HashMap::new();
        for number in numbers {
            files.insert(number, state.files[&number].crashed(keep, number));
        }
        let next_number = state.next_number;
        let durable_names = names.clone();
        let crashed = State { files, names, durable_names, next_number, ..State::default() };
        Self { state: Arc::new(Mutex::new(crashed)), later_process: false }
    }

    /// Every file with its bytes.
    #[must_use]
    pub fn files(&self) -> BTreeMap<PathBuf, Vec<u8>> {
        let state = self.lock();
        let files = state.names.iter().filter_map(|(path, file)| Some((path, (*file)?)));
        files.map(|(path, file)| (path.clone(), state.files[&file].live.clone())).collect()
    }

    /// Replaces the bytes of a file, behind everybody's back.
    pub fn damage(&self, path: &Path, bytes: Vec<u8>) {
        let mut state = self.lock();
        let number = state.names[path].unwrap();
        let file = SimFile { durable: bytes.clone(), live: bytes, ..SimFile::default() };
        state.files.insert(number, file);
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn handle(&self, state: &mut State, number: u64) -> Arc<dyn IoFile> {
        state.next_number += 1;
        let handle = state.next_number;
        state.files.get_mut(&number).unwrap().handles.insert(handle);
        Arc::new(SimHandle { disk: self.clone(), number, handle })
    }

    fn add_name(&self, path: &Path, file: Option<u64>) -> io::Result<()> {
        let mut state = self.lock();
        let turn = state.turn(true, self.later_process);
        if let Turn::Fail(error) = turn {
            return Err(error);
        }
        if state.names.contains_key(path) {
            return Err(ErrorKind::AlreadyExists.into());
        }
        if path.parent().is_none_or(|parent| state.names.get(parent) != Some(&None)) {
            return Err(ErrorKind::NotFound.into());
        }
        state.names.insert(path.to_owned(), file);
        turn.end()
    }
}

impl SimFile {
    fn crashed(&self, keep: Keep, number: u64) -> Self {
        let mut bytes = self.durable.clone();
        let mut random =
            Random(if let Keep::Some(seed) = keep { seed ^ (number << 32) } else { 0 });
        for sector in &self.dirty {
            let start = sector * SECTOR;
            let end = (start + SECTOR).min(self.live.len());
            let kept = match keep {
                Keep::All => SECTOR,
                Keep::Nothing => 0,
                Keep::Some(_) => [0, SECTOR, SECTOR, random.below(SECTOR)][random.below(4)],
            };
            let end = end.min(start + kept);
            if kept > 0 && end > start {
                bytes.resize(bytes.len().max(end), 0);
                bytes[start..end].copy_from_slice(&self.live[start..end]);
            }
        }
        Self { durable: bytes.clone(), live: bytes, ..Self::default() }
    }
}

impl State {
    /// Counts a call and decides what becomes of it.
    fn turn(&mut self, changes: bool, later_process: bool) -> Turn {
        let gone = || io::Error::other("the machine has stopped");
        if self.first_stopped && !later_process {
            return Turn::Fail(gone());
        }
        match self.fault {
            Some(Fault::StopFirstAt(at)) if changes && !later_process => {
                self.calls += 1;
                self.triggered = self.calls == at;
                self.first_stopped = self.triggered;
                if self.triggered { Turn::CrashAfter } else { Turn::Go }
            }
            Some(Fault::CrashAt(_)) if self.triggered => Turn::Fail(gone()),
            Some(Fault::CrashAt(at)) if changes => {
                self.calls += 1;
                self.triggered = self.calls == at;
                if self.triggered { Turn::CrashAfter } else { Turn::Go }
            }
            Some(Fault::FailAt(at)) => {
                self.calls += 1;
                if self.calls != at {
                    return Turn::Go;
                }
                self.triggered = true;
                Turn::Fail(io::Error::other("this call was made to fail"))
            }
            _ => Turn::Go,
        }
    }
}

impl Turn {
    fn end(self) -> io::Result<()> {
        match self {
            Self::Go => Ok(()),
            Self::CrashAfter => Err(io::Error::other("the machine has stopped")),
            Self::Fail(error) => Err(error),
        }
    }
}

impl Io for SimDisk {
    fn open(&self, path: &Path, _: Access) -> io::Result<Arc<dyn IoFile>> {
        let mut state = self.lock();
        state.turn(false, self.later_process).end()?;
        let number = state.names.get(path).copied().flatten().ok_or(ErrorKind::NotFound)?;
        Ok(self.handle(&mut state, number))
    }

    fn create(&self, path: &Path) -> io::Result<Arc<dyn IoFile>> {
        let number = {
            let mut state = self.lock();
            if state.fault == Some(Fault::DiskFull) {
                return Err(ErrorKind::StorageFull.into());
            }
            state.next_number += 1;
            let number = state.next_number;
            state.files.insert(number, SimFile::default());
            number
        };
        self.add_name(path, Some(number))?;
        Ok(self.handle(&mut self.lock(), number))
    }

    fn create_dir(&self, path: &Path) -> io::Result<()> {
        self.add_name(path, None)
    }

    fn list(&self, dir: &Path) -> io::Result<Vec<String>> {
        let mut state = self.lock();
        state.turn(false, self.later_process).end()?;
        if state.names.get(dir) != Some(&None) {
            return Err(ErrorKind::NotFound.into());
        }
        let inside = state.names.keys().filter(|path| path.parent() == Some(dir));
        Ok(inside.map(|path| path.file_name().unwrap().to_str().unwrap().to_owned()).collect())
    }

    fn publish(&self, from: &Path, to: &Path) -> io::Result<()> {
        self.link(from, to)?;
        self.remove(from)
    }

    fn link(&self, from: &Path, to: &Path) -> io::Result<()> {
        let number = self.lock().names.get(from).copied().flatten().ok_or(ErrorKind::NotFound)?;
        self.add_name(to, Some(number))
    }

    fn remove(&self, path: &Path) -> io::Result<()> {
        let mut state = self.lock();
        let turn = state.turn(true, self.later_process);
        if let Turn::Fail(error) = turn {
            return Err(error);
        }
        state.names.remove(path).ok_or(ErrorKind::NotFound)?;
        turn.end()
    }

    fn sync_dir(&self, dir: &Path) -> io::Result<()> {
        let mut state = self.lock();
        state.turn(true, self.later_process).end()?;
        let State { names, durable_names, .. } = &mut *state;
        durable_names.retain(|path, _| path.parent() != Some(dir));
        let inside = names.iter().filter(|(path, _)| path.parent() == Some(dir));
        durable_names.extend(inside.map(|(path, file)| (path.clone(), *file)));
        Ok(())
    }

    fn free_bytes(&self, _: &Path) -> io::Result<u64> {
        let mut state = self.lock();
        state.turn(false, self.later_process).end()?;
        Ok(if state.fault == Some(Fault::DiskFull) { 0 } else { u64::MAX })
    }

    fn identity(&self, path: &Path) -> io::Result<Identity> {
        let mut state = self.lock();
        state.turn(false, self.later_process).end()?;
        let inode = state.names.get(path).copied().flatten().ok_or(ErrorKind::NotFound)?;
        Ok(Identity { device: 0, inode })
    }
}

#[derive(Debug)]
struct SimHandle {
    disk: SimDisk,
    number: u64,
    handle: u64,
}

impl SimHandle {
    fn with<T>(&self, work: impl FnOnce(&mut SimFile) -> T) -> T {
        work(self.disk.lock().files.get_mut(&self.number).unwrap())
    }
}

impl IoFile for SimHandle {
    fn read_at(&self, buffer: &mut [u8], offset: u64) -> io::Result<usize> {
        self.disk.lock().turn(false, self.disk.later_process).end()?;
        self.with(|file| {
            let start = usize::try_from(offset).unwrap().min(file.live.len());
            let end = (start + buffer.len()).min(file.live.len());
            buffer[..end - start].copy_from_slice(&file.live[start..end]);
            Ok(end - start)
        })
    }

    fn write_at(&self, bytes: &[u8], offset: u64) -> io::Result<()> {
        let (turn, full) = {
            let mut state = self.disk.lock();
            (state.turn(true, self.disk.later_process), state.fault == Some(Fault::DiskFull))
        };
        self.with(|file| {
            let start = usize::try_from(offset).unwrap();
            let mut written = match turn {
                Turn::Go | Turn::CrashAfter => bytes.len(),
                // An error after any part was written.
                Turn::Fail(_) => bytes.len() / 2,
            };
            if full {
                written = file.live.len().saturating_sub(start).min(bytes.len());
            }
            let end = start + written;
            let len = file.live.len().max(end);
            file.live.resize(len, 0);
            file.live[start..end].copy_from_slice(&bytes[..written]);
            file.dirty.extend(start / SECTOR..end.div_ceil(SECTOR));
            if written < bytes.len() && full {
                return Err(ErrorKind::StorageFull.into());
            }
            turn.end()
        })
    }

    fn sync_data(&self) -> io::Result<()> {
        let turn = self.disk.lock().turn(true, self.disk.later_process);
        self.with(|file| {
            let dirty = std::mem::take(&mut file.dirty);
            if matches!(turn, Turn::Fail(_)) {
                // The sectors count as clean from now on, and are not on the disk. As on Linux,
                // every handle that is open now is told once.
                file.untold = file.handles.clone();
                file.untold.remove(&self.handle);
                return turn.end();
            }
            if matches!(turn, Turn::CrashAfter) {
                file.dirty = dirty;
                return turn.end();
            }
            file.durable.resize(file.live.len(), 0);
            for sector in dirty {
                let start = sector * SECTOR;
                let end = (start + SECTOR).min(file.live.len());
                file.durable[start..end].copy_from_slice(&file.live[start..end]);
            }
            if file.untold.remove(&self.handle) {
                return Err(io::Error::other("an earlier sync of this file failed"));
            }
            Ok(())
        })
    }

    fn size(&self) -> io::Result<u64> {
        self.disk.lock().turn(false, self.disk.later_process).end()?;
        self.with(|file| Ok(file.live.len() as u64))
    }

    fn lock(&self, _: Duration) -> io::Result<bool> {
        let mut state = self.disk.lock();
        state.turn(false, self.disk.later_process).end()?;
        Ok(*state.locks.entry(self.number).or_insert(self.handle) == self.handle)
    }

    fn unlock(&self) -> io::Result<()> {
        let mut state = self.disk.lock();
        if state.locks.get(&self.number) == Some(&self.handle) {
            state.locks.remove(&self.number);
        }
        Ok(())
    }

    fn identity(&self) -> io::Result<Identity> {
        self.disk.lock().turn(false, self.disk.later_process).end()?;
        Ok(Identity { device: 0, inode: self.number })
    }

    fn map(&self) -> io::Result<Bytes> {
        self.disk.lock().turn(false, self.disk.later_process).end()?;
        self.with(|file| Ok(Bytes::copy_from_slice(&file.live)))
    }
}

impl Drop for SimHandle {
    fn drop(&mut self) {
        let _ = self.unlock();
        self.with(|file| file.handles.remove(&self.handle));
    }
}
