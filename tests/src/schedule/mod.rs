//! Schedules: several processes on one disk, of which exactly one runs at a time, in an order that
//! follows from a seed.
//!
//! ```text
//!   process 0 ──┐                                        ┌── which one goes next: the policy
//!   process 1 ──┼── every call of Io and IoFile ── turn ─┼── killed here?
//!   process 2 ──┘                                        └── the call, on the disk below
//! ```
//!
//! A process is a thread with handles of its own. It keeps its turn from one call to the next, so
//! what happens between two calls is one step, and the same schedule always gives the same trace.
//! Processes meet only on the disk, so these are all the places where they can come between each
//! other. A write of more than a word is two calls: readers may see half of it.
//!
//! Locks wait in virtual time. Whoever waits for one is passed over until it is free; when nobody
//! can go on, the clock jumps to where the first patience ends. Threads that no process registered,
//! such as those that core computes on, pass while their process has the turn.
//!
//! Threads that share a handle are not scheduled: they exclude each other by mutexes, which this
//! cannot see. [`crate::proof::linear`] runs those on a real clock.

mod io;
mod turns;

use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread;
use std::time::Duration;

use turntree::store::Io;

use self::io::ProcessIo;
use self::turns::Turns;

/// Calls after which a schedule counts as one that never ends.
const MAX_CALLS: u64 = 100_000;

/// Who goes when, and who is killed. Equal ones give equal traces.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Schedule {
    /// Who goes next.
    pub policy: Policy,
    /// A process that is killed in its n-th call: that call and all later ones fail, and its locks
    /// are free.
    pub kill: Option<Moment>,
}

/// A call of a process; the first is number 1.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Moment {
    /// Which process.
    pub process: usize,
    /// Which of its calls.
    pub call: u64,
}

/// How the next process is chosen among those that can go on.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Policy {
    /// Any of them; how often another one gets the turn is drawn too.
    Walk(u64),
    /// The one of the highest priority. Priorities are drawn, and `changes` times, at moments drawn
    /// from the first `calls`, whoever has the turn gets the lowest one. Finds every error that
    /// needs `changes + 1` events in an order with a probability of at least
    /// `1 / (processes * calls^changes)`: Burckhardt, Kothari, Musuvathi and Nagarakatte, "A
    /// randomized scheduler with probabilistic guarantees of finding bugs", ASPLOS 2010.
    Priorities {
        /// What everything is drawn from.
        seed: u64,
        /// Times that a priority changes.
        changes: usize,
        /// Calls that the schedule is expected to have.
        calls: u64,
    },
    /// One process goes first, up to a moment, and from there on only when nobody else can.
    Stall(Moment),
    /// The same, but the others run out of patience with its locks before it goes on: a process
    /// that is stopped and continued.
    Stop(Moment),
}

impl Policy {
    /// Whether waiting for a lock may end without it.
    #[must_use]
    pub fn exhausts_patience(&self) -> bool {
        matches!(self, Self::Stop(_))
    }
}

/// What a schedule came to.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Trace {
    /// A hash of every call in its order: who, what, on which file, where.
    pub hash: u64,
    /// Calls of each process.
    pub calls: Vec<u64>,
    /// Times that another process got the turn.
    pub switches: u64,
    /// Whether the process that was to be killed came so far.
    pub killed: bool,
    /// The longest that anybody waited for a lock, in virtual time.
    pub longest_wait: Duration,
}

/// Called before every call with the number of calls so far, while nobody else runs.
pub type Observer = dyn Fn(u64) + Send + Sync;

/// What a process does.
pub type Work<'a> = Box<dyn FnOnce() + Send + 'a>;

/// Processes that share a disk under a schedule. Clones are the same.
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

    /// The disk as a process has it. Until [`Processes::run`] it is not scheduled.
    #[must_use]
    pub fn io(&self, process: usize) -> Arc<dyn Io> {
        Arc::new(ProcessIo::new(Arc::clone(&self.shared), process, Arc::clone(&self.disk)))
    }

    /// A moment that is later than every earlier one, whichever process asked.
    #[must_use]
    pub fn tick(&self) -> u64 {
        self.shared.lock().tick()
    }

    /// Whether a process was killed, or is to end because another one panicked.
    #[must_use]
    pub fn is_killed(&self, process: usize) -> bool {
        self.shared.lock().is_killed(process)
    }

    /// Runs one piece of work in each process, to the end of all.
    ///
    /// # Panics
    /// When the work does, and when it does not end.
    #[must_use]
    pub fn run(&self, work: Vec<Work<'_>>) -> Trace {
        thread::scope(|threads| {
            for (process, work) in work.into_iter().enumerate() {
                // The name is what a panic is reported with.
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

    /// Wakes whoever has the turn now.
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
