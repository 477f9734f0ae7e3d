//! Crashes the machine at every call that changes something, with any part of the unsynced data
//! kept, and again during recovery.
//!
//! A [`Trace`] runs once on a simulated disk. Before each call that changes something, images of
//! the disk after a crash are taken, and each is checked against the promise of that moment. Short
//! traces crash at every call; of long ones, calls are drawn. Some images are recovered by the
//! calls that a user would make next, and crash again during these.
//!
//! A broken promise names the trace and the [`Crash`]; `repeat(&trace, crash)` repeats it.

use std::collections::{HashSet, VecDeque};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::Path;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};

use turntree::maintenance::{Loss, Purpose, collect, repair};
use turntree::object::Checksum;
use turntree::store::{Io, Tier};

use super::{Effort, Figures};
use crate::oracle::{
    DIR, PURPOSES, Promise, Script, Sessions, Step, Witness, commit_after, options, pack,
};
use crate::sim::{Fault, Keep, Random, SimDisk};
use crate::stamp;

/// The number of base stores that are cached.
const MAX_BASES: usize = 16;

/// The run before the crash.
#[derive(Debug, Clone)]
pub enum Trace {
    /// Raw commits, including the creation of the store.
    Writers(Script),
    /// Users' actions, including the creation of the store.
    Sessions(Sessions),
    /// Users' actions on a store with this number of earlier steps, drawn by the same seed.
    Later(usize, Sessions),
    /// Like `Later`, but a process stops in the n-th call that changes something: it is killed, or
    /// stalled with all its locks. The machine crashes after that.
    Stopped(usize, Sessions, u64),
    /// Like `Later`, but other processes take steps just before that call, and then the process
    /// continues.
    Interrupted(usize, Sessions, u64, Sessions),
}

fn new_disk() -> (SimDisk, Witness) {
    (SimDisk::new(Path::new("/disk")), Witness::default())
}

/// A store after this number of steps, and its promise.
fn base(seed: u64, steps: usize) -> (SimDisk, Witness) {
    /// The last stores that were made: many traces share their base.
    static MADE: Mutex<VecDeque<(u64, usize, SimDisk, Promise)>> = Mutex::new(VecDeque::new());
    let is_it = |made: &&(u64, usize, SimDisk, Promise)| (made.0, made.1) == (seed, steps);
    if let Some((.., disk, promise)) = MADE.lock().unwrap().iter().find(is_it) {
        return (disk.crash(Keep::All), Witness::of(promise.clone()));
    }
    let (disk, witness) = new_disk();
    let mut earlier = Sessions::drawn(seed, steps);
    earlier.steps.retain(|(_, step)| *step != Step::Redact);
    earlier.run(&disk, &witness);
    let disk = disk.crash(Keep::All);
    let mut made = MADE.lock().unwrap();
    made.push_back((seed, steps, disk.crash(Keep::All), witness.promise()));
    if made.len() > MAX_BASES {
        made.pop_front();
    }
    (disk, witness)
}

/// The end of a trace.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Crash {
    /// The machine crashes before this call, counted among those that change something.
    pub call: u64,
    /// The data that the disk keeps.
    pub keep: Keep,
    /// The second crash, during the recovery from the first.
    pub again: Option<(u64, Keep)>,
}

impl Trace {
    /// Returns the disk on which it starts, and its promise.
    #[must_use]
    pub fn begin(&self) -> (SimDisk, Witness) {
        let (before, sessions) = match self {
            Self::Writers(_) | Self::Sessions(_) => return new_disk(),
            Self::Later(before, sessions)
            | Self::Stopped(before, sessions, _)
            | Self::Interrupted(before, sessions, ..) => (*before, sessions),
        };
        let (disk, witness) = base(sessions.seed, before);
        match self.clone() {
            Self::Stopped(_, _, call) => disk.arm(Fault::StopAt(call)),
            Self::Interrupted(_, _, call, others) => {
                let (same, known) = (disk.clone(), witness.clone());
                disk.interrupt(call, move || others.go_on(&same, &known));
            }
            _ => {}
        }
        (disk, witness)
    }

    /// Runs on its starting disk.
    pub fn go_on(&self, disk: &SimDisk, witness: &Witness) {
        match self {
            Self::Writers(script) => {
                let io: Arc<dyn Io> = Arc::new(disk.clone());
                script.run_before(&io, Path::new(DIR), witness);
            }
            Self::Sessions(sessions) => sessions.run(disk, witness),
            Self::Later(_, sessions)
            | Self::Stopped(_, sessions, _)
            | Self::Interrupted(_, sessions, ..) => sessions.go_on(disk, witness),
        }
    }

    /// True if a crash before this call differs from one without the disturbance.
    fn is_disturbed(&self, call: u64) -> bool {
        match self {
            Self::Stopped(_, _, at) | Self::Interrupted(_, _, at, _) => call > *at,
            _ => true,
        }
    }

    pub(super) fn seed(&self) -> u64 {
        match self {
            Self::Writers(script) => script.seed,
            Self::Sessions(sessions)
            | Self::Later(_, sessions)
            | Self::Stopped(_, sessions, _)
            | Self::Interrupted(_, sessions, ..) => sessions.seed,
        }
    }

    /// The number of calls that change something.
    #[must_use]
    pub fn changes(&self) -> u64 {
        let (disk, witness) = self.begin();
        self.go_on(&disk, &witness);
        disk.calls().1
    }
}

/// How thoroughly a trace is explored.
#[derive(Debug, Clone, Copy)]
struct Plan {
    /// One call in this many is a crash point.
    one_in: usize,
    /// The images drawn at each, besides the one with everything and the one with nothing.
    images: u64,
    /// One image in this many is recovered, with a second crash. 0 for none.
    again_one_in: usize,
}

/// Runs the layer.
///
/// # Panics
/// If a promise is broken.
#[must_use]
pub fn run(effort: &Effort) -> Figures {
    let mut jobs = short_traces();
    for number in 0..4 * effort.scale {
        let seed = effort.seed + number;
        let plan = Plan { one_in: 24, images: 2, again_one_in: 24 };
        jobs.push((Trace::Sessions(Sessions::drawn(seed, 200)), plan));
    }
    for number in 0..effort.scale / 10 {
        let plan = Plan { one_in: 200, images: 2, again_one_in: 40 };
        let sessions = Sessions::drawn(effort.seed + (1 << 32) + number, 2000);
        jobs.push((Trace::Sessions(sessions), plan));
    }
    for number in 0..effort.scale {
        jobs.extend(disturbed_traces(effort.seed + 100 * (1 + number)));
    }
    let explorer = Arc::new(Explorer::default());
    in_parallel(&jobs, |(trace, plan)| explorer.explore(trace, *plan));
    explorer.figures()
}

/// The traces of which every call is a crash point.
fn short_traces() -> Vec<(Trace, Plan)> {
    let writers = |phases: &[usize], commits, seed, packs| {
        Trace::Writers(Script { phases: phases.to_vec(), commits, seed, packs })
    };
    let plan = |images, again_one_in| Plan { one_in: 1, images, again_one_in };
    let mut traces = vec![
        (writers(&[1, 1], 4, 1, false), plan(24, 40)),
        (writers(&[2, 2], 3, 2, false), plan(16, 100)),
        (writers(&[8, 1, 2], 1, 9, false), plan(4, 100)),
        (writers(&[1, 1], 2, 5, true), plan(8, 60)),
        (writers(&[2, 1], 2, 6, true), plan(4, 60)),
    ];
    let after =
        |seed, steps: &[(u32, Step)]| Trace::Later(60, Sessions { seed, steps: steps.to_vec() });
    for (seed, purpose) in (20..).zip(PURPOSES) {
        let steps = [(0, Step::Turn(0)), (1, Step::Collect(purpose)), (0, Step::Turn(0))];
        traces.push((after(seed, &steps), plan(1, 60)));
    }
    let again = [
        (0, Step::Collect(Purpose::Repack(Tier::Hot))),
        (0, Step::Turn(1)),
        (0, Step::Close),
        (1, Step::Collect(Purpose::Gc)),
        (2, Step::Repair),
        (0, Step::Pin(1)),
    ];
    traces.push((after(30, &again), plan(1, 60)));
    traces.push((after(31, &[(0, Step::Redact), (1, Step::Turn(0))]), plan(1, 60)));
    let forgets =
        [Step::Turn(0), Step::Forget(0), Step::Collect(Purpose::Gc), Step::Turn(0), Step::Repair];
    traces.push((after(32, &forgets.map(|step| (0, step))), plan(1, 60)));
    let lets_go = [
        Step::Delete(0),
        Step::ForgetOperations,
        Step::Turn(1),
        Step::Collect(Purpose::StrictGc),
        Step::Turn(0),
        Step::Repair,
    ];
    traces.push((after(33, &lets_go.map(|step| (0, step))), plan(1, 60)));
    let encrypted = [
        Step::Encrypt,
        Step::Turn(0),
        Step::Collect(Purpose::Repack(Tier::Archive)),
        Step::Turn(1),
        Step::Encrypt,
        Step::Turn(0),
    ];
    traces.push((after(34, &encrypted.map(|step| (0, step))), plan(1, 60)));
    // The turn after the archive is the first to need its ids, and the next process finds them.
    let without_ids = [
        (0, Step::ArchiveWithoutIds),
        (0, Step::Turn(0)),
        (0, Step::ArchiveWithoutIds),
        (1, Step::Turn(0)),
        (2, Step::Turn(1)),
        (1, Step::Collect(Purpose::Repack(Tier::Archive))),
    ];
    traces.push((after(35, &without_ids), plan(1, 60)));
    traces
}

/// Traces in which a process is stopped or interrupted in each of its calls.
fn disturbed_traces(seed: u64) -> Vec<(Trace, Plan)> {
    let sessions = |seed, steps: &[(u32, Step)]| Sessions { seed, steps: steps.to_vec() };
    let collect = Step::Collect(Purpose::Gc);
    let first = [Step::Turn(0), collect, Step::Collect(Purpose::Repack(Tier::Hot)), Step::Redact];
    let others = [
        vec![(1, Step::Turn(0)), (2, collect), (1, Step::Turn(0))],
        vec![(1, Step::Repair), (1, Step::Turn(1)), (2, Step::Collect(Purpose::Repack(Tier::Hot)))],
    ];
    let mut traces = Vec::new();
    for (seed, first) in (seed..).step_by(10).zip(first) {
        for (seed, others) in (seed..).zip(&others) {
            // An earlier commit, so that its process owns a segment and its tail is not settled.
            let begin = [(0, Step::Turn(1)), (0, first)];
            let calls = Trace::Later(40, sessions(seed, &begin)).changes();
            for call in 1..=calls {
                let plan = Plan { one_in: 16, images: 1, again_one_in: 0 };
                let stopped = sessions(seed, &[&begin[..], others].concat());
                traces.push((Trace::Stopped(40, stopped, call), plan));
                let begin = sessions(seed, &begin);
                let others = sessions(seed + 1000, others);
                traces.push((Trace::Interrupted(40, begin, call, others), plan));
            }
        }
    }
    traces
}

/// Repeats one crash of a trace.
///
/// # Panics
/// If a promise is broken.
pub fn repeat(trace: &Trace, crash: Crash) {
    let explorer = Arc::new(Explorer { only: Some(crash), ..Explorer::default() });
    explorer.explore(trace, Plan { one_in: 1, images: 0, again_one_in: 0 });
    assert!(explorer.images.load(Ordering::Relaxed) > 0, "{trace:?} has no {crash:?}");
}

/// Crashes a trace in every call, with this number of drawn images each, besides everything and
/// nothing.
///
/// # Panics
/// If a promise is broken.
pub fn crash_everywhere(trace: &Trace, images: u64) {
    Arc::new(Explorer::default()).explore(trace, Plan { one_in: 1, images, again_one_in: 0 });
}

/// Crashes traces and counts them.
#[derive(Debug, Default)]
struct Explorer {
    /// The only crash, when a crash is repeated.
    only: Option<Crash>,
    seen: Mutex<HashSet<[u8; 32]>>,
    points: AtomicU64,
    images: AtomicU64,
    second: AtomicU64,
}

impl Explorer {
    fn explore(self: &Arc<Self>, trace: &Trace, plan: Plan) {
        let (disk, witness) = trace.begin();
        let look = {
            let (explorer, trace) = (Arc::clone(self), trace.clone());
            let (disk, witness) = (disk.clone(), witness.clone());
            move |call| explorer.crash(&trace, plan, &disk, &witness, call)
        };
        disk.watch(look.clone());
        trace.go_on(&disk, &witness);
        disk.unwatch();
        look(disk.calls().1 + 1);
    }

    /// Takes images before a call, and checks them.
    fn crash(&self, trace: &Trace, plan: Plan, disk: &SimDisk, witness: &Witness, call: u64) {
        let mut random = Random(trace.seed() << 32 ^ call);
        let chosen = random.below(plan.one_in) == 0;
        let keeps = match self.only {
            Some(Crash { call: at, keep, .. }) if at == call => vec![keep],
            None if chosen && trace.is_disturbed(call) => keeps(plan.images, &mut random),
            _ => return,
        };
        self.points.fetch_add(1, Ordering::Relaxed);
        let promise = witness.promise();
        for keep in keeps {
            let crash = Crash { call, keep, again: None };
            let image = disk.crash(keep);
            let again = plan.again_one_in > 0 && random.below(plan.again_one_in) == 0;
            match self.only.and_then(|only| only.again) {
                Some(_) => self.recover(trace, crash, &image, &promise),
                None if self.check(trace, crash, &image, &promise) && again => {
                    self.recover(trace, crash, &image, &promise);
                }
                None => {}
            }
        }
    }

    /// Checks a copy of an image against a promise. Returns false if the same check was done
    /// before.
    fn check(&self, trace: &Trace, crash: Crash, image: &SimDisk, promise: &Promise) -> bool {
        self.images.fetch_add(1, Ordering::Relaxed);
        let facts = (promise.attempts.len(), promise.expired.len(), promise.redaction);
        let acknowledged = promise.attempts.iter().filter(|a| a.acknowledged.is_some()).count();
        let mut key = Checksum::new("turntree tests crash image");
        key.update(&image.digest()).update(format!("{facts:?} {acknowledged}").as_bytes());
        if !self.seen.lock().unwrap().insert(key.finish()) {
            return false;
        }
        let copy = image.crash(Keep::All);
        let checked = catch_unwind(AssertUnwindSafe(|| promise.check(&copy)));
        assert!(checked.is_ok(), "{crash:?} of {trace:?} broke the promise");
        true
    }

    /// Recovers an image like a user, and crashes again during this.
    fn recover(&self, trace: &Trace, first: Crash, image: &SimDisk, promise: &Promise) {
        let (disk, witness) = (image.crash(Keep::All), Witness::of(promise.clone()));
        let Some(only) = self.only.map_or(Some(None), |only| only.again.map(Some)) else { return };
        // The second images are checked later, on copies of the disk without its watcher.
        let crashes = Arc::new(Mutex::new(Vec::new()));
        let look = {
            let (disk, witness, crashes) = (disk.clone(), witness.clone(), Arc::clone(&crashes));
            let mut random = Random(first.call ^ trace.seed() << 32);
            move |call| {
                let chosen = random.below(8) == 0;
                let keeps = match only {
                    Some((at, keep)) if at == call => vec![keep],
                    None if chosen => keeps(1, &mut random),
                    _ => return,
                };
                let promise = Arc::new(witness.promise());
                for keep in keeps {
                    let again = Some((call, keep));
                    let image = (Crash { again, ..first }, disk.crash(keep), Arc::clone(&promise));
                    crashes.lock().unwrap().push(image);
                }
            }
        };
        disk.arm(Fault::None);
        disk.watch(look);
        go_on_after(&disk, &witness);
        disk.unwatch();
        for (crash, image, promise) in crashes.lock().unwrap().drain(..) {
            self.second.fetch_add(1, Ordering::Relaxed);
            self.check(trace, crash, &image, &promise);
        }
    }

    fn figures(&self) -> Figures {
        let mut figures = Figures::default();
        figures.add("crash points", self.points.load(Ordering::Relaxed));
        figures.add("crash images checked", self.images.load(Ordering::Relaxed));
        figures.add("of them distinct", self.seen.lock().unwrap().len());
        figures.add("second crashes", self.second.load(Ordering::Relaxed));
        figures
    }
}

/// Keeps everything, nothing, and some parts.
fn keeps(drawn: u64, random: &mut Random) -> Vec<Keep> {
    let some = (0..drawn).map(|_| Keep::Some(random.draw() >> 32));
    [Keep::All, Keep::Nothing].into_iter().chain(some).collect()
}

/// A user's actions after a crash: commits, checks for damage, collects, and continues.
fn go_on_after(disk: &SimDisk, witness: &Witness) {
    let io: Arc<dyn Io> = Arc::new(disk.clone());
    let Some(repo) = witness.promise().open(&io, 5 << 32) else { return };
    witness.tell_of(&repo, |promise| promise.settle(&repo));
    commit_after(repo.store(), witness).unwrap();
    let stamp = stamp(1 << 20);
    let other = witness.promise().open(&io, 6 << 32).unwrap();
    if witness.tell(|promise| promise.turns.is_empty()) {
        pack(other.store(), |_| true).unwrap();
    } else {
        witness.tell_of(&other, |promise| promise.begin_collection(&other, Purpose::Gc)).unwrap();
        collect(&other, Purpose::Gc, &stamp, &mut |_| {}).unwrap();
    }
    commit_after(repo.store(), witness).unwrap();
    drop(repo);
    let repaired = repair(&other, Loss::Refuse, &stamp, &mut |_, _| {}).unwrap();
    assert!(repaired.report.is_ok(), "{:#?}", repaired.report.findings);
    let last = turntree::store::Store::open(io, Path::new(DIR), options(7 << 32)).unwrap();
    commit_after(&last, witness).unwrap();
}

/// Runs all jobs on every processor. Panics if a job panics.
pub(super) fn in_parallel<T: Sync>(jobs: &[T], work: impl Fn(&T) + Sync) {
    let next = AtomicUsize::new(0);
    let threads = std::thread::available_parallelism().map_or(1, usize::from);
    std::thread::scope(|scope| {
        let workers: Vec<_> = (0..threads)
            .map(|_| {
                scope.spawn(|| {
                    while let Some(job) = jobs.get(next.fetch_add(1, Ordering::Relaxed)) {
                        work(job);
                    }
                })
            })
            .collect();
        for worker in workers {
            if let Err(broken) = worker.join() {
                std::panic::resume_unwind(broken);
            }
        }
    });
}
