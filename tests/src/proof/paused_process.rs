//! Stops processes in every file system call of a commit and of collections, with all their locks
//! held. Other processes continue, or get an error that names the lock in bounded time. Then the
//! stopped process continues, or is killed.

use std::fs::File;
use std::os::unix::fs::FileExt as _;
use std::path::Path;
use std::time::{Duration, Instant};

use rustix::process::Signal;
use turntree::ErrorKind;
use turntree::repo::Repository;

use super::content::{Prover, full};
use super::processes::{Ended, Started, worker};
use super::site::Site;
use super::{Effort, Figures};

/// The job of the process that stops. The first finds no idle segment, and creates one.
const JOBS: [&str; 4] = [FIRST, "commit", "gc", "repack"];
const FIRST: &str = "first-commit";

/// The turns of each earlier writer.
const TURNS: u64 = 12;

/// The lock timeout of the library in this layer.
const LIBRARY_PATIENCE: Duration = Duration::from_millis(50);

/// The offset of the epoch in a superblock: odd while a collection deletes files.
const AT_EPOCH: u64 = 4096;

/// The number of trials and results.
#[derive(Debug, Default)]
struct Tally {
    stops: u64,
    with_ref_lock: u64,
    in_change: u64,
    went_on: u64,
    killed: u64,
    locked: u64,
    longest: Duration,
    /// True once a wait of ten seconds was tried. One of each suffices.
    waited_for_ref_lock: bool,
    waited_for_change: bool,
}

/// Stops a process in every call: at scale 1 once, else once to continue and once to be killed.
///
/// # Panics
/// If a promise is broken.
#[must_use]
pub fn run(effort: &Effort) -> Figures {
    let mut tally = Tally::default();
    for job in JOBS {
        for call in 1.. {
            let both = [Signal::CONT, Signal::KILL];
            let one = (effort.seed.wrapping_add(call) % 2) as usize;
            let signals = if effort.scale > 1 { &both[..] } else { &both[one..=one] };
            let stops = signals.iter().map(|signal| trial(effort, &mut tally, job, call, *signal));
            if !stops.fold(false, |any, stopped| any | stopped) {
                break;
            }
        }
    }
    let mut figures = Figures::default();
    figures.add("processes stopped in a call", tally.stops);
    figures.add("of them with the ref lock", tally.with_ref_lock);
    figures.add("of them while files are taken away", tally.in_change);
    figures.add("stopped processes that continued", tally.went_on);
    figures.add("stopped processes that were killed", tally.killed);
    figures.add("commits lost", 0);
    figures.add("held locks, with an error in the other process", tally.locked);
    figures.add("longest wait of a process", format!("{:.1?}", tally.longest));
    figures
}

/// One store and one process that stops. Returns false if it ended before that call.
fn trial(effort: &Effort, tally: &mut Tally, job: &str, call: u64, signal: Signal) -> bool {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let mut trial = Trial::new(effort, &folder.path().join("store"), job == FIRST);
    let what = format!("{job}, stopped in call {call}, then {signal:?}");
    let words = ["7", &call.to_string(), job].map(str::to_owned);
    let words = words.each_ref().map(String::as_str);
    let mut stopped = Started::new(what, &mut worker(effort, &trial.site.dir, "stops", &words));
    let stops = stopped.wait_until_stopped();
    if stops {
        tally.stops += 1;
        trial.others(tally);
        stopped.signal(signal);
    }
    let ended = stopped.end();
    match signal {
        _ if !stops => {}
        Signal::KILL => tally.killed += 1,
        _ => tally.went_on += 1,
    }
    trial.note(&ended);
    if signal != Signal::KILL || !stops {
        // A collection may find that another process has collected.
        let _ = ended.expect(if job.ends_with("commit") { &[0] } else { &[0, 5] });
    }
    trial.check();
    stops
}

/// A store with a stopped process on it.
struct Trial<'e> {
    site: Site<'e>,
    /// A handle from before, like that of a long-lived process.
    before: Repository,
    /// Writers that keep their segments.
    writers: Vec<Repository>,
}

impl<'e> Trial<'e> {
    fn new(effort: &'e Effort, dir: &Path, keep_writers: bool) -> Self {
        let mut site = Site::new(effort, dir);
        // Two writers, whose segments become idle afterwards unless the writers stay.
        let mut writers = vec![site.open(), site.open()];
        for (writer, session) in writers.iter().zip(["one", "other"]) {
            for _ in 0..TURNS {
                site.commit(writer, session).expect("a commit");
            }
        }
        if !keep_writers {
            writers.clear();
        }
        let before = site.open_impatient(LIBRARY_PATIENCE);
        Self { site, before, writers }
    }

    /// The actions of other processes while it is stopped.
    fn others(&mut self, tally: &mut Tally) {
        let has_ref_lock = is_locked(&self.site.dir.join("superblock"));
        let in_change = has_ref_lock && epoch(&self.site.dir) % 2 == 1;
        tally.with_ref_lock += u64::from(has_ref_lock);
        tally.in_change += u64::from(in_change);
        self.read();
        let slow = match (in_change, has_ref_lock) {
            (true, _) => &mut tally.waited_for_change,
            (false, true) => &mut tally.waited_for_ref_lock,
            _ => &mut false,
        };
        // A process that meets an unfinished change waits as long as the lock timeout, so try this
        // once.
        if has_ref_lock && std::mem::replace(slow, true) {
            if !in_change {
                self.commit(&[ErrorKind::Locked], tally);
            }
            return;
        }
        // The stopped process may be a collection. An unfinished change also blocks new readers.
        let writes: &[i32] = if has_ref_lock { &[5] } else { &[0] };
        let collects: &[i32] = if has_ref_lock { &[5] } else { &[0, 5] };
        let reads: &[i32] = if in_change { &[5] } else { &[0] };
        // In parallel, since some wait for long.
        let (snapshot, number) = self.site.start_snapshot();
        let others =
            [(&["gc", "--no-wait"][..], collects), (&["fsck"], reads), (&["log", "one"], reads)];
        let others = others.map(|(arguments, codes)| (self.site.start(arguments), codes));
        self.commit(if has_ref_lock { &[ErrorKind::Locked] } else { &[] }, tally);
        for (started, codes) in others {
            let _ = end(started, codes, tally);
        }
        let ended = end(snapshot, writes, tally);
        self.site.note(&ended, number);
    }

    /// A process that has the store open continues to read.
    fn read(&self) {
        let mut prover = Prover::new(&self.before);
        for (branch, tip) in self.before.branches() {
            for entry in self.before.history(&[tip], &[]).expect("the history") {
                let entry = entry.unwrap_or_else(|error| panic!("{branch}: {}", full(&error)));
                let turn = prover.turn(&entry.id, &entry.commit);
                turn.unwrap_or_else(|wrong| panic!("{branch}: {wrong}"));
            }
        }
    }

    /// Commits through the earlier handle.
    fn commit(&mut self, allowed: &[ErrorKind], tally: &mut Tally) {
        let began = Instant::now();
        let committed = self.site.commit(&self.before, "meanwhile");
        tally.longest = tally.longest.max(began.elapsed());
        match committed {
            Ok(_) => assert_eq!(allowed, [], "it was committed"),
            Err(error) => {
                assert!(allowed.contains(&error.kind()), "{}", full(&error));
                tally.locked += 1;
            }
        }
    }

    /// Records the acknowledgements that the stopped process printed after it continued.
    fn note(&mut self, ended: &Ended) {
        for line in String::from_utf8_lossy(&ended.stdout).lines() {
            self.site.promise.add(line.parse().expect("a line of a worker"));
        }
    }

    /// Checks that nothing is locked, and that everything exists.
    fn check(mut self) {
        self.commit(&[], &mut Tally::default());
        let _ = self.site.run(&["gc"]).expect(&[0]);
        drop((self.before, self.writers));
        self.site.check();
    }
}

/// Waits for a process that may have met a lock.
fn end(started: Started, codes: &[i32], tally: &mut Tally) -> Ended {
    let ended = started.end();
    tally.longest = tally.longest.max(ended.took);
    tally.locked += u64::from(ended.code() == Some(5));
    ended.expect(codes)
}

/// True if another handle holds the lock of a file.
///
/// # Panics
/// If the file does not exist.
#[must_use]
pub fn is_locked(path: &Path) -> bool {
    File::open(path).expect("the file").try_lock().is_err()
}

fn epoch(dir: &Path) -> u64 {
    let mut word = [0; 8];
    let superblock = File::open(dir.join("superblock")).expect("the superblock");
    // Before the first change the epoch is missing.
    let read = superblock.read_exact_at(&mut word, AT_EPOCH);
    if read.is_ok() { u64::from_le_bytes(word) } else { 0 }
}
