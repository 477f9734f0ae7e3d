//! A disk in memory that distinguishes durable state from written state.
//!
//! ```text
//!  process ── calls ──> live bytes, live names      what every process sees
//!                            │ sync, sync_dir
//!                            v
//!                       durable bytes and names     survive every crash
//!                            + any part of the rest  = an image, as the machine finds it
//! ```
//!
//! Every call is counted. A [`Fault`] ends a run at one of them: in a crash, in an error, or with a
//! process that stops. [`SimDisk::watch`] instead reads the disk before each call that changes
//! something, so one run shows every moment at which a machine can crash; and
//! [`SimDisk::interrupt`] runs another process in the middle of a call sequence.
//!
//! An image has all synced state, plus any part of the unsynced state: each sector, of 512 bytes or
//! of 4 KiB, may be present, missing, torn at any byte, or have an intermediate content; and so may
//! each name, created, removed or linked, independently of its file. Disks that acknowledge a sync
//! without doing it are not modelled: no promise can hold there.

mod file;
mod handle;
mod names;

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::fmt;
use std::io::{self, ErrorKind};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use turntree::object::Checksum;
use turntree::store::{Access, Identity, Io, IoFile};

use self::file::SimFile;
use self::handle::SimHandle;
use self::names::{Names, Node};

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

/// A fault and its time. Calls are numbered from 1 after the fault is armed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Fault {
    /// Nothing.
    #[default]
    None,
    /// The machine stops in the n-th call that changes something. No later call succeeds.
    CrashAt(u64),
    /// The process that makes the n-th call that changes something stops in it. Others continue.
    StopAt(u64),
    /// The n-th call of any kind fails, see [`SimDisk::fail_with`]. Later calls work. A failed sync
    /// loses the data that it should have made durable, and later syncs do not restore it.
    FailAt(u64),
    /// If the n-th call that changes something is a write, it silently stores one wrong byte.
    FlipAt(u64),
    /// The disk is full.
    DiskFull,
}

/// The way that a call fails.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Failure {
    /// The error: `StorageFull`, or anything else for an error of the device.
    pub error: ErrorKind,
    /// The share of its bytes that a failed write has written, of 256.
    pub written: u16,
    /// True if a failed sync also drops the unstored data, so that readers see the old content.
    pub forgets: bool,
}

impl Default for Failure {
    fn default() -> Self {
        Self { error: ErrorKind::Other, written: 128, forgets: false }
    }
}

/// The part of the unsynced state that a crash keeps.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Keep {
    /// All of it.
    All,
    /// Nothing.
    Nothing,
    /// Any part, drawn by this seed. Odd seeds have sectors of 4 KiB.
    Some(u64),
}

/// The disk of one process. Clones are the same disk in the same process.
#[derive(Debug, Clone, Default)]
pub struct SimDisk {
    state: Arc<Mutex<State>>,
    process: u32,
}

type Watcher = Box<dyn FnMut(u64) + Send>;
type Interruption = Box<dyn FnOnce() + Send>;

#[derive(Default)]
struct State {
    files: HashMap<u64, SimFile>,
    names: Names,
    locks: HashMap<u64, u64>,
    fault: Fault,
    failure: Failure,
    calls: u64,
    changes: u64,
    triggered: bool,
    stopped: BTreeSet<u32>,
    next_number: u64,
    watcher: Option<Watcher>,
    interruptions: Vec<(u64, Interruption)>,
}

impl fmt::Debug for State {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("State").field("names", &self.names).finish_non_exhaustive()
    }
}

/// The effect of a call.
enum Turn {
    Go,
    /// The call is done, then fails: the machine stopped just afterwards.
    CrashAfter,
    /// The call is done with one byte wrong.
    Flip,
    Fail(io::Error),
    /// Nothing happens: the machine or the process had stopped before.
    Gone,
}

impl Turn {
    fn end(self) -> io::Result<()> {
        match self {
            Self::Go | Self::Flip => Ok(()),
            Self::CrashAfter | Self::Gone => Err(io::Error::other("the machine has stopped")),
            Self::Fail(error) => Err(error),
        }
    }

    /// Fails if names must not change.
    fn check(self) -> io::Result<Self> {
        match self {
            Self::Go | Self::Flip | Self::CrashAfter => Ok(self),
            Self::Fail(_) | Self::Gone => self.end().map(|()| Self::Go),
        }
    }
}

impl SimDisk {
    /// An empty disk with nothing but `dir`.
    #[must_use]
    pub fn new(dir: &Path) -> Self {
        let names = dir.ancestors().map(|dir| (dir.to_owned(), None)).collect();
        Self::holding(names, HashMap::new(), 0)
    }

    fn holding(
        names: BTreeMap<PathBuf, Node>,
        files: HashMap<u64, SimFile>,
        next_number: u64,
    ) -> Self {
        let names = Names::with(names);
        let state = State { files, names, next_number, ..State::default() };
        Self { state: Arc::new(Mutex::new(state)), process: 0 }
    }

    /// Returns this disk for another process.
    #[must_use]
    pub fn other_process(&self) -> Self {
        self.process(self.process + 1)
    }

    /// Returns this disk for the process with this number.
    #[must_use]
    pub fn process(&self, process: u32) -> Self {
        Self { state: Arc::clone(&self.state), process }
    }

    /// Arms a fault, and restarts the counters.
    pub fn arm(&self, fault: Fault) {
        let mut state = self.lock();
        (state.fault, state.calls, state.changes, state.triggered) = (fault, 0, 0, false);
    }

    /// Sets the way that a failing call fails.
    pub fn fail_with(&self, failure: Failure) {
        self.lock().failure = failure;
    }

    /// True if the armed fault has happened.
    #[must_use]
    pub fn triggered(&self) -> bool {
        self.lock().triggered
    }

    /// True if a fault stopped this process.
    #[must_use]
    pub fn is_stopped(&self) -> bool {
        self.lock().stopped.contains(&self.process)
    }

    /// Calls since a fault was armed: all of them, and those that change something.
    #[must_use]
    pub fn calls(&self) -> (u64, u64) {
        let state = self.lock();
        (state.calls, state.changes)
    }

    /// Calls `watcher` with the number of the call before every call that changes something. Its
    /// own calls are not watched.
    pub fn watch(&self, watcher: impl FnMut(u64) + Send + 'static) {
        self.lock().watcher = Some(Box::new(watcher));
    }

    /// Ends [`SimDisk::watch`].
    pub fn unwatch(&self) {
        let watcher = self.lock().watcher.take();
        drop(watcher);
    }

    /// Runs `interruption` just before the n-th call that changes something, counted since the last
    /// fault was armed.
    pub fn interrupt(&self, call: u64, interruption: impl FnOnce() + Send + 'static) {
        self.lock().interruptions.push((call, Box::new(interruption)));
    }

    /// The disk after a crash at this moment.
    #[must_use]
    pub fn crash(&self, keep: Keep) -> Self {
        let state = self.lock();
        let names = state.names.crashed(keep);
        let numbers: BTreeSet<u64> = names.values().flatten().copied().collect();
        let crashed = |number: u64| (number, state.files[&number].crashed(keep, number));
        let files = numbers.into_iter().map(crashed).collect();
        Self::holding(names, files, state.next_number)
    }

    /// Every file with its bytes.
    #[must_use]
    pub fn files(&self) -> BTreeMap<PathBuf, Vec<u8>> {
        let state = self.lock();
        let files = state.names.live.iter().filter_map(|(path, file)| Some((path, (*file)?)));
        files.map(|(path, file)| (path.clone(), state.files[&file].live.clone())).collect()
    }

    /// A digest that two disks share only if processes see the same names and bytes on them.
    #[must_use]
    pub fn digest(&self) -> [u8; 32] {
        let state = self.lock();
        let mut checksum = Checksum::new("turntree tests simulated disk");
        for (path, file) in &state.names.live {
            let path = path.as_os_str().as_encoded_bytes();
            let bytes = file.map(|file| &*state.files[&file].live);
            let len = bytes.map_or(u64::MAX, |bytes| bytes.len() as u64);
            checksum.update(path).update(&[0]).update(&len.to_le_bytes());
            checksum.update(bytes.unwrap_or_default());
        }
        checksum.finish()
    }

    /// Replaces the bytes of a file without a call.
    pub fn damage(&self, path: &Path, bytes: Vec<u8>) {
        let mut state = self.lock();
        let number = state.names.file(path).unwrap();
        state.files.insert(number, SimFile::with(bytes));
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Counts a call and decides its effect. Interruptions run before that.
    fn begin(&self, changes: bool) -> (MutexGuard<'_, State>, Turn) {
        let mut state = self.lock();
        state.calls += 1;
        state.changes += u64::from(changes);
        let (call, change) = (state.calls, state.changes);
        if changes {
            while let Some(at) = state.interruptions.iter().position(|(at, _)| *at == change) {
                let (_, interruption) = state.interruptions.swap_remove(at);
                drop(state);
                interruption();
                state = self.lock();
            }
            if let Some(mut watcher) = state.watcher.take() {
                drop(state);
                watcher(change);
                state = self.lock();
                state.watcher.get_or_insert(watcher);
            }
        }
        let turn = state.turn(changes.then_some(change), call, self.process);
        (state, turn)
    }

    /// Makes a call that changes nothing.
    fn look(&self) -> io::Result<MutexGuard<'_, State>> {
        let (state, turn) = self.begin(false);
        turn.end().map(|()| state)
    }

    fn handle(&self, state: &mut State, number: u64) -> Arc<dyn IoFile> {
        state.next_number += 1;
        let handle = state.next_number;
        state.files.get_mut(&number).unwrap().handles.insert(handle);
        Arc::new(SimHandle { disk: self.clone(), number, handle })
    }

    /// Gives a name to a file, or to a new directory.
    fn add_name(&self, path: &Path, file: impl FnOnce(&mut State) -> Node) -> io::Result<Node> {
        let (mut state, turn) = self.begin(true);
        let turn = turn.check()?;
        if state.names.live.contains_key(path) {
            return Err(ErrorKind::AlreadyExists.into());
        }
        if path.parent().is_none_or(|parent| !state.names.is_dir(parent)) {
            return Err(ErrorKind::NotFound.into());
        }
        let file = file(&mut state);
        state.names.live.insert(path.to_owned(), file);
        turn.end().map(|()| file)
    }
}

impl State {
    fn file(&mut self, number: u64) -> &mut SimFile {
        self.files.get_mut(&number).unwrap()
    }

    /// Decides the effect of a call: the `change`-th that changes something, if it does.
    fn turn(&mut self, change: Option<u64>, call: u64, process: u32) -> Turn {
        if self.stopped.contains(&process) {
            return Turn::Gone;
        }
        match self.fault {
            Fault::CrashAt(_) if self.triggered => Turn::Gone,
            Fault::CrashAt(at) if change == Some(at) => {
                self.triggered = true;
                Turn::CrashAfter
            }
            Fault::StopAt(at) if change == Some(at) => {
                self.triggered = true;
                self.stopped.insert(process);
                Turn::CrashAfter
            }
            Fault::FlipAt(at) if change == Some(at) => {
                self.triggered = true;
                Turn::Flip
            }
            Fault::FailAt(at) if call == at => {
                self.triggered = true;
                let what = match self.failure.error {
                    ErrorKind::StorageFull => return Turn::Fail(ErrorKind::StorageFull.into()),
                    _ => "this call was made to fail",
                };
                Turn::Fail(io::Error::other(what))
            }
            _ => Turn::Go,
        }
    }
}

impl Io for SimDisk {
    fn open(&self, path: &Path, _: Access) -> io::Result<Arc<dyn IoFile>> {
        let mut state = self.look()?;
        let number = state.names.file(path).ok_or(ErrorKind::NotFound)?;
        Ok(self.handle(&mut state, number))
    }

    fn create(&self, path: &Path) -> io::Result<Arc<dyn IoFile>> {
        if self.lock().fault == Fault::DiskFull {
            return Err(ErrorKind::StorageFull.into());
        }
        let number = self.add_name(path, |state| {
            state.next_number += 1;
            state.files.insert(state.next_number, SimFile::default());
            Some(state.next_number)
        })?;
        Ok(self.handle(&mut self.lock(), number.unwrap()))
    }

    fn create_dir(&self, path: &Path) -> io::Result<()> {
        self.add_name(path, |_| None).map(drop)
    }

    fn list(&self, dir: &Path) -> io::Result<Vec<String>> {
        let state = self.look()?;
        if !state.names.is_dir(dir) {
            return Err(ErrorKind::NotFound.into());
        }
        let inside = state.names.live.keys().filter(|path| path.parent() == Some(dir));
        Ok(inside.map(|path| path.file_name().unwrap().to_str().unwrap().to_owned()).collect())
    }

    fn publish(&self, from: &Path, to: &Path) -> io::Result<()> {
        self.link(from, to)?;
        self.remove(from)
    }

    fn link(&self, from: &Path, to: &Path) -> io::Result<()> {
        let number = self.lock().names.file(from).ok_or(ErrorKind::NotFound)?;
        self.add_name(to, |_| Some(number)).map(drop)
    }

    fn replace(&self, from: &Path, to: &Path) -> io::Result<()> {
        let (mut state, turn) = self.begin(true);
        let turn = turn.check()?;
        let number = state.names.file(from).ok_or(ErrorKind::NotFound)?;
        state.names.remove(to);
        state.names.remove(from);
        state.names.live.insert(to.to_owned(), Some(number));
        turn.end()
    }

    fn remove(&self, path: &Path) -> io::Result<()> {
        let (mut state, turn) = self.begin(true);
        let turn = turn.check()?;
        if !state.names.remove(path) {
            return Err(ErrorKind::NotFound.into());
        }
        turn.end()
    }

    fn sync_dir(&self, dir: &Path) -> io::Result<()> {
        let (mut state, turn) = self.begin(true);
        turn.end()?;
        state.names.sync(dir);
        Ok(())
    }

    fn free_bytes(&self, _: &Path) -> io::Result<u64> {
        let state = self.look()?;
        Ok(if state.fault == Fault::DiskFull { 0 } else { u64::MAX })
    }

    fn identity(&self, path: &Path) -> io::Result<Identity> {
        let state = self.look()?;
        let node = state.names.live.get(path).ok_or(ErrorKind::NotFound)?;
        if node.is_some() && path.as_os_str().as_encoded_bytes().ends_with(b"/.") {
            return Err(ErrorKind::NotADirectory.into());
        }
        // Directories all have the same inode, which differs from those of files.
        Ok(Identity { device: 0, inode: node.unwrap_or(0) })
    }
}
