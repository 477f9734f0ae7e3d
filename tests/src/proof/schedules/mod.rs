//! Schedules of several processes on one store: every way in which one of them can stop, many
//! random ones, processes that are killed, and crashes of the machine.
//!
//! The lock-free part of the store is not memory but the protocol between processes: segments that
//! belong to the process with their lock, the lock and the epoch of the superblock, and manifests
//! that get their names with a link. Every [`script`] is a few commands that run concurrently on
//! one store. Each process has it open, and other processes have committed since its last view, in
//! some scripts before and after a collection. A script runs under
//!
//! | schedule | number at scale 1 | finds |
//! |---|---|---|
//! | one process stops at a call while the rest can run | every call, or 400 | one bad moment |
//! | the same, and the lock timeout of the others expires | one call in eight | endless waits |
//! | one is killed at a call, alone or with others running | the same, each | leftovers of kills |
//! | a random walk; random priorities with one to three changes | 20 each | several bad moments |
//!
//! In the last two the machine also crashes in a copy of the disk, twice in each schedule.
//! Afterwards and in every such image: all acknowledged changes exist with their whole contexts,
//! the refs explain everything that the processes saw ([`super::linear::history`]), no process got
//! an unexpected error, `fsck` finds nothing, and the next process commits and collects.

mod actor;
mod check;
pub mod script;

use std::collections::HashSet;
use std::panic::resume_unwind;
use std::path::Path;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread;
use std::time::Duration;

use turntree::maintenance::Purpose;
use turntree::repo::Repository;
use turntree::store::Tier;

use self::actor::{Actor, Record};
use self::check::Image;
use self::script::{Base, Found, SCRIPTS, Script, Step};
use super::{Effort, Figures, Repeat};
use crate::oracle::{DIR, options};
use crate::schedule::{Moment, Policy, Processes, Schedule, Trace, Work};
use crate::sim::{Keep, Random};

/// The calls of a script at which a process is stopped at scale 1.
const STALLS: u64 = 400;

/// At scale 1, one in this many of these is also run with an expired lock timeout, and one with a
/// kill.
const KILLED_ONE_IN: u64 = 8;

/// The drawn schedules of a script at scale 1, of each kind.
const DRAWN: u64 = 20;

/// The crashes of the machine in a drawn schedule or one with a kill, and the last call that may
/// crash.
const IMAGES: usize = 2;
const LAST_CRASH: u64 = 400;

/// The changes of priority in drawn schedules.
const CHANGES: usize = 3;

/// The results of the schedules of all scripts.
#[derive(Debug, Default)]
struct Sum {
    schedules: u64,
    traces: HashSet<u64>,
    calls: u64,
    switches: u64,
    kills: u64,
    images: u64,
    conflicts: u64,
    locked: u64,
    longest_wait: Duration,
}

/// Runs every script.
///
/// # Panics
/// If a promise is broken.
#[must_use]
pub fn run(effort: &Effort) -> Figures {
    let sum = explore_all(effort);
    let mut figures = Figures::default();
    figures.add("scripts", SCRIPTS.len());
    figures.add("schedules", sum.schedules);
    figures.add("of these with traces of their own", sum.traces.len());
    figures.add("calls", sum.calls);
    figures.add("context switches", sum.switches);
    figures.add("processes killed", sum.kills);
    figures.add("crash images", sum.images);
    figures.add("lost races that were run again", sum.conflicts);
    figures.add("steps that found a lock held", sum.locked);
    figures.add("longest wait for a lock, virtual", format!("{:?}", sum.longest_wait));
    figures
}

/// Runs one script under one schedule, and checks everything.
///
/// # Panics
/// If a promise is broken, or the script does not exist.
#[must_use]
pub fn replay(script: &str, schedule: &Schedule) -> Trace {
    let script = SCRIPTS.iter().find(|known| known.name == script).expect("a script of this name");
    play(script, &Base::new(script.found), schedule, &mut Sum::default())
}

/// Runs every script, on every core. The processes of one script run one at a time.
fn explore_all(effort: &Effort) -> Sum {
    let scripts = Mutex::new(SCRIPTS.iter());
    let worker = || {
        let mut sum = Sum::default();
        loop {
            let next = lock(&scripts).next();
            let Some(script) = next else { return sum };
            explore(script, effort, &mut sum);
        }
    };
    let mut all = Sum::default();
    thread::scope(|scope| {
        let cores = thread::available_parallelism().map_or(1, usize::from);
        let workers: Vec<_> = (0..cores).map(|_| scope.spawn(worker)).collect();
        for worker in workers {
            all.join(worker.join().unwrap_or_else(|panic| resume_unwind(panic)));
        }
    });
    all
}

fn explore(script: &Script, effort: &Effort, sum: &mut Sum) {
    let base = Base::new(script.found);
    let quiet =
        Schedule { policy: Policy::Stall(Moment { process: 0, call: u64::MAX }), kill: None };
    let usual = play(script, &base, &quiet, sum);
    let calls: u64 = usual.calls.iter().sum();
    let mut random = Random(effort.seed);
    // Every call at a higher scale. At scale 1 only if the script is short.
    let every = calls.div_ceil(STALLS * effort.scale).max(1);
    let seldom = every * KILLED_ONE_IN.div_ceil(effort.scale);
    for (process, calls) in usual.calls.iter().enumerate() {
        let (often, now_and_then) = (random.draw() % every, random.draw() % seldom);
        for call in 1..=*calls {
            let moment = Moment { process, call };
            if call % every == often {
                play(script, &base, &Schedule { policy: Policy::Stall(moment), kill: None }, sum);
            }
            if call % seldom == now_and_then {
                play(script, &base, &Schedule { policy: Policy::Stop(moment), kill: None }, sum);
                // Either it runs alone until it is killed, or other processes run in between.
                let alone = Policy::Stall(Moment { process, call: call + 1 });
                for policy in [alone, Policy::Walk(random.draw())] {
                    play(script, &base, &Schedule { policy, kill: Some(moment) }, sum);
                }
            }
        }
    }
    for _ in 0..DRAWN * effort.scale {
        let seed = random.draw();
        let changes = 1 + random.below(CHANGES);
        for policy in [Policy::Walk(seed), Policy::Priorities { seed, changes, calls }] {
            play(script, &base, &Schedule { policy, kill: None }, sum);
        }
    }
}

fn play(script: &Script, base: &Base, schedule: &Schedule, sum: &mut Sum) -> Trace {
    let _repeat = Repeat(format!("replay({:?}, &{schedule:?})", script.name));
    let disk = base.disk();
    let record = Arc::new(Mutex::new(Record::default()));
    let images = Arc::new(Mutex::new(Vec::new()));
    let crashes = crashes(schedule);
    let observer = {
        let (disk, record, images) = (disk.clone(), Arc::clone(&record), Arc::clone(&images));
        move |calls| {
            if crashes.contains(&calls) {
                let image = Image::new(disk.crash(Keep::Some(calls)), &lock(&record));
                lock(&images).push(image);
            }
        }
    };
    let count = script.processes.len();
    let io = Arc::new(disk.clone());
    let processes = Processes::new(io, count, schedule, Box::new(observer));
    let redacts = script.processes.concat().iter().any(|step| matches!(step, Step::Redact));
    let actor = |process: usize, repo: Option<Repository>| Actor {
        process,
        processes: &processes,
        record: &record,
        garbage: base.garbage,
        patience_ends: schedule.policy.exhausts_patience(),
        redacts,
        repo,
    };
    let actors = (0..count).map(|process| actor(process, opened(script, &processes, process)));
    let actors: Vec<Actor<'_>> = actors.collect();
    pass_by(script.found, count, &|process| actor(process, Some(open(&processes, process))));
    let work = actors.into_iter().zip(script.processes);
    let work = work.map(|(mut actor, steps)| -> Work<'_> {
        // The handles of a process close when it ends.
        Box::new(move || actor.work(steps))
    });
    let trace = processes.run(work.collect());
    let record = std::mem::take(&mut *lock(&record));
    check::check(&disk, &record, script, &trace);
    for image in std::mem::take(&mut *lock(&images)) {
        sum.images += 1;
        image.check(&record, redacts);
    }
    sum.add(&trace, &record);
    trace
}

/// Runs passing processes, numbered from `count`, before the processes refresh their view.
fn pass_by<'a>(found: Found, count: usize, come: &dyn Fn(usize) -> Actor<'a>) {
    if matches!(found, Found::Nothing | Found::Crowded) {
        return;
    }
    // The first writes to the existing segment, the second to a new one.
    let mut passers = [count, count + 1].map(come);
    for (passer, branch) in passers.iter_mut().zip(["main", "passing"]) {
        passer.work(&[Step::Turn(branch, "in passing")]);
    }
    drop(passers);
    if found == Found::Overtaken {
        let pack = Step::Collect(Purpose::Repack(Tier::Hot));
        come(count + 2).work(&[pack, Step::Crowd("main")]);
    }
}

/// Opens the store for a process whose steps do not start with that.
fn opened(script: &Script, processes: &Processes, process: usize) -> Option<Repository> {
    let opens = matches!(script.processes[process].first(), Some(Step::Init | Step::Open));
    (!opens).then(|| open(processes, process))
}

fn open(processes: &Processes, process: usize) -> Repository {
    let options = options((process as u64 + 1) << 32);
    Repository::open(processes.io(process), Path::new(DIR), options).expect("the store opens")
}

/// The calls at which the machine crashes, in a copy of the disk, if the schedule gets that far.
fn crashes(schedule: &Schedule) -> Vec<u64> {
    let seed = match schedule.policy {
        Policy::Walk(seed) | Policy::Priorities { seed, .. } => seed,
        Policy::Stall(moment) if schedule.kill.is_some() => moment.call,
        Policy::Stall(_) | Policy::Stop(_) => return Vec::new(),
    };
    let mut random = Random(seed);
    (0..IMAGES).map(|_| 1 + random.draw() % LAST_CRASH).collect()
}

impl Sum {
    fn add(&mut self, trace: &Trace, record: &Record) {
        self.schedules += 1;
        self.traces.insert(trace.hash);
        self.calls += trace.calls.iter().sum::<u64>();
        self.switches += trace.switches;
        self.kills += u64::from(trace.killed);
        self.conflicts += record.conflicts;
        self.locked += record.locked;
        self.longest_wait = self.longest_wait.max(trace.longest_wait);
    }

    fn join(&mut self, other: Self) {
        self.schedules += other.schedules;
        self.traces.extend(other.traces);
        self.calls += other.calls;
        self.switches += other.switches;
        self.kills += other.kills;
        self.images += other.images;
        self.conflicts += other.conflicts;
        self.locked += other.locked;
        self.longest_wait = self.longest_wait.max(other.longest_wait);
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
