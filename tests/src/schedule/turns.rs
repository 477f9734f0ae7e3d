//! Turns: the processes that may run, the locks that the others wait for, and the next process.

use std::any::Any;
use std::collections::{BTreeSet, HashMap};
use std::sync::Arc;
use std::time::Duration;

use turntree::store::{Identity, IoFile};

use super::{MAX_CALLS, Moment, Policy, Schedule, Trace};
use crate::sim::Random;

/// The virtual duration of a call.
const CALL: Duration = Duration::from_micros(10);

/// The state of all processes.
pub(super) struct Turns {
    chooser: Chooser,
    kill: Option<Moment>,
    processes: Vec<State>,
    turn: Option<usize>,
    held: HashMap<u64, Held>,
    next_handle: u64,
    now: Duration,
    ticks: u64,
    calls: u64,
    trace: Trace,
    killed: Option<usize>,
    /// The payload of the first panic. After it nothing is scheduled.
    panic: Option<Box<dyn Any + Send>>,
}

/// The state of a process.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum State {
    Ready,
    /// Waits until the lock is free or its timeout expires.
    Waiting {
        inode: u64,
        until: Duration,
    },
    Finished,
}

/// A lock held by a handle.
struct Held {
    process: usize,
    inode: u64,
    file: Arc<dyn IoFile>,
}

/// The outcome of a call by the process with the turn.
pub(super) enum Verdict {
    Go,
    /// The process was killed.
    Fail,
}

impl Turns {
    pub(super) fn new(count: usize, schedule: &Schedule) -> Self {
        let trace = Trace { calls: vec![0; count], ..Trace::default() };
        let mut turns = Self {
            chooser: Chooser::new(&schedule.policy, count),
            kill: schedule.kill,
            processes: vec![State::Ready; count],
            turn: None,
            held: HashMap::new(),
            next_handle: 0,
            now: Duration::ZERO,
            ticks: 0,
            calls: 0,
            trace,
            killed: None,
            panic: None,
        };
        turns.pass();
        turns
    }

    pub(super) fn turn(&self) -> Option<usize> {
        self.turn
    }

    pub(super) fn trace(&self) -> Trace {
        self.trace.clone()
    }

    pub(super) fn tick(&mut self) -> u64 {
        self.ticks += 1;
        self.ticks
    }

    pub(super) fn calls(&self) -> u64 {
        self.calls
    }

    /// True if a process was killed, or all must end because a process panicked.
    pub(super) fn is_killed(&self, process: usize) -> bool {
        self.killed == Some(process) || self.panic.is_some()
    }

    /// Ends all processes.
    pub(super) fn give_up(&mut self, panic: Box<dyn Any + Send>) {
        self.panic.get_or_insert(panic);
    }

    pub(super) fn take_panic(&mut self) -> Option<Box<dyn Any + Send>> {
        self.panic.take()
    }

    pub(super) fn finish(&mut self, process: usize) {
        self.processes[process] = State::Finished;
        self.pass();
    }

    /// Gives the turn to the next process.
    pub(super) fn pass(&mut self) {
        let next = self.next();
        if next != self.turn && self.turn.is_some() && next.is_some() {
            self.trace.switches += 1;
        }
        self.turn = next;
    }

    fn next(&mut self) -> Option<usize> {
        let can_go: Vec<usize> = (0..self.processes.len())
            .filter(|process| match self.processes[*process] {
                State::Ready => true,
                State::Waiting { until, .. } => until <= self.now,
                State::Finished => false,
            })
            .collect();
        let waiting =
            self.processes.iter().enumerate().filter_map(|(process, state)| match state {
                State::Waiting { until, .. } if *until > self.now => Some((*until, process)),
                _ => None,
            });
        let first_to_leave = waiting.min();
        let held_up = self.chooser.held_up(&self.trace.calls);
        let free: Vec<usize> = can_go.iter().copied().filter(|at| Some(*at) != held_up).collect();
        let outlasted = self.chooser.policy.exhausts_patience() || can_go.is_empty();
        match first_to_leave {
            _ if !free.is_empty() => Some(self.chooser.choose(&free, self.turn, &self.trace.calls)),
            Some((until, process)) if outlasted => {
                self.now = until;
                Some(process)
            }
            _ => can_go.first().copied(),
        }
    }

    /// The verdict on a call of the process that has the turn.
    pub(super) fn begin_call(&mut self, process: usize, what: u64) -> Verdict {
        if self.is_killed(process) {
            return Verdict::Fail;
        }
        self.calls += 1;
        assert!(self.calls <= MAX_CALLS, "the processes do not come to an end");
        self.now += CALL;
        self.trace.calls[process] += 1;
        self.trace.hash = Random(self.trace.hash ^ what ^ ((process as u64) << 56)).draw();
        let moment = Moment { process, call: self.trace.calls[process] };
        if self.kill == Some(moment) {
            self.kill(process);
            return Verdict::Fail;
        }
        Verdict::Go
    }

    fn kill(&mut self, process: usize) {
        self.killed = Some(process);
        self.trace.killed = true;
        let of_process = |held: &Held| held.process == process;
        let handles: Vec<u64> =
            self.held.iter().filter(|(_, held)| of_process(held)).map(|(at, _)| *at).collect();
        for handle in handles {
            self.unlocked(handle);
        }
    }

    pub(super) fn new_handle(&mut self) -> u64 {
        self.next_handle += 1;
        self.next_handle
    }

    /// Records that a handle holds the lock of its file.
    pub(super) fn locked(&mut self, process: usize, handle: u64, file: &Arc<dyn IoFile>) {
        let Identity { inode, .. } = file.identity().expect("the identity of an open file");
        self.held.insert(handle, Held { process, inode, file: Arc::clone(file) });
    }

    /// Releases the lock of a handle, if it has one, and makes the processes that wait for it
    /// ready.
    pub(super) fn unlocked(&mut self, handle: u64) {
        let Some(Held { inode, file, .. }) = self.held.remove(&handle) else { return };
        let _ = file.unlock();
        for state in &mut self.processes {
            if matches!(state, State::Waiting { inode: wanted, .. } if *wanted == inode) {
                *state = State::Ready;
            }
        }
    }

    /// When a lock timeout that starts now expires.
    pub(super) fn end_of(&self, timeout: Duration) -> Duration {
        self.now + timeout
    }

    /// Skips a process until the lock of a file is free or `until` is reached.
    pub(super) fn wait_for(&mut self, process: usize, file: &Arc<dyn IoFile>, until: Duration) {
        let Identity { inode, .. } = file.identity().expect("the identity of an open file");
        self.processes[process] = State::Waiting { inode, until };
    }

    /// Records that a waiting process has the turn. Returns how long it may still wait.
    pub(super) fn go_on(&mut self, process: usize, until: Duration, timeout: Duration) -> Duration {
        self.processes[process] = State::Ready;
        let left = until.saturating_sub(self.now);
        self.trace.longest_wait = self.trace.longest_wait.max(timeout.saturating_sub(left));
        left
    }
}

/// A running policy.
struct Chooser {
    policy: Policy,
    random: Random,
    /// One in this many calls changes the turn.
    stay: usize,
    priorities: Vec<usize>,
    changes: BTreeSet<u64>,
}

impl Chooser {
    fn new(policy: &Policy, count: usize) -> Self {
        let mut random = Random(match policy {
            Policy::Walk(seed) | Policy::Priorities { seed, .. } => *seed,
            Policy::Stall(_) | Policy::Stop(_) => 0,
        });
        let stay = [1, 4, 16, 64][random.below(4)];
        let mut chooser = Self {
            policy: policy.clone(),
            random,
            stay,
            priorities: vec![],
            changes: BTreeSet::new(),
        };
        if let Policy::Priorities { changes, calls, .. } = *policy {
            chooser.priorities = (changes..changes + count).collect();
            for at in (1..count).rev() {
                let other = chooser.random.below(at + 1);
                chooser.priorities.swap(at, other);
            }
            let limit = usize::try_from(calls.max(1)).unwrap();
            let draw = |_| 1 + chooser.random.below(limit) as u64;
            chooser.changes = (0..changes).map(draw).collect();
        }
        chooser
    }

    /// The process that runs only if no other can.
    fn held_up(&self, calls: &[u64]) -> Option<usize> {
        match self.policy {
            Policy::Stall(moment) | Policy::Stop(moment) => {
                Some(moment.process).filter(|process| calls[*process] + 1 >= moment.call)
            }
            Policy::Walk(_) | Policy::Priorities { .. } => None,
        }
    }

    fn choose(&mut self, free: &[usize], turn: Option<usize>, calls: &[u64]) -> usize {
        let current = turn.filter(|process| free.contains(process));
        match self.policy {
            Policy::Walk(_) => match current {
                Some(process) if self.random.below(self.stay) > 0 => process,
                _ => free[self.random.below(free.len())],
            },
            Policy::Priorities { .. } => {
                let done: u64 = calls.iter().sum();
                if let Some(process) = current
                    && self.changes.first().is_some_and(|at| *at <= done)
                {
                    self.changes.pop_first();
                    self.priorities[process] = self.changes.len();
                }
                *free
                    .iter()
                    .max_by_key(|process| self.priorities[**process])
                    .expect("a free process")
            }
            Policy::Stall(Moment { process, .. }) | Policy::Stop(Moment { process, .. }) => {
                if free.contains(&process) { process } else { free[0] }
            }
        }
    }
}
