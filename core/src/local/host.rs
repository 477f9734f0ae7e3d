//! A store that a program keeps open for long: one handle for all of its threads and forked
//! processes, and background maintenance between commits and on close.

use std::mem;
use std::path::{Path, PathBuf};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::thread::{self, JoinHandle};
use std::time::Duration;

use super::{ACTOR, Repo, in_this_process, open_with, random_bytes};
use crate::error::{Error, ErrorKind, Result};
use crate::maintenance::{Purpose, auto, collect};
use crate::store::{OpenOptions, StoreKeys};

/// Journal bytes from which closing a store packs it: half of the threshold while it is open.
const CLOSING_BYTES: u64 = auto::DUE_BYTES / 2;

/// The actor of packing.
const MAINTENANCE: &str = "maintenance";

/// Options for opening the store of a host.
#[derive(Debug, Clone)]
pub struct HostOptions {
    /// The author of snapshots and operations.
    pub actor: String,
    /// True to create a missing store, unencrypted.
    pub create: bool,
    /// True to pack a large journal regularly, on a background thread, and when the store is
    /// closed.
    pub maintain: bool,
    /// The keys of an encrypted store.
    pub keys: Option<StoreKeys>,
    /// The timeout of a commit for locks that other processes hold for microseconds.
    pub lock_timeout: Duration,
}

impl Default for HostOptions {
    fn default() -> Self {
        Self {
            actor: ACTOR.to_owned(),
            create: true,
            maintain: true,
            keys: None,
            lock_timeout: OpenOptions::new([0; 16]).lock_timeout,
        }
    }
}

/// A store that is open until it is closed, shared by reference or `Arc`.
#[derive(Debug)]
pub struct Host {
    dir: PathBuf,
    options: HostOptions,
    state: Mutex<State>,
}

#[derive(Debug)]
struct State {
    /// The process that opened the handle.
    process: u32,
    /// `None` after the store was closed.
    repo: Option<Repo>,
    maintenance: Option<JoinHandle<()>>,
}

/// The remaining work for a closed store. Dropping it closes the store without that work.
#[derive(Debug)]
#[must_use = "maintenance is waited for and done where this is finished"]
pub struct Closing {
    repo: Option<Repo>,
    thread: Option<JoinHandle<()>>,
    maintains: bool,
}

impl Host {
    /// Opens the store in the directory `dir`. Resolves the path, so later changes of the working
    /// directory have no effect.
    ///
    /// # Errors
    /// `NotFound` if the store is missing and not created, `Encrypted` if the keys are wrong or
    /// missing, `Corrupt` if it cannot be read, `Io` if the system refuses.
    pub fn open(dir: impl AsRef<Path>, options: HostOptions) -> Result<Self> {
        let dir = dir.as_ref();
        let dir = std::path::absolute(dir).unwrap_or_else(|_| dir.to_owned());
        let repo = in_this_process(|| match open(&dir, &options) {
            Err(error) if error.kind() == ErrorKind::NotFound && options.create => {
                drop(Repo::open_or_create(&dir)?);
                open(&dir, &options)
            }
            opened => opened,
        })?;
        let state = State { process: std::process::id(), repo: Some(repo), maintenance: None };
        Ok(Self { dir, options, state: Mutex::new(state) })
    }

    /// Returns the directory of the store, as an absolute path.
    #[must_use]
    pub fn dir(&self) -> &Path {
        &self.dir
    }

    /// Returns true after the store was closed.
    #[must_use]
    pub fn is_closed(&self) -> bool {
        self.lock().repo.is_none()
    }

    /// Returns the handle of this process. A forked process leaks the inherited handle, whose locks
    /// belong to the parent, and reopens the store.
    ///
    /// # Errors
    /// `InvalidInput` after the store was closed; in a forked process, errors of [`Host::open`].
    pub fn repo(&self) -> Result<Repo> {
        let mut state = self.lock();
        if state.repo.is_some() && state.process != std::process::id() {
            let own = in_this_process(|| open(&self.dir, &self.options))?;
            mem::forget(state.repo.replace(own));
            mem::forget(state.maintenance.take());
            state.process = std::process::id();
        }
        let closed = || Error::invalid(format!("the store {} is closed", self.dir.display()));
        state.repo.clone().ok_or_else(closed)
    }

    /// Packs a large journal on a background thread, if that is due and no other process does it.
    /// Call it after commits. Otherwise costs some microseconds. A failed pack leaves the store
    /// unchanged, and is repeated when the journal has grown by as much again.
    pub fn maintain(&self) {
        let Ok(repo) = self.repo() else { return };
        if !self.options.maintain || self.is_maintaining() {
            return;
        }
        let is_due = auto::is_due(repo.repository()).unwrap_or(false);
        if !is_due || repo.repository().store().is_collected().unwrap_or(true) {
            return;
        }
        let mut state = self.lock();
        if state.is_busy() || state.repo.is_none() {
            return;
        }
        let repo = repo.acting_as(MAINTENANCE);
        let work = move || {
            let step = || auto::step(repo.repository(), &repo.stamp());
            drop(in_this_process(step));
        };
        state.maintenance = thread::Builder::new().spawn(work).ok();
    }

    /// Closes the store: later calls get no handle, and existing users of the handle can finish.
    /// Everything committed is already durable. [`Closing::finish`] does the slow work.
    pub fn close(&self) -> Closing {
        let mut state = self.lock();
        let (repo, thread) = (state.repo.take(), state.maintenance.take());
        if state.process != std::process::id() {
            mem::forget((repo, thread));
            return Closing { repo: None, thread: None, maintains: false };
        }
        Closing { repo, thread, maintains: self.options.maintain }
    }

    fn is_maintaining(&self) -> bool {
        self.lock().is_busy()
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl State {
    /// Returns true while the background thread runs.
    fn is_busy(&self) -> bool {
        self.maintenance.as_ref().is_some_and(|thread| !thread.is_finished())
    }
}

impl Closing {
    /// Waits for running maintenance. With maintenance enabled it then packs a journal of 4 MiB or
    /// more, and brings the store within its budgets, which takes some tenths of a second. A
    /// failure leaves the store unchanged, and a later process repeats the work.
    pub fn finish(self) {
        if let Some(thread) = self.thread {
            drop(thread.join());
        }
        let Some(repo) = self.repo.filter(|_| self.maintains) else { return };
        drop(in_this_process(|| pack(&repo.acting_as(MAINTENANCE))));
    }
}

fn open(dir: &Path, options: &HostOptions) -> Result<Repo> {
    let HostOptions { lock_timeout, .. } = *options;
    let how = OpenOptions { lock_timeout, ..OpenOptions::new(random_bytes()) };
    let opened = open_with(dir, options.keys, how)?;
    Ok(Repo::from(opened).acting_as(options.actor.clone()))
}

/// Packs the journal if it is large enough, including this handle's own segment.
fn pack(repo: &Repo) -> Result<()> {
    if repo.repository().store().summary()?.journal_bytes >= CLOSING_BYTES {
        collect(repo.repository(), Purpose::Step, &repo.stamp(), &mut |_| ())?;
    }
    if auto::is_over(repo.repository())? {
        auto::settle(repo.repository(), &repo.stamp())?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::object::{Kind, ObjectId};
    use crate::repo::BranchName;

    fn written(host: &Host, bytes: u64) -> Repo {
        let repo = host.repo().unwrap();
        let (mut change, branch) = (repo.change(), BranchName::main("task").unwrap());
        let block = |at: u64| *ObjectId::of(Kind::Blob, &at.to_le_bytes()).as_bytes();
        let content: Vec<u8> = (0..bytes / 32).flat_map(block).collect();
        change.on(&branch).put("kept", "a", content).unwrap();
        change.commit("much").unwrap();
        repo
    }

    fn journal_bytes(dir: &Path) -> u64 {
        Repo::open(dir).unwrap().repository().store().summary().unwrap().journal_bytes
    }

    #[test]
    fn a_store_that_is_closed_says_so_and_what_was_read_stays_readable() {
        let folder = tempfile::tempdir().unwrap();
        let host = Host::open(folder.path().join("s"), HostOptions::default()).unwrap();
        let read = written(&host, 32).snapshot("task").unwrap();
        assert!(!host.is_closed());
        host.close().finish();
        assert!(host.is_closed());
        assert_eq!(host.repo().unwrap_err().kind(), ErrorKind::InvalidInput);
        host.maintain();
        assert_eq!(read.get("kept", "a").unwrap().unwrap().len(), 32);
        host.close().finish();
    }

    #[test]
    fn nothing_is_made_where_no_store_is_unless_that_is_wanted() {
        let folder = tempfile::tempdir().unwrap();
        let dir = folder.path().join("s");
        let there = HostOptions { create: false, ..HostOptions::default() };
        let missing = Host::open(&dir, there.clone()).unwrap_err();
        assert_eq!(missing.kind(), ErrorKind::NotFound);
        drop(Host::open(&dir, HostOptions::default()).unwrap());
        Host::open(&dir, there).unwrap().close().finish();
    }

    #[test]
    fn a_large_journal_is_packed_at_the_end_also_where_something_of_it_is_still_read() {
        for (maintain, bytes, packs) in
            [(true, 5 << 20, true), (true, 3 << 20, false), (false, 5 << 20, false)]
        {
            let folder = tempfile::tempdir().unwrap();
            let dir = folder.path().join("s");
            let options = HostOptions { maintain, ..HostOptions::default() };
            let host = Host::open(&dir, options).unwrap();
            let read = written(&host, bytes).snapshot("task").unwrap();
            host.close().finish();
            let left = journal_bytes(&dir);
            assert_eq!(left < 1 << 20, packs, "{left} bytes of {bytes}");
            assert_eq!(read.get("kept", "a").unwrap().unwrap().len() as u64, bytes);
        }
    }

    #[test]
    fn a_journal_that_has_too_much_is_packed_meanwhile() {
        let folder = tempfile::tempdir().unwrap();
        let dir = folder.path().join("s");
        let host = Host::open(&dir, HostOptions::default()).unwrap();
        drop(written(&host, 9 << 20));
        host.maintain();
        let thread = host.lock().maintenance.take();
        thread.expect("maintenance is due").join().unwrap();
        assert!(journal_bytes(&dir) < 1 << 20);
        host.maintain();
        assert!(host.lock().maintenance.is_none(), "it is not due any more");
    }
}
