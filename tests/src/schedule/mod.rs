//! Schedules: several processes on one disk, of which exactly one runs at a time, in an order
//! derived from a seed.
//!
//! ```text
//!   process 0 ──┐                                        ┌── which one goes next: the policy
//!   process 1 ──┼── every call of Io and IoFile ── turn ─┼── killed here?
//!   process 2 ──┘                                        └── the call, on the disk below
//! ```
//!
//! A process is a thread with its own handles. It keeps its turn from one call to the next, so all
//! work between two calls is one step, and the same schedule always gives the same trace. Processes
//! share only the disk, so these are all the points where they can interleave. A write of more than
//! a word is two calls: readers may see half of it.
//!
//! Locks wait in virtual time. A process that waits for a lock is skipped until the lock is free.
//! If no process can run, the clock jumps to the earliest lock timeout. Threads that no process
//! registered, such as those that core computes on, run while their process has the turn.
//!
//! Threads that share a handle are not scheduled: they exclude each other by mutexes, which are
//! invisible here. [`crate::proof::linear`] runs those on a real clock.

mod io;
mod turns;

use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread;
use std::time::Duration;

use turntree::store::Io;

use self::io::ProcessIo;
use self::turns::Turns;

/// The number of calls after which a schedule counts as endless.
const MAX_CALLS: u64 = 100_000;

/// The order of the processes, and the kill. Equal schedules give equal traces.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Schedule {
    /// Selects the next process.
    pub policy: Policy,
    /// A process that is killed in its n-th call: that call and all later ones fail, and its locks
    /// are released.
    pub kill: Option<Moment>,
}

/// A call of a process, counted from 1.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Moment {
    /// The process.
    pub process: usize,
    /// The number of the call.
    pub call: u64,
}

/// How the next process is selected among those that can run.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Policy {
    /// Any of them. How often the turn changes is drawn too.
    Walk(u64),
    /// The process with the highest priority. Priorities are drawn, and `changes` times, at moments
    /// drawn from the first `calls`, the running process gets the lowest one. Finds every error
    /// that needs `changes + 1` events in an order with a probability of at least `1 / (processes *
    /// calls^changes)`: Burckhardt, Kothari, Musuvathi and Nagarakatte, "A randomized scheduler
    /// with probabilistic guarantees of finding bugs", ASPLOS 2010.
    Priorities {
        /// The seed.
        seed: u64,
        /// Times that a priority changes.
        changes: usize,
        /// Calls that the schedule is expected to have.
        calls: u64,
    },
    /// One process runs first, up to a moment, and after that only if no other can.
    Stall(Moment),
    /// Like `Stall`, but the lock timeout of the other processes expires before the process
    /// continues: it was stopped and continued.
    Stop(Moment),
}

impl Policy {
    /// True if the wait for a lock may time out.
    #[must_use]
    pub fn exhausts_patience(&self) -> bool {
        matches!(self, Self::Stop(_))
    }
}

/// The result of a schedule.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Trace {
    /// A hash of every call in order: the process, the call, the file, the offset.
    pub hash: u64,
    /// Calls of each process.
    pub calls: Vec<u64>,
    /// The number of times that the turn changed.
    pub switches: u64,
    /// True if the process to be killed made that call.
    pub killed: bool,
    /// The longest wait for a lock, in virtual time.
    pub longest_wait: Duration,
}

/// Called before every call with the number of calls so far, while no process runs.
pub type Observer = dyn Fn(u64) + Send + Sync;

/// The work of a process.
pub type Work<'a> = Box<dyn FnOnce() + Send + 'a>;

/// Processes that share a disk under a schedule. Clones are the same processes.
#[derive(Clone)]
pub struct Processes {
    shared: Arc<Shared>,
    disk: Arc<dyn Io>,
}

struct Shared {
    turns: Mutex<Turns>,
    woken: Vec<Condvar>,
    observer: Box<Observer>,
}

impl Processes {
    /// `count` processes on `disk`.
    #[must_use]
    pub fn new(
        disk: Arc<dyn Io>,
        count: usize,
        schedule: &Schedule,
        observer: Box<Observer>,
    ) -> Self {
        let turns = Mutex::new(Turns::new(count, schedule));
        let woken = (0..count).map(|_| Condvar::new()).collect();
        Self { shared: Arc::new(Shared { turns, woken, observer }), disk }
    }

    /// The disk of a process. Its calls are not scheduled before [`Processes::run`].
    #[must_use]
    pub fn io(&self, process: usize) -> Arc<dyn Io> {
        Arc::new(ProcessIo::new(Arc::clone(&self.shared), process, Arc::clone(&self.disk)))
    }

    /// A moment later than every earlier one of any process.
    #[must_use]
    pub fn tick(&self) -> u64 {
        self.shared.lock().tick()
    }

    /// True if a process was killed, or must end because another process panicked.
    #[must_use]
    pub fn is_killed(&self, process: usize) -> bool {
        self.shared.lock().is_killed(process)
    }

    /// Runs one piece of work in each process until all have ended.
    ///
    /// # Panics
    /// If the work panics or does not end.
    #[must_use]
    pub fn run(&self, work: Vec<Work<'_>>) -> Trace {
        thread::scope(|threads| {
            for (process, work) in work.into_iter().enumerate() {
                // Panics are reported with the name of the thread.
                let thread = thread::Builder::new().name(format!("process {process}"));
                let body = move || self.process(process, work);
                thread.spawn_scoped(threads, body).expect("a thread");
            }
        });
        let mut turns = self.shared.lock();
        if let Some(panic) = turns.take_panic() {
            resume_unwind(panic);
        }
        turns.trace()
    }

    fn process(&self, process: usize, work: Work<'_>) {
        io::CURRENT.set(Some(process));
        drop(self.shared.wait_for_turn(self.shared.lock(), process));
        let done = catch_unwind(AssertUnwindSafe(work));
        let mut turns = self.shared.lock();
        if let Err(panic) = done {
            turns.give_up(panic);
        }
        turns.finish(process);
        self.shared.hand_over(&turns);
    }
}

impl Shared {
    fn lock(&self) -> MutexGuard<'_, Turns> {
        self.turns.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Wakes the process that has the turn now.
    fn hand_over(&self, turns: &Turns) {
        if let Some(woken) = turns.turn().and_then(|next| self.woken.get(next)) {
            woken.notify_all();
        }
    }

    fn wait_for_turn<'a>(
        &'a self,
        mut turns: MutexGuard<'a, Turns>,
        process: usize,
    ) -> MutexGuard<'a, Turns> {
        while turns.turn() != Some(process) {
            turns = self.woken[process].wait(turns).unwrap_or_else(PoisonError::into_inner);
        }
        turns
    }
}
